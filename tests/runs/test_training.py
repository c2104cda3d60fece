"""Experiment: choices between inputs, decoders and kinds of edges, from the graph to the scores."""

from dataclasses import replace

import numpy as np
import pytest

from l2g2g.config import make_config
from l2g2g.errors import InputError
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.splits import split_links
from l2g2g.runs.evaluate import evaluate_graph
from l2g2g.runs.patches import cut
from l2g2g.runs.training import run_split

FAST = {"dim": 8, "hidden": 16, "patches": 3, "threads": 1}


def directed_blocks(forward, backward, seed=0, block_size=60):
    """Three blocks in a ring: arcs to the next block with one probability, from it with another, few inside."""
    generator = np.random.default_rng(seed)
    blocks = np.repeat(np.arange(3), block_size)
    following = (blocks[:, None] + 1) % 3 == blocks[None]
    probability = np.where(following, forward, np.where(following.T, backward, 0.05))
    arcs = generator.random(probability.shape) < probability
    np.fill_diagonal(arcs, False)
    features = np.eye(3, dtype=np.float32)[blocks]
    return Graph.from_arcs(*arcs.nonzero(), num_nodes=len(blocks), features=features, directed=True, name="ring")


@pytest.fixture(scope="module")
def ring():
    return directed_blocks(0.3, 0.02)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gae", "l2g2g"])
def test_the_asymmetric_decoder_learns_directions_and_no_other_can(ring, method):
    rows = {
        decoder: evaluate_graph(ring, make_config(method, decoder=decoder, directed=True, epochs=100, **FAST))[0]
        for decoder in (None, "inner")
    }
    assert rows["inner"]["auc_direction"] == pytest.approx(0.5, abs=1e-9)
    # Inside a block an arc may point either way, so 1 cannot be reached.
    assert rows[None]["auc_direction"] > 0.8
    assert rows[None]["auc"] > rows["inner"]["auc"] + 0.1
    assert rows[None]["num_arcs"] == ring.arcs.nnz


@pytest.mark.slow
def test_a_direction_drawn_by_chance_cannot_be_learned():
    """What is held out tells nothing about itself: neither its reverse nor the mask."""
    graph = directed_blocks(0.12, 0.12)
    found = [
        evaluate_graph(graph, make_config("gae", directed=True, seed=seed, epochs=60, **FAST))[0]["auc_direction"]
        for seed in range(4)
    ]
    assert np.mean(found) == pytest.approx(0.5, abs=0.06)


def test_directed_and_undirected_are_not_mixed_up(ring, planted):
    with pytest.raises(InputError, match="directed=True"):
        run_split(split_links(ring), make_config("gae", **FAST))
    with pytest.raises(InputError, match="no directions"):
        run_split(split_links(planted), make_config("gae", directed=True, **FAST))


@pytest.mark.parametrize("decoder", ["cosine", "distance", "product"])
def test_scores_are_those_of_the_decoder(planted, decoder):
    row, run = evaluate_graph(planted, make_config("gae", decoder=decoder, epochs=30, **FAST), measures="all")
    model = run.trained.model
    scores = model.decoder.score(run.embedding, np.array([0, 1]), np.array([2, 50]))
    if decoder == "distance":
        squares = np.square(run.embedding[[0, 1]] - run.embedding[[2, 50]]).sum(1)
        expected = float(model.decoder.bias.detach()) - float(model.decoder.log_scale.detach().exp()) * squares
        assert scores == pytest.approx(expected, abs=1e-4)
    assert not np.allclose(scores, (run.embedding[[0, 1]] * run.embedding[[2, 50]]).sum(1))
    assert row["auc"] > 0.7
    assert row["mrr"] is None or row["mrr"] > 0


@pytest.mark.parametrize("decoder", ["cosine", "distance"])
@pytest.mark.parametrize("options", [{"method": "fastgae", "sample_size": 60}, {"method": "gae", "pairs": "all"}])
def test_all_pairs_take_every_decoder_with_two_sides(planted, decoder, options):
    options = dict(options)
    row, _ = evaluate_graph(planted, make_config(options.pop("method"), decoder=decoder, epochs=40, **FAST, **options))
    assert row["auc"] > 0.7


@pytest.mark.parametrize("method", ["gae", "l2g2g"])
def test_negatives_by_degree_train(planted, method):
    row, _ = evaluate_graph(planted, make_config(method, negative_sampling="degree", epochs=40, **FAST))
    assert row["auc"] > 0.75


def test_weights_in_the_loss_need_weights_and_change_the_vectors(planted):
    with pytest.raises(InputError, match="no weights"):
        run_split(split_links(planted), make_config("gae", weighted_loss=True, **FAST))
    sources, targets = planted.edges()
    weights = np.random.default_rng(0).random(len(sources)) * 10 + 0.1
    graph = Graph.from_arcs(sources, targets, weights, num_nodes=planted.num_nodes, features=planted.features)
    split = split_links(graph)
    runs = [
        run_split(split, make_config("gae", weighted_loss=weighted, epochs=5, **FAST)) for weighted in (True, False)
    ]
    assert not np.allclose(runs[0].embedding, runs[1].embedding, atol=1e-4)
    equal = replace(graph, adjacency=planted.adjacency)
    runs = [
        run_split(split_links(equal), make_config("gae", weighted_loss=weighted, epochs=5, **FAST))
        for weighted in (True, False)
    ]
    assert np.allclose(runs[0].embedding, runs[1].embedding, atol=1e-4)


@pytest.fixture(scope="module")
def weak(planted):
    """The planted graph with features that say nothing."""
    noise = np.random.default_rng(1).normal(size=(planted.num_nodes, 12)) > 0
    return replace(planted, features=noise.astype(np.float32), name="weak")


@pytest.mark.slow
def test_structure_helps_features_that_say_nothing_and_auto_finds_it(weak, planted):
    rows = {
        choice: evaluate_graph(weak, make_config("gae", structure=choice, structure_width=8, epochs=60, **FAST))[0]
        for choice in ("none", "blend", "auto")
    }
    assert rows["blend"]["auc"] > rows["none"]["auc"]
    chosen = rows["auto"]["chosen"]
    assert rows["auto"]["structure"] == chosen["structure"] != "none"
    assert chosen["validation_auc"]["blend, short"] > chosen["validation_auc"]["none, short"]
    assert rows["auto"]["auc"] >= rows["blend"]["auc"]
    assert 0 < rows["auto"]["seconds"]["choose"] < rows["auto"]["seconds"]["total"]
    # One-hot blocks say all there is: nothing is gained, so nothing is added.
    row, _ = evaluate_graph(planted, make_config("gae", structure="auto", epochs=60, **FAST))
    assert row["structure"] == "none"


def test_auto_without_validation_is_none(plain, weak):
    from l2g2g.runs.embed import embed_graph

    config = make_config("gae", structure="auto", epochs=3, **FAST)
    assert embed_graph(plain, config, validation_fraction=0).config.structure == "none"
    assert embed_graph(weak, config, validation_fraction=0).config.structure == "none"


def test_further_passes_of_fennel_reach_the_patches(planted):
    kept = []
    for passes in (1, 5):
        config = make_config("gae+l2g", "paper", patches=4, fennel_passes=passes)
        kept.append(cut(planted, config).count_covered_edges(planted))
    assert kept[1] > kept[0]
