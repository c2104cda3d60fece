"""Kernels on graphs: the native ones give what the reference gives, on one thread and on two, and refuse bad arrays."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from l2g2g import core
from l2g2g.core import reference

native = pytest.importorskip("l2g2g.core._native")
SEEDS = range(12)


@pytest.fixture(params=[pytest.param(1, marks=pytest.mark.slow), 2], autouse=True)
def threads(request):
    before = native.num_threads()
    core.set_num_threads(request.param)
    yield request.param
    core.set_num_threads(before)


def random_graph(generator, num_nodes, mean_degree):
    """(indptr, indices, values) of a symmetric matrix without diagonal, columns ascending."""
    pairs = generator.integers(0, num_nodes, (2, int(num_nodes * mean_degree / 2)))
    pairs = pairs[:, pairs[0] != pairs[1]]
    matrix = sp.coo_array((np.ones(pairs.shape[1]), tuple(pairs)), shape=(num_nodes, num_nodes))
    matrix = sp.csr_array(matrix + matrix.T)
    matrix.sort_indices()
    return (
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.int32),
        generator.random(matrix.nnz).astype(np.float32),
    )


def random_patches(generator, num_nodes, num_patches):
    """(nodes, offsets) of patches, ascending inside each; some may be empty."""
    patches = [np.flatnonzero(generator.random(num_nodes) < generator.random()) for _ in range(num_patches)]
    return np.concatenate([np.empty(0, np.int64), *patches]), np.cumsum([0] + [len(patch) for patch in patches])


def groups_of(labels, num_labels):
    return np.argsort(labels, kind="stable"), np.searchsorted(np.sort(labels), np.arange(num_labels + 1))


def check_equal(found, expected):
    found, expected = (part if isinstance(part, tuple) else (part,) for part in (found, expected))
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def both(name, *arguments):
    """Call the native kernel and the reference, each with its own copies, and compare results and arguments."""
    copies = [[part.copy() if isinstance(part, np.ndarray) else part for part in arguments] for _ in range(2)]
    found, expected = getattr(native, name)(*copies[0]), getattr(reference, name)(*copies[1])
    if name == "areas_under_curves":
        assert found == pytest.approx(expected, rel=1e-12)
    elif isinstance(expected, np.ndarray | tuple):
        check_equal(found, expected)
    else:
        assert found == expected
    for one, other in zip(*copies, strict=True):
        np.testing.assert_array_equal(one, other)
    return found, copies[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_induced_subgraphs(seed):
    generator = np.random.default_rng(seed)
    num_nodes = int(generator.integers(1, 60))
    indptr, indices, _ = random_graph(generator, num_nodes, 6)
    patches = random_patches(generator, num_nodes, int(generator.integers(0, 7)))
    low = num_nodes // 3
    rest = indptr[low:] - indptr[low], indices[indptr[low] :]
    for rows in ((indptr, indices, 0), (indptr[: low + 1], indices[: indptr[low]], 0), (*rest, low)):
        (new_indptr, _, _), _ = both("induce", *rows, num_nodes, *patches)
        check_equal(both("induced_indptr", *rows, num_nodes, *patches)[0], new_indptr)


@pytest.mark.parametrize("seed", SEEDS)
def test_edges_that_no_patch_holds(seed):
    generator = np.random.default_rng(seed)
    num_nodes = 1 if seed == 0 else 300
    indptr, indices, _ = random_graph(generator, num_nodes, 6)
    held = sp.random_array((num_nodes, 9), density=0.2, rng=generator, format="csr")
    held.sort_indices()
    patches = held.indptr.astype(np.int64), held.indices.astype(np.int32)
    both("cut_edges", indptr, indices, 0, *patches)
    low, high = len(indptr) // 3, len(indptr) - 1
    both("cut_edges", indptr[low:] - indptr[low], indices[indptr[low] : indptr[high]], low, *patches)


@pytest.mark.parametrize("seed", SEEDS)
def test_edges_between_clusters_also_of_a_block_of_rows(seed):
    generator = np.random.default_rng(seed)
    indptr, indices, _ = random_graph(generator, 80, 5)
    labels = generator.integers(0, 6, 80).astype(np.int32)
    both("count_between", indptr, indices, labels, *groups_of(labels, 6))
    block = indptr[20:51] - indptr[20], indices[indptr[20] : indptr[50]]
    both("count_between", *block, labels, *groups_of(labels[20:50], 6))


@pytest.mark.parametrize("seed", SEEDS)
def test_places_of_entries(seed):
    generator = np.random.default_rng(seed)
    indptr, indices, _ = random_graph(generator, 50, 8)
    rows, columns = generator.integers(0, 50, (2, 0 if seed == 0 else 400))
    found, _ = both("find_entries", indptr, indices, rows, columns)
    assert seed == 0 or (found >= 0).any()


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_edges_that_a_mask_hides(seed, share, grouped):
    generator = np.random.default_rng(seed)
    indptr, indices, _ = random_graph(generator, 60, 9)
    hashes = generator.integers(0, 2**32, 60, dtype=np.uint32)
    groups = generator.integers(0, 3, 60).astype(np.int32) if grouped else None
    key, bound = int(generator.integers(2**63)), round(share * 2**32)
    nodes = np.arange(60, dtype=np.int32)
    (rows, columns, entries), _ = both("hidden_edges", indptr, indices, nodes, hashes, groups, key, bound)
    assert (rows < columns).all()
    assert indices[entries].tolist() == columns.tolist()
    if not grouped and share == 1:
        assert len(rows) == len(indices) // 2
    few = np.sort(generator.choice(60, 20, replace=False)).astype(np.int32)
    part = _bounds_of(few, indptr), np.concatenate([indices[indptr[node] : indptr[node + 1]] for node in few])
    (some, _, _), _ = both("hidden_edges", *part, few, hashes, groups, key, bound)
    assert some.tolist() == rows[np.isin(rows, few)].tolist()


def _bounds_of(nodes, indptr):
    return np.concatenate([[0], np.cumsum(np.diff(indptr)[nodes])])


@pytest.mark.parametrize("seed", SEEDS)
def test_sums_over_common_neighbours_and_paths(seed):
    """Weights are whole numbers, so that sums do not depend on their order."""
    generator = np.random.default_rng(seed)
    num_nodes = 60
    indptr, indices, _ = random_graph(generator, num_nodes, 4)
    hub = sp.csr_array((np.ones(len(indices)), indices, indptr), shape=(num_nodes, num_nodes)).tolil()
    hub[0, 1:] = hub[1:, 0] = 1  # rows of very different lengths: all ways to compare two of them are taken
    matrix = sp.csr_array(hub)
    matrix.sort_indices()
    rows = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)
    pairs = generator.integers(0, num_nodes, (2, 0 if seed == 0 else 500))
    pairs[0, :50] = 0
    weights = generator.integers(1, 9, (num_nodes, 2)).astype(np.float64)
    both("common_sums", *rows, *pairs, weights)
    sums = np.zeros(pairs.shape[1])
    for first, last in ((0, 17), (17, num_nodes)):
        block = rows[0][first : last + 1] - rows[0][first], rows[1][rows[0][first] : rows[0][last]]
        _, (*_, sums) = both("path_sums", *rows, *pairs, first, *block, weights[:, 0].copy(), sums)
    scaled = np.diag(weights[:, 0])
    adjacency = (matrix.toarray() > 0).astype(float)
    np.testing.assert_array_equal(sums, (adjacency @ scaled @ adjacency @ scaled @ adjacency)[tuple(pairs)])


@pytest.mark.parametrize("seed", SEEDS)
def test_fennel_in_one_block_and_in_two(seed):
    generator = np.random.default_rng(seed)
    num_nodes, num_clusters = int(generator.integers(20, 150)), int(generator.integers(1, 12))
    indptr, indices, _ = random_graph(generator, num_nodes, generator.integers(0, 10))
    alpha = len(indices) / 2 * np.sqrt(num_clusters) / num_nodes**1.5
    limit = -(-11 * num_nodes // (10 * num_clusters))
    labels, loads = np.full(num_nodes, -1, np.int32), np.zeros(num_clusters, np.int64)
    cut = num_nodes // 3
    halves = labels.copy(), loads.copy()
    for _ in range(3):
        num_moved, (_, _, _, labels, loads, _, _) = both("fennel", indptr, indices, 0, labels, loads, alpha, limit)
        moved_in_halves = native.fennel(indptr[: cut + 1], indices[: indptr[cut]], 0, *halves, alpha, limit)
        rest = indptr[cut:] - indptr[cut], indices[indptr[cut] :]
        moved_in_halves += native.fennel(*rest, cut, *halves, alpha, limit)
        assert moved_in_halves == num_moved
        np.testing.assert_array_equal(halves[0], labels)
        np.testing.assert_array_equal(loads, np.bincount(labels, minlength=num_clusters))
        assert loads.max() <= limit


def test_fennel_is_the_formula_over_all_clusters():
    # Written once more without the shortcut to the least loaded cluster: every cluster is tried, the first best wins.
    generator = np.random.default_rng(0)
    indptr, indices, _ = random_graph(generator, 200, 6)
    alpha, limit = len(indices) / 2 * np.sqrt(7) / 200**1.5, -(-11 * 200 // 70)
    labels, loads = np.full(200, -1, np.int32), np.zeros(7, np.int64)
    expected, counts = labels.copy(), loads.copy()
    for _ in range(2):
        native.fennel(indptr, indices, 0, labels, loads, alpha, limit)
        for node in range(200):
            if expected[node] >= 0:
                counts[expected[node]] -= 1
            around = expected[indices[indptr[node] : indptr[node + 1]]]
            scores = np.bincount(around[around >= 0], minlength=7) - 1.5 * alpha * np.sqrt(counts)
            expected[node] = np.where(counts < limit, scores, -np.inf).argmax()
            counts[expected[node]] += 1
        np.testing.assert_array_equal(labels, expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_boundary_nodes_in_one_block_and_in_two(seed):
    generator = np.random.default_rng(seed)
    indptr, indices, _ = random_graph(generator, 90, generator.integers(0, 8))
    labels = np.concatenate([np.arange(6), generator.integers(0, 6, 84)]).astype(np.int32)
    pairs = np.array([(i, j) for i in range(6) for j in range(i + 1, 6) if (i + j) % 4])
    bounds = np.concatenate([[0], np.cumsum(generator.integers(0, 12, 2 * len(pairs)))])
    empty = np.full(bounds[-1], -1), np.zeros(bounds[-1], np.int64)
    _, (*_, nodes, ties) = both("boundary_nodes", indptr, indices, 0, labels, pairs, bounds, *empty)
    halves, cut = [part.copy() for part in empty], 31
    _, (*_, one, other) = both(
        "boundary_nodes", indptr[: cut + 1], indices[: indptr[cut]], 0, labels, pairs, bounds, *halves
    )
    rest = indptr[cut:] - indptr[cut], indices[indptr[cut] :]
    _, (*_, one, other) = both("boundary_nodes", *rest, cut, labels, pairs, bounds, one, other)
    np.testing.assert_array_equal(one, nodes)
    np.testing.assert_array_equal(other, ties)
    for place, (low, high) in enumerate(pairwise(bounds)):
        giver, taker = pairs.flat[place], pairs.flat[place ^ 1]
        counts = {
            node: count
            for node in np.flatnonzero(labels == giver)
            if (count := (labels[indices[indptr[node] : indptr[node + 1]]] == taker).sum())
        }
        expected = sorted(counts, key=lambda node: -counts[node])[: high - low]
        assert nodes[low:high].tolist() == expected + [-1] * (high - low - len(expected))


def test_pairs_in_the_order_of_their_rows():
    generator = np.random.default_rng(0)
    for num_pairs in (0, 1, 500):
        rows, columns = generator.integers(0, 40, (2, num_pairs)).astype(np.int32)
        both("sort_pairs", rows, columns, 50)


def test_rows_are_added_at_their_places():
    generator = np.random.default_rng(0)
    rows, table = generator.random((30, 5), np.float32), generator.random((9, 5), np.float32)
    places, factors = generator.integers(0, 9, 30).astype(np.int32), generator.random(30, np.float32)
    expected = table + sum(
        np.eye(9)[place][:, None] * factor * row for place, factor, row in zip(places, factors, rows, strict=True)
    )
    native.add_rows(rows, places, factors, table)
    np.testing.assert_allclose(table, expected, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_inner_products(dtype):
    generator = np.random.default_rng(0)
    embedding = generator.standard_normal((40, 7)).astype(dtype)
    both("inner_products", embedding, *generator.integers(0, 40, (2, 20_000)))


@pytest.mark.parametrize("seed", SEEDS)
def test_areas_under_curves(seed):
    generator = np.random.default_rng(seed)
    edges, others = (np.sort(generator.normal(mean, 1, 200 - seed).round(seed % 3)) for mean in (1, 0))
    both("areas_under_curves", edges, others)


@pytest.mark.parametrize("seed", SEEDS)
def test_candidates_of_ranks(seed):
    generator = np.random.default_rng(seed)
    indptr, indices, _ = random_graph(generator, 40, 8)
    fixed, places = generator.integers(0, 40, 600), np.sort(generator.integers(0, 40, (600, 3)), axis=1)
    low, starts, high = places[:, 0], places[:, 1], places[:, 2] + 1
    low, starts, high = (np.ascontiguousarray(part) for part in (low, starts, high))
    downwards = generator.random(600) < 0.5
    order = generator.permutation(40)
    found, _ = both("draw_candidates", fixed, order, low, high, starts, downwards, indptr, indices, 10 + 3 * seed)
    assert seed < 11 or (found == -1).any()


@pytest.mark.parametrize("digits", [0, 5])
def test_the_best_nodes_of_rows(digits):
    generator = np.random.default_rng(digits)
    own = generator.integers(0, 300, 20)
    scores, nodes = np.full((20, 6), -np.inf, np.float32), np.full((20, 6), -1, np.int64)
    for first in (0, 150):
        block = generator.standard_normal((20, 150)).round(digits).astype(np.float32)
        block[3] = -np.inf
        _, (_, _, _, scores, nodes) = both("keep_best", block, first, own, scores, nodes)
    assert (nodes[3] == -1).all()
    assert (nodes[:3] != own[:3, None]).all()


def test_bounds_of_boxes():
    generator = np.random.default_rng(0)
    ends = np.sort(generator.standard_normal((2, 30, 5)), axis=0)
    others = np.sort(generator.standard_normal((2, 20, 5)), axis=0)
    both("bound_boxes", *ends, *others, generator.random(30) * 4, generator.random(20) * 4)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("same", "one_way"), [(True, False), (False, False), (False, True)])
def test_the_best_pairs_of_groups(seed, same, one_way):
    generator = np.random.default_rng(seed)
    num_nodes, room, threshold = 50, 1 + 4 * seed, float(generator.choice([-np.inf, 0.0, 1.0]))
    indptr, indices, _ = random_graph(generator, num_nodes, 6)
    order, starts = generator.permutation(num_nodes), np.array([0, 15, 15, 31, 50])
    other = (order, starts) if same else (generator.permutation(num_nodes), np.array([0, 20, 41, 50]))
    tiles = generator.permutation(4 * (len(other[1]) - 1))[:9]
    products = generator.standard_normal((len(tiles), 20, 21)).round(1).astype(np.float32)
    arguments = products, tiles, order, starts, *other, indptr, indices, threshold, same, one_way
    kept = [(np.zeros((len(tiles), room), np.float32), np.zeros((len(tiles), room), np.int64)) for _ in range(2)]
    found, expected = native.best_pairs(*arguments, *kept[0]), reference.best_pairs(*arguments, *kept[1])
    np.testing.assert_array_equal(found, expected)
    for tile, count in enumerate(found):  # a heap has no order, so both are sorted
        pairs = [sorted(zip(scores[tile, :count], keys[tile, :count], strict=True)) for scores, keys in kept]
        assert pairs[0] == pairs[1]


# A path of three nodes, and for each kernel arguments that fit, as a start for those that do not.
INDPTR, INDICES, VALUES = np.array([0, 1, 3, 4]), np.array([1, 0, 2, 1], np.int32), np.ones(4, np.float32)
PATTERN = {"indptr": INDPTR, "indices": INDICES}
LABELS = {"labels": np.array([0, 0, 1], np.int32), "members": np.arange(3), "starts": np.array([0, 2, 3])}
PATCHES = {"nodes": np.array([0, 1, 2]), "offsets": np.array([0, 2, 3])}
BOXES = {"low": np.zeros((2, 3)), "high": np.ones((2, 3)), "other_low": np.zeros((1, 3)), "other_high": np.ones((1, 3))}
GROUPS = {name: np.array(value) for name, value in (("order", [0, 1, 2]), ("starts", [0, 2, 3]))}
BEST = {"scores": np.zeros((2, 2), np.float32), "keys": np.zeros((2, 2), np.int64)}
GOOD = {
    "induced_indptr": {**PATTERN, "first_node": 0, "num_nodes": 3, **PATCHES},
    "induce": {**PATTERN, "first_node": 0, "num_nodes": 3, **PATCHES},
    "cut_edges": {**PATTERN, "first_node": 0, "held_indptr": np.arange(4), "held": np.array([0, 0, 1], np.int32)},
    "count_between": {**PATTERN, **LABELS},
    "find_entries": {**PATTERN, "rows": np.array([0]), "columns": np.array([1])},
    "hidden_edges": {
        **PATTERN,
        "nodes": np.arange(3, dtype=np.int32),
        "hashes": np.zeros(3, np.uint32),
        "groups": None,
        "key": 1,
        "bound": 5,
    },
    "sort_pairs": {"rows": np.array([2, 0], np.int32), "columns": np.array([1, 1], np.int32), "num_rows": 3},
    "add_rows": {
        "rows": np.ones((2, 3), np.float32),
        "places": np.array([1, 0], np.int32),
        "factors": np.ones(2, np.float32),
        "table": np.zeros((4, 3), np.float32),
    },
    "common_sums": {**PATTERN, "sources": np.array([0]), "targets": np.array([1]), "weights": np.ones((3, 1))},
    "path_sums": {
        **PATTERN,
        "sources": np.array([0]),
        "targets": np.array([1]),
        "first": 0,
        "block_indptr": PATTERN["indptr"],
        "block_indices": PATTERN["indices"],
        "factors": np.ones(3),
        "sums": np.zeros(1),
    },
    "fennel": {
        **PATTERN,
        "first_node": 0,
        "labels": np.full(3, -1, np.int32),
        "loads": np.zeros(2, np.int64),
        "alpha": 0.5,
        "limit": 2,
    },
    "boundary_nodes": {
        **PATTERN,
        "first_node": 0,
        "labels": LABELS["labels"],
        "pairs": np.array([[0, 1]]),
        "bounds": np.array([0, 1, 2]),
        "nodes": np.full(2, -1),
        "ties": np.zeros(2, np.int64),
    },
    "inner_products": {"embedding": np.ones((3, 2), np.float32), "sources": np.array([0]), "targets": np.array([1])},
    "areas_under_curves": {"edges": np.array([1.0]), "others": np.array([0.0])},
    "draw_candidates": {
        "fixed": np.array([0]),
        "order": np.array([0, 1, 2]),
        "low": np.array([1]),
        "high": np.array([3]),
        "starts": np.array([2]),
        "downwards": np.array([True]),
        **PATTERN,
        "num_candidates": 1,
    },
    "keep_best": {
        "block": np.ones((2, 3), np.float32),
        "first": 0,
        "own": np.array([0, 1]),
        "scores": np.zeros((2, 2), np.float32),
        "nodes": np.zeros((2, 2), np.int64),
    },
    "bound_boxes": {**BOXES, "longest": np.ones(2), "other_longest": np.ones(1)},
    "best_pairs": {
        "products": np.ones((2, 2, 2), np.float32),
        "tiles": np.array([0, 3]),
        **GROUPS,
        **{f"other_{name}": value for name, value in GROUPS.items()},
        **PATTERN,
        "threshold": 0.0,
        "same": True,
        "one_way": False,
        **BEST,
    },
}
BAD = [
    ("induce", {"indptr": np.array([0, 5, 3, 4])}, ValueError),
    ("induce", {"indptr": np.array([0, 1, 3, 9])}, ValueError),
    ("induce", {"indptr": np.array([-1, 1, 3, 4])}, ValueError),
    ("induce", {"indptr": np.empty(0, np.int64)}, ValueError),
    ("induce", {"indices": np.array([1, 0, 3, 1], np.int32)}, IndexError),
    ("induce", {"indices": np.array([1, 0, -1, 1], np.int32)}, IndexError),
    ("induce", {"num_nodes": 2}, IndexError),
    ("induce", {"nodes": np.array([0, 1, 3])}, IndexError),
    ("induce", {"nodes": np.array([0, 1, -1])}, IndexError),
    ("induce", {"offsets": np.array([0, 2, 4])}, ValueError),
    ("induced_indptr", {"offsets": np.array([2, 0, 3])}, ValueError),
    ("induced_indptr", {"nodes": np.array([0, 1, 3])}, IndexError),
    ("cut_edges", {"held_indptr": np.arange(3)}, IndexError),
    ("cut_edges", {"first_node": 1}, ValueError),
    ("cut_edges", {"first_node": -1}, ValueError),
    ("cut_edges", {"held_indptr": np.arange(4) + 1}, ValueError),
    ("count_between", {"labels": np.array([0, 0, 2], np.int32)}, IndexError),
    ("count_between", {"labels": np.array([0, 0, -1], np.int32)}, IndexError),
    ("count_between", {"labels": np.array([0, 0], np.int32)}, IndexError),
    ("count_between", {"members": np.array([0, 1, 3])}, IndexError),
    ("count_between", {"starts": np.array([0, 2, 4])}, ValueError),
    ("sort_pairs", {"rows": np.array([3, 0], np.int32)}, IndexError),
    ("sort_pairs", {"rows": np.array([-1, 0], np.int32)}, IndexError),
    ("sort_pairs", {"num_rows": -1}, IndexError),
    ("sort_pairs", {"columns": np.zeros(3, np.int32)}, ValueError),
    ("add_rows", {"places": np.array([4, 0], np.int32)}, IndexError),
    ("add_rows", {"places": np.zeros(1, np.int32)}, ValueError),
    ("add_rows", {"factors": np.zeros(1, np.float32)}, ValueError),
    ("add_rows", {"table": np.zeros((4, 2), np.float32)}, ValueError),
    ("common_sums", {"sources": np.array([3])}, IndexError),
    ("common_sums", {"targets": np.array([1, 2])}, ValueError),
    ("common_sums", {"weights": np.ones((2, 1))}, ValueError),
    ("path_sums", {"first": 1}, ValueError),
    ("path_sums", {"targets": np.array([-1])}, IndexError),
    ("path_sums", {"factors": np.ones(2)}, ValueError),
    ("path_sums", {"sums": np.zeros(2)}, ValueError),
    ("find_entries", {"rows": np.array([3])}, IndexError),
    ("find_entries", {"rows": np.array([-1])}, IndexError),
    ("find_entries", {"columns": np.array([1, 2])}, ValueError),
    ("hidden_edges", {"nodes": np.arange(2, dtype=np.int32)}, ValueError),
    ("hidden_edges", {"nodes": np.array([0, 1, 3], np.int32)}, IndexError),
    ("hidden_edges", {"groups": np.zeros(2, np.int32)}, ValueError),
    ("hidden_edges", {"hashes": np.zeros(2, np.uint32)}, IndexError),
    ("find_entries", {"indptr": np.array([0, 9, 9, 9])}, ValueError),
    ("fennel", {"first_node": 1}, ValueError),
    ("fennel", {"first_node": -1}, ValueError),
    ("fennel", {"labels": np.array([2, -1, -1], np.int32)}, IndexError),
    ("fennel", {"labels": np.array([-1, 2, -1], np.int32)}, IndexError),
    ("fennel", {"labels": np.array([-1, -2, -1], np.int32)}, IndexError),
    ("fennel", {"loads": np.empty(0, np.int64)}, ValueError),
    ("boundary_nodes", {"labels": np.zeros(2, np.int32)}, IndexError),
    ("boundary_nodes", {"labels": np.array([0, -1, 1], np.int32)}, IndexError),
    ("boundary_nodes", {"first_node": 1}, ValueError),
    ("boundary_nodes", {"first_node": -1}, ValueError),
    ("boundary_nodes", {"pairs": np.array([[0, 2]])}, IndexError),
    ("boundary_nodes", {"pairs": np.array([[-1, 0]])}, IndexError),
    ("boundary_nodes", {"pairs": np.array([[0, 1, 1]])}, ValueError),
    ("boundary_nodes", {"bounds": np.array([0, 2])}, ValueError),
    ("boundary_nodes", {"bounds": np.array([0, 1, 3])}, ValueError),
    ("boundary_nodes", {"ties": np.zeros(3, np.int64)}, ValueError),
    ("inner_products", {"sources": np.array([3])}, IndexError),
    ("inner_products", {"targets": np.array([-1])}, IndexError),
    ("inner_products", {"targets": np.array([0, 1])}, ValueError),
    ("areas_under_curves", {"edges": np.empty(0)}, ValueError),
    ("draw_candidates", {"fixed": np.array([3])}, IndexError),
    ("draw_candidates", {"fixed": np.array([0, 1])}, ValueError),
    ("draw_candidates", {"order": np.array([0, 1, 3])}, IndexError),
    ("draw_candidates", {"order": np.array([0, 1])}, ValueError),
    ("draw_candidates", {"high": np.array([4])}, IndexError),
    ("draw_candidates", {"starts": np.array([3])}, IndexError),
    ("draw_candidates", {"downwards": np.array([True, True])}, ValueError),
    ("draw_candidates", {"num_candidates": -1}, ValueError),
    ("keep_best", {"own": np.array([0])}, ValueError),
    ("keep_best", {"nodes": np.zeros((2, 3), np.int64)}, ValueError),
    ("keep_best", {"block": np.ones((3, 3), np.float32)}, ValueError),
    ("bound_boxes", {"longest": np.ones(3)}, ValueError),
    ("bound_boxes", {"other_high": np.ones((1, 2))}, ValueError),
    ("best_pairs", {"tiles": np.array([0, 4])}, IndexError),
    ("best_pairs", {"tiles": np.array([0, -1])}, IndexError),
    ("best_pairs", {"tiles": np.array([0])}, ValueError),
    ("best_pairs", {"order": np.array([0, 3, 1])}, IndexError),
    ("best_pairs", {"starts": np.array([0, 2, 4])}, ValueError),
    ("best_pairs", {"products": np.ones((2, 1, 2), np.float32)}, ValueError),
    ("best_pairs", {"indptr": np.array([0, 9, 9, 9])}, ValueError),
    ("best_pairs", {"keys": np.zeros((2, 3), np.int64)}, ValueError),
]


def fresh(name, **changed):
    arguments = {**GOOD[name], **changed}
    return {key: value.copy() if isinstance(value, np.ndarray) else value for key, value in arguments.items()}


@pytest.mark.parametrize("name", GOOD)
def test_arguments_have_the_same_names_in_both(name):
    found, expected = getattr(native, name)(**fresh(name)), getattr(reference, name)(**fresh(name))
    assert type(found) is type(expected)


@pytest.mark.parametrize(("name", "changed", "error"), BAD)
def test_bad_arguments_are_refused(name, changed, error):
    with pytest.raises(error):
        getattr(native, name)(**fresh(name, **changed))


@pytest.mark.parametrize("name", GOOD)
def test_arrays_of_another_type_or_layout_are_refused(name):
    for key, value in GOOD[name].items():
        if not isinstance(value, np.ndarray):
            continue
        wrong = [value.astype(np.float16), value[None], np.repeat(value, 2, axis=-1)[..., ::2]]
        for array in wrong if value.shape[-1] > 1 else wrong[:2]:
            with pytest.raises(TypeError):
                getattr(native, name)(**fresh(name) | {key: array})


def test_read_only_inputs_are_taken_and_read_only_outputs_refused():
    arguments = fresh("fennel")
    for key in ("indptr", "indices"):
        arguments[key].flags.writeable = False
    native.fennel(**arguments)
    arguments["labels"].flags.writeable = False
    with pytest.raises(TypeError):
        native.fennel(**arguments)


def test_every_kernel_says_what_it_returns_and_takes():
    for name, arguments in GOOD.items():
        text = getattr(native, name).__doc__
        for key in arguments:
            assert key in text.split("\n", 1)[1], (name, key)
