"""Structure: columns for graphs without features."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from l2g2g.models.node_states import weigh_nodes
from l2g2g.models.preprocessing import FeatureStatistics, append_columns
from l2g2g.models.shared_rows import SharedRows
from l2g2g.models.structure import DegreeTerm, StructureMap, _draw_codes, blend_factor, degree_ends, fit_structure

from ..parallel.threads import run_ranks


def without_loops(adjacency):
    """Dense D^(-1/2) A D^(-1/2) in float64."""
    dense = adjacency.toarray().astype(np.float64)
    scale = 1 / np.sqrt(np.maximum(dense.sum(axis=1), 1))
    return dense * scale[:, None] * scale


def grid_graph(side):
    """(side², side²) adjacency of a square grid."""
    path = sp.diags_array([np.ones(side - 1)] * 2, offsets=[-1, 1])
    eye = sp.eye_array(side)
    return sp.csr_array(sp.kron(path, eye) + sp.kron(eye, path)).astype(np.float32)


def test_structural_columns_are_finite_and_of_the_size_of_features(planted):
    columns = fit_structure(planted.adjacency, 16).columns
    assert columns.shape == (planted.num_nodes, 17)
    assert columns.dtype == np.float32
    assert np.isfinite(columns).all()
    assert columns[:, -1].mean() == pytest.approx(0, abs=1e-5)
    assert columns[:, -1].std() == pytest.approx(1, abs=1e-5)


def test_leading_columns_are_eigenvectors(planted):
    # Four blocks: four large eigenvalues, well apart from the rest.
    columns = fit_structure(planted.adjacency, 12).columns[:, :4].astype(np.float64)
    leading = np.linalg.eigh(without_loops(planted.adjacency))[1][:, ::-1][:, :4]
    directions = np.linalg.qr(columns)[0]
    cosines = np.linalg.svd(directions.T @ leading, compute_uv=False)
    assert cosines.min() > 0.999


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_every_column_of_a_grid_has_converged(weighted):
    """Eigenvalues of a grid lie close together near 1, where a few products with the matrix find nothing."""
    grid = grid_graph(40)
    if weighted:
        upper = sp.triu(grid, format="csr")
        upper.data = np.random.default_rng(0).uniform(0.5, 2, upper.nnz).astype(np.float32)
        grid = sp.csr_array(upper + upper.T)
    structure = fit_structure(grid, 32)
    vectors = structure.columns[:, :-1] / np.sqrt(structure.eigenvalues * len(structure.columns))
    assert 24 < vectors.shape[1] <= 32
    assert structure.num_passes <= 60
    assert np.linalg.norm(without_loops(grid) @ vectors - vectors * structure.eigenvalues, axis=0).max() < 3e-3
    assert vectors.T @ vectors == pytest.approx(np.eye(vectors.shape[1]), abs=1e-3)
    exact = np.linalg.eigvalsh(without_loops(grid))[::-1]
    assert structure.eigenvalues == pytest.approx(exact[: len(structure.eigenvalues)], abs=5e-4)


def test_small_components_get_their_degree_and_no_eigenvector():
    """A hundred pairs and triangles beside a grid: without care each would add an eigenvalue of 1."""
    triangle = np.ones((3, 3)) - np.eye(3)
    parts = [grid_graph(20), *[np.array([[0, 1], [1, 0]])] * 50, *[triangle] * 50, np.zeros((3, 3))]
    graph = sp.csr_array(sp.block_diag(parts, format="csr")).astype(np.float32)
    structure = fit_structure(graph, 8)
    grid, rest = structure.columns[:400, :-1], structure.columns[400:, :-1]
    assert structure.eigenvalues[1] < 0.9999
    assert (rest[:, 1:] == 0).all()
    assert rest[:100, 0] == pytest.approx(grid[0, 0] / np.sqrt(2), rel=1e-4)  # degree 1; a corner of the grid has 2
    assert rest[100:250, 0] == pytest.approx(grid[0, 0], rel=1e-4)
    assert np.isfinite(rest).all()


def test_codes_tell_small_components_apart():
    triangle = np.ones((3, 3)) - np.eye(3)
    graph = sp.csr_array(sp.block_diag([grid_graph(20), *[triangle] * 40, np.zeros((2, 2))])).astype(np.float32)
    structure = fit_structure(graph, 16)
    coded = structure.coded()
    for found, known in ((coded.columns[:400], structure.columns[:400]), (coded.columns[-2:], structure.columns[-2:])):
        assert (found == known).all()
    rows = coded.columns[400:-2, 1:-1]
    assert np.linalg.norm(rows, axis=1) == pytest.approx(coded.columns[400:-2, 0], rel=1e-5)
    products = (rows[::3] @ rows.T).reshape(40, 40, 3) / float(coded.columns[400, 0]) ** 2
    assert np.diagonal(products) == pytest.approx(1, rel=1e-5)
    assert products[~np.eye(40, dtype=bool)].max() < 0.99
    assert abs(products[~np.eye(40, dtype=bool)].mean()) < 0.1
    assert coded.coded() is None
    assert fit_structure(grid_graph(12), 16).coded() is None


def test_ranks_draw_the_codes_of_one_process():
    """One process numbers components as it likes, ranks by their lowest node."""
    numbers, lowest, is_coded = np.array([7, 7, 2, 9, 2]), np.array([0, 0, 2, 3, 2]), np.arange(5) != 3
    alone = _draw_codes(numbers, is_coded, 5, SharedRows(), seed=1)
    assert alone[0] == alone[1] != alone[2] == alone[4]
    assert alone[3] == 0

    def draw(communicator):
        own = slice(0, 2) if communicator.is_first else slice(2, 5)
        return _draw_codes(lowest[own], is_coded[own], 5, SharedRows(communicator), seed=1)

    assert (np.concatenate(run_ranks(2, draw)) == alone).all()
    assert _draw_codes(numbers, is_coded, 200, SharedRows(), seed=1) is None


def test_the_degree_stays_the_first_of_many_eigenvectors_of_the_eigenvalue_one():
    structure = fit_structure(sp.csr_array(sp.block_diag([grid_graph(5)] * 12)).astype(np.float32), 16)
    assert structure.eigenvalues.max() == 1
    assert (structure.leading(1).columns[:, 0] == structure.columns[:, 0]).all()


def test_two_large_components_are_told_apart():
    graph = sp.csr_array(sp.block_diag([grid_graph(12), grid_graph(12)], format="csr")).astype(np.float32)
    structure = fit_structure(graph, 6)
    assert structure.eigenvalues[:2] == pytest.approx(1, abs=1e-4)
    second = structure.columns[:, 1]
    assert (second[:144] * second[144:] < 0).all()


@pytest.fixture(scope="module")
def two_sides():
    """60 + 90 nodes, edges between the two sides only, more of them inside three topics."""
    generator = np.random.default_rng(0)
    topics = np.arange(60)[:, None] % 3 == np.arange(90) % 3
    block = generator.random((60, 90)) < np.where(topics, 0.4, 0.03)
    return sp.csr_array(sp.bmat([[None, sp.csr_array(block)], [sp.csr_array(block.T), None]])).astype(np.float32)


def test_a_bipartite_graph_gets_negative_eigenvalues_too(two_sides):
    structure = fit_structure(two_sides, 4, num_negative=3)
    exact = np.linalg.eigvalsh(without_loops(two_sides))
    assert structure.eigenvalues[:4] == pytest.approx(exact[::-1][:4], abs=1e-3)
    assert structure.eigenvalues[4:] == pytest.approx(exact[:3], abs=1e-3)
    vectors = structure.columns[:, :-1] / np.sqrt(np.abs(structure.eigenvalues) * 150)
    assert np.linalg.norm(without_loops(two_sides) @ vectors - vectors * structure.eigenvalues, axis=0).max() < 3e-3
    sides = structure.columns[:, 4]  # the eigenvalue -1: the degree, with the sign of the side
    assert (sides[:60] * sides[60] < 0).all()
    assert (sides[60:] * sides[60] > 0).all()
    assert structure.leading(9).eigenvalues.min() > 0
    assert structure.leading(4, signed=True).eigenvalues == pytest.approx([1, exact[-2], -1, exact[1]], abs=1e-3)
    assert structure.leading(4, signed=True).columns.shape == (150, 5)


def test_a_graph_that_is_not_bipartite_is_not_asked_for_negative_eigenvalues(planted):
    structure = fit_structure(planted.adjacency, 4, num_negative=3)
    assert not structure.is_signed
    assert (structure.columns == fit_structure(planted.adjacency, 4).columns).all()


def test_structure_tells_blocks_apart(planted):
    columns = fit_structure(planted.adjacency, 4).columns[:, :4]
    centres = np.stack([columns[planted.labels == block].mean(0) for block in range(4)])
    nearest = np.linalg.norm(columns[:, None] - centres, axis=2).argmin(1)
    assert (nearest == planted.labels).mean() > 0.95


def test_structure_follows_its_seed_and_copes_with_isolated_nodes_and_few_nodes(islands, path_of_four):
    first, again = (fit_structure(islands.adjacency, 8, seed=1).columns for _ in range(2))
    assert (first == again).all()
    assert np.isfinite(first).all()
    assert fit_structure(path_of_four, 64).columns.shape[1] <= 5
    regular = sp.csr_array(np.ones((5, 5), np.float32) - np.eye(5, dtype=np.float32))
    assert np.isfinite(fit_structure(regular, 3).columns).all()  # all degrees equal: no deviation to divide by


@pytest.mark.parametrize("sparse", [False, True])
def test_blended_columns_spread_rows_as_much_as_the_features_do(planted, sparse):
    generator = np.random.default_rng(0)
    features = (generator.random((planted.num_nodes, 40)) * (generator.random((planted.num_nodes, 40)) < 0.2)).astype(
        "f4"
    )
    structure = fit_structure(planted.adjacency, 8).columns
    factor = blend_factor(FeatureStatistics.of(features).centre()[1], FeatureStatistics.of(structure).centre()[1])
    blended = append_columns(sp.csr_array(features) if sparse else features, structure * np.float32(factor))
    assert sp.issparse(blended) == sparse
    found = blended.toarray() if sparse else blended
    assert found.shape == (planted.num_nodes, 49)
    assert found.dtype == np.float32
    assert (found[:, :40] == features).all()
    spread = [np.square(part - part.mean(0)).sum() for part in (found[:, :40], found[:, 40:])]
    assert spread[0] == pytest.approx(spread[1], rel=1e-3)
    ratio = found[:, 40:] / structure
    assert ratio.std() < 1e-4 * ratio.mean()


def test_new_nodes_get_the_columns_that_they_would_have_had(planted):
    """Ten nodes are hidden; those who knew them all along give them nearly the same directions."""
    known, new = np.arange(planted.num_nodes - 10), np.arange(planted.num_nodes - 10, planted.num_nodes)
    structure = fit_structure(planted.induce(known).adjacency, 4)
    new_nodes = planted[np.ix_(new, known)]
    degrees = weigh_nodes(planted.induce(known).adjacency)
    found = structure.extend(new_nodes.propagation(degrees, loops=False), new_nodes.degrees)
    assert found.shape == (10, 5)
    assert found.dtype == np.float32
    truth = fit_structure(planted.adjacency, 4).columns
    turn = np.linalg.lstsq(truth[known, :4], structure.columns[:, :4], rcond=None)[0]
    wanted = truth[new, :4] @ turn
    assert np.linalg.norm(found[:, :4] - wanted) < 0.25 * np.linalg.norm(wanted)
    assert found[:, 4] == pytest.approx(truth[new, 4], abs=0.5)


def test_columns_of_new_nodes_stay_in_the_range_of_training():
    ring = sp.csr_array(np.roll(np.eye(8), 1, 0) + np.roll(np.eye(8), -1, 0)).astype(np.float32)
    structure = fit_structure(ring, 8)
    hub = sp.csr_array(np.concatenate([np.full((1, 8), 1 / 3), [[1 / 9]]], axis=1), dtype=np.float32)
    found = structure.extend(hub, np.array([8]))
    assert (np.abs(found) <= np.abs(structure.columns).max(axis=0) + 1e-6).all()
    assert found[0, -1] == pytest.approx(0, abs=1e-5)  # where all degrees are the same, a degree says nothing
    alone = structure.extend(sp.csr_array(([1.0], ([0], [8])), shape=(1, 9)), np.array([0]))
    assert (alone[:, :-1] == 0).all()


def test_what_is_two_steps_away_is_heard_through_new_nodes():
    path = sp.csr_array(np.diag(np.ones(5), 1) + np.diag(np.ones(5), -1)).astype(np.float32)
    structure = fit_structure(path, 2)
    propagation = np.zeros((2, 8), np.float32)
    propagation[0, [5, 6, 7]] = propagation[1, [6, 7]] = 0.4
    near, far = structure.extend(sp.csr_array(propagation), np.array([2, 1]))[:, 0]
    assert near * far > 0
    assert abs(near) > abs(far) > 0


def test_weights_of_the_basis_add_up():
    degrees = np.array([0, 1, 2, 7])
    term = DegreeTerm.blank(degrees)
    assert (term.of(degrees) == 0).all()
    logs = (np.log1p(degrees.clip(2)) - np.log1p(degrees).mean()) / np.log1p(degrees).std()
    weighted = replace(term, weights=np.array([1.0, 10.0, 100.0, 1000.0]))
    expected = np.array([1, 10, 0, 0]) + 100 * logs + 1000 * logs**2
    np.testing.assert_allclose(weighted.of(degrees), expected, rtol=1e-6)
    # Beyond the degrees of training as at their end: a parabola would run away.
    assert weighted.of(np.array([5000]))[0] == weighted.of(np.array([7]))[0]
    assert weighted.with_degrees(np.array([0, 90])).of(np.array([90]))[0] > weighted.of(np.array([90]))[0]


def test_degrees_below_those_of_training_do_not_run_away():
    term = replace(DegreeTerm.blank(np.array([0, 20, 30, 40])), weights=np.array([3.0, 0.0, -1.0, 1.0]))
    below = term.of(np.array([0, 1, 2, 20]))
    np.testing.assert_allclose(below - below[-1], [3, 0, 0, 0], atol=1e-6)  # only 0 has a weight of its own


def test_all_degrees_alike():
    assert degree_ends(np.array([1, 0])) == (1, 1)
    assert degree_ends(np.array([0, 3, 1])) == (3, 3)
    assert np.isfinite(DegreeTerm.blank(np.full(5, 3)).basis(np.array([0, 3, 9]))).all()


def test_a_column_of_the_eigenvalue_0_says_nothing_of_new_nodes():
    columns = np.array([[0.5, 0.2, 0.0], [0.5, -0.2, 1.0]], np.float32)
    structure = StructureMap(columns, np.array([1.0, 0.0], np.float32), 0.0, 1.0)
    weights = sp.csr_array(np.array([[0.5, 0.25, 0.0]]))
    np.testing.assert_allclose(structure.extend(weights, np.array([1])), [[0.375, 0.0, np.log(2)]], rtol=1e-6)
