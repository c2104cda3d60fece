"""Choices: validation pairs decide between trained and spectral vectors; what was chosen works like any model."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from l2g2g import GAE, L2G2G
from l2g2g.config import make_config
from l2g2g.errors import InputError
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.splits import split_links
from l2g2g.graphs.store import write_graph
from l2g2g.models.shared_rows import SharedRows
from l2g2g.models.structure import fit_structure
from l2g2g.parallel.communicator import LOCAL
from l2g2g.runs import spectral
from l2g2g.runs.choices import Choice, adds_to_training, choose_assembly, choose_blend, choose_negatives, choose_vectors
from l2g2g.runs.embed import embed_graph
from l2g2g.runs.evaluate import evaluate_baseline, evaluate_graph
from l2g2g.runs.ranks import share_split
from l2g2g.runs.spectral import StructuralColumns, find_spectral, fit_log_odds, needed_gain

from ..parallel.threads import run_ranks


@pytest.fixture(scope="module")
def grid():
    """A square grid: no features, and what is near says everything."""
    side = 36
    numbers = np.arange(side * side).reshape(side, side)
    across, down = (numbers[:, :-1], numbers[:, 1:]), (numbers[:-1], numbers[1:])
    sources, targets = (np.concatenate([across[end].ravel(), down[end].ravel()]) for end in (0, 1))
    return Graph.from_arcs(sources, targets, num_nodes=side * side, name="grid")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gae", "l2g2g"])
def test_a_grid_gets_spectral_vectors_which_beat_the_trained_ones(grid, method):
    trained, _ = evaluate_graph(grid, make_config(method, structure="none", degree_term=False, patches=4))
    row, run = evaluate_graph(grid, make_config(method, patches=4))
    assert row["structure"] == row["chosen"]["vectors"] == "spectral"
    assert row["auc"] > trained["auc"] + 0.01
    scores = row["chosen"]["validation_auc"]
    assert scores["spectral"] > scores["trained"]
    assert row["chosen"]["row_power"] in (0.0, 0.5, 1.0)
    assert 0 < row["seconds"]["choose"] < row["seconds"]["total"]
    assert "spectral" not in trained["chosen"].get("validation_auc", {})
    assert row["dim"] == run.embedding.shape[1] == 16


@pytest.mark.slow
def test_the_accurate_preset_takes_the_inner_product_for_them(grid, tmp_path):
    config = make_config("gae", "accurate", epochs=10)
    row, run = evaluate_graph(grid, config)
    assert row["chosen"]["vectors"] == "spectral"
    assert (row["dim"], config.decoder) == (128, "product")
    assert run.config.decoder in ("inner", "signed")
    assert row["auc"] > 0.97
    model = GAE(preset="accurate", epochs=10).fit(grid)
    model.save(tmp_path / "run")
    assert (GAE.load(tmp_path / "run").embedding_ == model.embedding_).all()
    scores = model.predict_links([(0, 1), (0, grid.num_nodes - 1)])
    assert scores[0] > 0.5 > scores[1]


@pytest.mark.parametrize(("gain", "width"), [(1.0, 16), (-1.0, 32)])
def test_more_eigenvectors_must_gain(grid, monkeypatch, gain, width):
    monkeypatch.setattr(spectral, "needed_gain", lambda auc, num_edges: gain)
    split = split_links(grid, seed=0)
    config = make_config("gae", preset="accurate", structure_width=32)
    assert find_spectral(fit_structure(split.train.adjacency, 32), 0, split.validation, config).width == width


def test_where_only_degrees_say_anything_one_eigenvector_is_enough():
    generator = np.random.default_rng(0)
    wanted = generator.pareto(3, 1500) + 0.5
    ends = generator.choice(1500, (2, 3000), p=wanted / wanted.sum())
    graph = Graph.from_arcs(*ends[:, ends[0] != ends[1]], num_nodes=1500, name="degrees")
    split = split_links(graph, seed=0)
    structure, config = fit_structure(split.train.adjacency, 64), make_config("gae")
    found = find_spectral(structure, 0, split.validation, config)
    assert (found.width, found.inputs.num_columns) == (1, 2)
    ends = spectral._PairEnds.of(structure, split.validation, SharedRows())
    assert found.auc > spectral._best_of_width(ends, 16, config)[0] + 0.03


@pytest.fixture(scope="module")
def islands_of_ten():
    """Two hundred components of ten nodes, each a ring with four chords, and a larger ring."""
    ring = np.arange(10)
    sources, targets = np.append(ring, [0, 1, 2, 3]), np.append((ring + 1) % 10, [5, 6, 7, 8])
    shift = 10 * np.arange(200)[:, None]
    larger = 2000 + np.arange(14)
    ends = np.append(sources + shift, larger), np.append(targets + shift, np.roll(larger, 1))
    return Graph.from_arcs(*ends, num_nodes=2014, name="islands")


def test_many_small_components_are_told_apart_by_codes(islands_of_ten, tmp_path):
    split, config = split_links(islands_of_ten, seed=0), make_config("gae")
    found = find_spectral(fit_structure(split.train.adjacency, 64), 0, split.validation, config)
    assert found.is_coded
    assert found.auc > 0.95
    model = GAE(structure="spectral").fit(islands_of_ten)
    model.save(tmp_path)
    assert (GAE.load(tmp_path).embedding_ == model.embedding_).all()
    directions = model.embedding_ / np.linalg.norm(model.embedding_, axis=1, keepdims=True)
    products = directions[:2000:10] @ directions[5:2000:10].T
    assert np.diagonal(products).min() > 0.99
    assert np.median(products) < 0.9


def test_the_first_look_at_a_graph_with_features_knows_signs(documents):
    graph = replace(documents, features=np.ones((documents.num_nodes, 3), np.float32))
    assert StructuralColumns(graph, make_config("gae"), LOCAL).rough_spectral().is_signed


@pytest.mark.slow
def test_another_seed_chooses_the_same(grid):
    rows = [evaluate_graph(grid, make_config("gae", seed=seed, degree_term=False))[0] for seed in (1, 2)]
    assert [row["structure"] for row in rows] == ["spectral"] * 2


def test_spectral_vectors_can_be_asked_for_and_nothing_is_trained(grid):
    row, run = evaluate_graph(grid, make_config("gae", structure="spectral", dim=8))
    assert row["epochs"] == 0
    assert row["auc"] > 0.9
    assert run.embedding.shape == (grid.num_nodes, 8)
    for wrong in ({"decoder": "cosine"}, {"skip": False}, {"method": "vgae"}, {"method": "gae+l2g"}):
        with pytest.raises(InputError, match="--structure spectral needs"):
            make_config(**{"method": "gae", "structure": "spectral", **wrong})


def test_final_vectors_are_those_of_all_edges(grid):
    """The edges that validation held out count in the end: columns are eigenvectors of the whole graph."""
    run = embed_graph(grid, make_config("gae", structure="spectral", dim=6), keep=True)
    assert run.chosen["validation_auc"]["spectral"] > 0.8
    structure = run.fitted.inputs.structure
    scale = 1 / np.sqrt(np.asarray(grid.adjacency.sum(axis=1)).ravel())
    matrix = sp.diags_array(scale) @ grid.adjacency @ sp.diags_array(scale)
    vectors = structure.columns[:, :6] / np.linalg.norm(structure.columns[:, :6], axis=0)
    assert np.linalg.norm(matrix @ vectors - vectors * structure.eigenvalues, axis=0).max() < 3e-3
    lengths = np.linalg.norm(structure.columns[:, :6], axis=1) ** run.chosen["row_power"]
    powers = structure.eigenvalues ** run.chosen["eigenvalue_power"]
    ratio = run.embedding / (structure.columns[:, :6] / lengths[:, None] * powers)
    assert ratio == pytest.approx(ratio.mean(), rel=1e-3)


def test_memory_and_disk_choose_the_same_and_score_alike(grid, tmp_path):
    stored = write_graph(grid, tmp_path / "store")
    config = make_config("l2g2g", structure="spectral", patches=4)
    in_memory, on_disk = (evaluate_graph(graph, config)[0] for graph in (grid, stored))
    assert on_disk["auc"] == pytest.approx(in_memory["auc"], abs=1e-3)


def test_a_spectral_model_is_saved_and_gives_new_nodes_vectors(grid, tmp_path):
    model = GAE(structure="spectral", dim=8).fit(grid)
    model.save(tmp_path / "run")
    loaded = GAE.load(tmp_path / "run")
    assert (loaded.embedding_ == model.embedding_).all()
    sources, targets = grid.edges()
    more = np.append(sources, [50, 51]), np.append(targets, [grid.num_nodes] * 2)
    grown = Graph.from_arcs(*more, num_nodes=grid.num_nodes + 1)
    vectors = loaded.transform(grown)
    assert (vectors[:-1] == model.embedding_).all()
    scores = model.embedding_ @ vectors[-1]
    assert scores[[50, 51]].mean() > np.quantile(scores, 0.95)


@pytest.fixture(scope="module")
def documents():
    """200 documents and 300 words, no features: a word belongs to one of five topics, some are frequent."""
    generator = np.random.default_rng(0)
    chance = np.where(np.arange(200)[:, None] % 5 == np.arange(300) % 5, 0.25, 0.01)
    chance = chance * generator.uniform(0.3, 1.5, 300)
    sources, targets = np.nonzero(generator.random((200, 300)) < chance)
    return Graph.from_arcs(sources, targets + 200, num_nodes=500, name="documents")


def test_a_bipartite_graph_gets_signed_vectors_that_reach_the_spectral_baseline(documents, tmp_path):
    config = make_config("l2g2g", patches=4, structure="spectral")
    row, run = evaluate_graph(documents, config)
    plain, _ = evaluate_graph(documents, replace(config, rotate=True))  # rotations would mix the signs
    baseline = evaluate_baseline(documents, "spectral", config)
    assert run.config.decoder == "signed"
    assert row["auc"] > baseline["auc"] - 0.005
    assert row["auc"] > plain["auc"] + 0.02
    stored, _ = evaluate_graph(write_graph(documents, tmp_path / "store"), config)
    assert stored["auc"] == pytest.approx(row["auc"], abs=2e-3)


def test_a_signed_model_is_saved_and_gives_new_nodes_vectors(documents, tmp_path):
    model = L2G2G(structure="spectral", dim=12, patches=4).fit(documents)
    assert model.config_.decoder == "signed"
    model.save(tmp_path / "run")
    loaded = L2G2G.load(tmp_path / "run")
    sources, targets = documents.edges()
    words = np.flatnonzero(np.arange(300) % 5 == 2)[:8] + 200
    more = np.append(sources, np.full(8, 500)), np.append(targets, words)
    vectors = loaded.transform(Graph.from_arcs(*more, num_nodes=501))
    assert (vectors[:-1] == model.embedding_).all()
    nodes = np.arange(500)
    scores = loaded.fitted.model.decoder.score(vectors, np.full(500, 500), nodes)
    topic = nodes[200:] % 5 == 2
    assert scores[200:][topic].mean() > scores[200:][~topic].mean() > scores[:200].mean()


@pytest.mark.slow
def test_beside_features_structure_gets_a_first_look(grid, planted):
    noise = np.random.default_rng(0).normal(size=(grid.num_nodes, 3)).astype(np.float32)
    row, _ = evaluate_graph(replace(grid, features=noise), make_config("gae"))
    assert row["structure"] == "spectral"
    assert row["auc"] > 0.95
    assert {"spectral", "spectral, rough", "none, short"} <= set(row["chosen"]["validation_auc"])
    row, _ = evaluate_graph(replace(planted, features=np.eye(4, dtype=np.float32)[planted.labels]), make_config("gae"))
    assert row["structure"] == "none"


def test_features_that_are_not_read_may_still_be_given(planted):
    model = L2G2G(structure="spectral", dim=4, patches=2).fit(planted)
    assert model.transform(planted).shape == (planted.num_nodes, 4)


def test_the_better_score_wins_by_a_margin(grid):
    spectral = find_spectral(fit_structure(grid.adjacency, 16), 0, None, make_config("gae"))
    assert spectral.auc is None
    assert choose_vectors(Choice("none"), 0.8, spectral).structure == "none"
    cases = ((0.81, 100, "spectral"), (0.801, 10**6, "blend"), (0.7, 10**6, "blend"), (0.81, 99, "blend"))
    for auc, num_edges, wanted in cases:
        judged = replace(spectral, auc=auc, num_edges=num_edges)
        choice = choose_vectors(Choice("blend", {"spectral": auc}), 0.8, judged)
        assert choice.structure == wanted
        assert choice.scores == {"spectral": auc, "trained": 0.8}
        assert "trained 80.0" in choice.summary()


@pytest.mark.parametrize("width", [5, 8])
def test_a_graph_with_other_eigenvectors_gets_a_model_of_its_width(grid, width):
    config = make_config("gae", dim=8)
    spectral = find_spectral(fit_structure(grid.adjacency, 13 - width), 0, None, config)
    found = spectral.refitted(fit_structure(grid.adjacency, width), config)
    assert found.inputs.num_columns == width + 1 != spectral.inputs.num_columns
    assert found.model.encoder_of(0).skip.shape == (width + 1, 8)
    expected = find_spectral(fit_structure(grid.adjacency, width), 0, None, config).model.state_dict()
    for name, value in found.model.state_dict().items():
        np.testing.assert_array_equal(value, expected[name])


def test_few_edges_need_a_larger_gain():
    assert needed_gain(0.9, 10**6) == 0.002
    assert needed_gain(0.9, 100) == pytest.approx(0.015)


def test_log_odds_of_a_known_score():
    generator = np.random.default_rng(0)
    scores = generator.normal(size=20_000)
    is_edge = generator.random(20_000) < 1 / (1 + np.exp(-(2 * scores - 1)))
    assert fit_log_odds(scores, is_edge) == pytest.approx((2, -1), abs=0.1)
    assert fit_log_odds(scores, ~is_edge) == (1.0, 0.0)


def test_negatives_are_chosen_by_validation_and_the_better_training_goes_on(planted):
    how = {"structure": "none", "epochs": 40, "degree_term": False}
    auto, _ = evaluate_graph(planted, make_config("gae", negative_sampling="auto", **how))
    chosen = auto["chosen"]
    assert set(chosen["validation_auc"]) == {"uniform, short", "degree, short"}
    forced, run = evaluate_graph(planted, make_config("gae", negative_sampling=chosen["negative_sampling"], **how))
    assert auto["auc"] == forced["auc"]
    assert auto["epochs"] == forced["epochs"] == run.trained.history.num_epochs


def test_a_clear_lead_decides_about_blending_and_negatives():
    for lead, structure, negatives in ((0.005, "none", "degree"), (0.02, "blend", "degree"), (-0.1, "none", "uniform")):
        choice = Choice("none", {"none, short": 0.8})
        assert choose_blend(choice, 0.8 + lead, 10**6).structure == structure
        assert choose_negatives(choice, 0.8, 0.8 + lead, 10**6).negatives == negatives
    assert choose_assembly(choice, {"whole": 0.8, "mean": 0.81}).assembly == "mean"
    assert choose_assembly(choice, {"whole": 0.8, "mean": 0.801}).assembly == "whole"
    assert Choice("none", {"none, short": 0.9, "spectral": 0.895}).may_blend(make_config("gae"))
    assert not Choice("none", {"none, short": 0.9, "spectral": 0.88}).may_blend(make_config("gae"))


@pytest.fixture(scope="module")
def hubs():
    """Five communities and forty hubs that know everybody: every partition cuts many edges."""
    generator = np.random.default_rng(0)
    sources, targets = generator.integers(0, 800, (2, 12000))
    kept = (sources % 5 == targets % 5) & (sources != targets)
    hubs, others = generator.integers(0, 40, 6000), generator.integers(40, 800, 6000)
    ends = np.append(sources[kept], hubs), np.append(targets[kept], others)
    features = (np.eye(5)[np.arange(800) % 5] + generator.normal(size=(800, 5))).astype(np.float32)
    return Graph.from_arcs(*ends, num_nodes=800, features=features, name="hubs")


def test_after_a_bad_cut_patches_are_wider_fewer_edges_hidden_and_the_assembly_chosen(hubs, tmp_path):
    options = {"patches": 5, "structure": "none", "min_overlap": 3, "target_overlap": 6, "epochs": 30}
    row, run = evaluate_graph(hubs, make_config("l2g2g", **options))
    narrow, plain = evaluate_graph(hubs, make_config("l2g2g", **options, most_patch_share=0.0, mask=0.7))
    assert run.patch_set.num_widened > 0 == plain.patch_set.num_widened
    assert row["kept_edge_fraction"] > narrow["kept_edge_fraction"] + 0.1
    assert row["largest_patch_nodes"] <= 0.4 * 800 + 5 * 6
    assert (run.config.mask, plain.config.mask) == (0.5, 0.7)
    scores = row["chosen"]["validation_auc"]
    assert {"assembly whole", "assembly mean"} <= set(scores)
    assert row["chosen"]["assembly"] == ("mean" if run.config.assembly == "mean" else "whole")
    best = max(score for _, score in run.trained.history.validations)
    assert max(scores["assembly whole"], scores["assembly mean"]) == pytest.approx(best, abs=1e-6)
    stored, again = evaluate_graph(write_graph(hubs, tmp_path / "store"), make_config("l2g2g", **options))
    assert (again.patch_set.global_nodes == run.patch_set.global_nodes).all()
    assert again.trained.history.losses == pytest.approx(run.trained.history.losses, rel=1e-3)
    assert stored["auc"] == pytest.approx(row["auc"], abs=5e-3)


@pytest.mark.slow
def test_signed_vectors_go_on_when_the_graph_grows(documents, tmp_path):
    model = L2G2G(dim=8, structure="spectral", epochs=2).fit(documents)
    assert model.config_.decoder == "signed"
    model.partial_fit(documents)
    assert model.config_.decoder == "signed"
    model.save(tmp_path)
    assert (L2G2G.load(tmp_path).embedding_ == model.embedding_).all()


def test_ranks_find_the_spectral_vectors_of_one_process_from_the_pairs_that_each_has(grid, tmp_path):
    from l2g2g.models.structure import fit_structure

    split, config, structure = (
        split_links(grid),
        make_config("gae"),
        fit_structure(split_links(grid).train.adjacency, 16),
    )
    stored = write_graph(grid, tmp_path / "store")

    def find(communicator):
        own = share_split(split if communicator.is_first else None, stored, communicator).validation
        assert 0 < len(own.positive) < len(split.validation.positive)
        return find_spectral(structure, 0, own, config, communicator)

    alone = find_spectral(structure, 0, split.validation, config)
    for found in run_ranks(2, find):
        for name in ("auc", "row_power", "eigenvalue_power", "width", "slope", "num_edges"):
            assert getattr(found, name) == getattr(alone, name), name
        assert found.model.decoder.bias.detach() == alone.model.decoder.bias.detach()


def test_what_a_training_knows_already_is_no_gain(grid):
    split = split_links(grid, seed=0)
    found = find_spectral(fit_structure(split.train.adjacency, 16), 0, split.validation, make_config("gae"))
    assert found.scores is not None
    assert len(found.scores) == 2 * split.validation.num_edges
    generator = np.random.default_rng(0)
    noise = generator.normal(size=len(found.scores))
    assert adds_to_training(found, noise, split.validation)
    assert not adds_to_training(found, np.exp(found.scores), split.validation)  # the same order
    assert not adds_to_training(replace(found, scores=noise), found.scores, split.validation)


def test_one_eigenvector_is_no_candidate_where_degrees_are_alike():
    """The split makes degrees differ a little; in the whole graph all vectors would be one point."""
    nodes, steps = np.arange(60).repeat(3), np.tile([1, 2, 3], 60)
    ring = Graph.from_arcs(nodes, (nodes * 7 + steps) % 60, num_nodes=60, name="ring")
    star = Graph.from_arcs(np.zeros(59, int), np.arange(1, 60), num_nodes=60, name="star")
    shared = SharedRows(LOCAL)
    assert not spectral._degrees_differ(fit_structure(ring.adjacency, 4), shared)
    assert spectral._degrees_differ(fit_structure(star.adjacency, 4), shared)
    assert spectral._widths(4, degrees_differ=False) == [4]
    assert spectral._widths(4, degrees_differ=True) == [4, 1]
    run = embed_graph(ring, make_config(dim=4, patches=2, epochs=2))
    assert np.ptp(run.embedding, axis=0).max() > 0
