"""Pairs of a batch: edges by weight, arcs with their reverses, negatives by degree; nothing known is a negative."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from l2g2g.graphs.graph import Graph
from l2g2g.graphs.splits import keep_all, split_links
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.masking import EpochDraws
from l2g2g.models.pairs import PairList
from l2g2g.parallel.node_directory import NodeDirectory
from l2g2g.patches.overlap import make_patches, whole_graph
from l2g2g.patches.partition import partition
from l2g2g.training.node_pairs import NodePairs
from l2g2g.training.objective import ObjectiveSettings
from l2g2g.training.pair_source import PairOptions, PatchEdges, make_pairs, one_way_reversed
from l2g2g.training.rows import TrainingRows
from l2g2g.training.shared_units import SharedUnits

from ..parallel.threads import run_ranks, unlock

for kind in (NodeDirectory, NodePairs, SharedUnits, TrainingRows):
    unlock(kind)


def pairs_of(graph, held_out, options, patch_set=None, arcs=None):
    patch_set = patch_set or whole_graph(graph.num_nodes)
    patches = np.arange(patch_set.num_patches)
    return make_pairs(
        patch_set,
        PatchEdges.induced(patch_set, graph.adjacency, arcs),
        held_out,
        patch_set.num_rows,
        patches,
        1.0,
        "cpu",
        options,
    )


def ends(pairs):
    """(rows, columns), every pair once."""
    return pairs.pair_list.rows, pairs.pair_list.columns


def weighted_triangle(weights):
    return Graph.from_arcs([0, 1, 2], [1, 2, 3], np.array(weights), name="path")


def edge_loss(source):
    """The loss of the edges alone, on fixed vectors."""
    embedding = torch.tensor([[1.0, 0.2], [0.5, -1.0], [0.3, 0.8], [-0.7, 0.4]])
    model = Autoencoder(2, 2)
    none = PairList(np.empty(0, np.int32), np.empty(0, np.int32), np.ones(1, np.float32))
    return float(model.pair_loss(embedding, source.edges, none))


def test_weight_two_is_the_edge_counted_twice():
    graph = weighted_triangle([2.0, 1.0, 1.0])
    held_out = keep_all(graph).held_out
    weighted = edge_loss(pairs_of(graph, held_out, PairOptions(weighted=True)))
    plain = [edge_loss(pairs_of(weighted_triangle([1.0] * 3), held_out, PairOptions()))]
    single = []
    for edge in range(3):
        alone = Graph.from_arcs([edge], [edge + 1], num_nodes=4)
        single.append(edge_loss(pairs_of(alone, held_out, PairOptions())))
    assert plain[0] == pytest.approx(np.mean(single), rel=1e-5)
    assert weighted == pytest.approx(np.mean([single[0], *single]), rel=1e-5)
    assert weighted != pytest.approx(plain[0], rel=1e-3)


def test_only_proportions_of_weights_count():
    held_out = keep_all(weighted_triangle([2.0, 1.0, 1.0])).held_out
    losses = [
        edge_loss(pairs_of(weighted_triangle(weights), held_out, PairOptions(weighted=True)))
        for weights in ([2.0, 1.0, 1.0], [50.0, 25.0, 25.0])
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_weights_of_drawn_edges_are_those_of_the_graph(planted):
    sources, targets = planted.edges()
    weights = np.random.default_rng(1).random(len(sources)) + 0.1
    graph = Graph.from_arcs(sources, targets, weights, num_nodes=planted.num_nodes)
    patch_set = make_patches(graph, partition(graph.adjacency, 3), min_overlap=5, target_overlap=10)
    source = pairs_of(graph, keep_all(graph).held_out, PairOptions(weighted=True), patch_set)
    drawn = source.draw_edges(EpochDraws(0, 3, 0.4, 0.4)).pair_list
    rows, columns = ends(drawn)
    given = source.adjacency.toarray()[rows, columns]
    for patch in range(3):
        inside = (rows >= patch_set.offsets[patch]) & (rows < patch_set.offsets[patch + 1])
        expected = given[inside] / given[inside].sum() * source.shares[patch]
        assert drawn.pair_weights[inside] == pytest.approx(expected, rel=1e-4)


def test_edges_without_weights_in_the_loss_ignore_them():
    graph = weighted_triangle([9.0, 1.0, 1.0])
    plain = weighted_triangle([1.0, 1.0, 1.0])
    held_out = keep_all(graph).held_out
    losses = [edge_loss(pairs_of(each, held_out, PairOptions())) for each in (graph, plain)]
    assert losses[0] == losses[1]


def test_reverses_of_one_way_arcs():
    arcs = Graph.from_arcs([0, 1, 1, 2], [1, 0, 2, 3], directed=True).arcs
    assert {(int(u), int(v)) for u, v in zip(*one_way_reversed(arcs).nonzero(), strict=True)} == {(2, 1), (3, 2)}


@pytest.mark.parametrize("num_patches", [1, 3])
def test_arcs_and_their_reverses_in_an_epoch(arrows, num_patches):
    split = split_links(arrows, seed=0)
    train = split.train
    patch_set = whole_graph(train.num_nodes)
    if num_patches > 1:
        patch_set = make_patches(train, partition(train.adjacency, 3), min_overlap=5, target_overlap=10)
    source = pairs_of(train, split.held_out, PairOptions(reversed_share=0.5), patch_set, train.arcs)
    nodes = patch_set.global_nodes
    arcs, joined = train.arcs.toarray() > 0, train.adjacency.toarray() > 0
    never = split.held_out.toarray() > 0
    settings = ObjectiveSettings(mask=0.4)
    num_reversed, totals = 0, []
    for epoch in range(20):
        edges, negatives = (drawn.pair_list for drawn in source.draw(settings.draws(epoch)))
        rows, columns = (nodes[part] for part in ends(edges))
        assert arcs[rows, columns].all()
        drawn = set(zip(rows.tolist(), columns.tolist(), strict=True))
        rows, columns = (nodes[part] for part in ends(negatives))
        assert not arcs[rows, columns].any()
        assert not never[rows, columns].any()
        backward = joined[rows, columns]
        # Reversed arcs are negatives exactly where the arc itself is asked for: the encoder sees neither.
        assert set(zip(columns[backward].tolist(), rows[backward].tolist(), strict=True)) <= drawn
        assert negatives.pair_weights[backward].sum() == pytest.approx(0.5, abs=1e-4)
        assert edges.pair_weights.sum() == pytest.approx(1, abs=1e-4)
        totals.append(negatives.pair_weights.sum())  # draws that hit an edge count nothing: one on average
        num_reversed += int(backward.sum())
    assert np.mean(totals) == pytest.approx(1, abs=4 * np.std(totals) / np.sqrt(len(totals)) + 1e-4)
    assert np.std(totals) < 0.05
    assert num_reversed > 400


def test_the_whole_graph_as_pairs_of_arcs(arrows):
    split = split_links(arrows, seed=0)
    how = {"options": PairOptions(reversed_share=0.5), "arcs": split.train.arcs}
    pairs = pairs_of(split.train, split.held_out, **how)
    assert isinstance(pairs.edges, PairList)  # an arc counts in its own direction alone
    rows, columns = ends(pairs.edges)
    assert len(rows) == split.train.arcs.nnz
    assert (split.train.arcs.toarray()[rows, columns] > 0).all()


def test_symmetric_decoders_get_no_reversed_arcs(arrows):
    source = pairs_of(arrows, keep_all(arrows).held_out, PairOptions(), arcs=arrows.arcs)
    _, negatives = source.draw(EpochDraws(0, 0, 0.4, 0.4))
    rows, columns = ends(negatives)
    assert not (arrows.adjacency.toarray()[rows, columns] > 0).any()


def test_negatives_by_degree_are_never_known(planted):
    split = split_links(planted, seed=0)
    source = pairs_of(split.train, split.held_out, PairOptions(negative_sampling="degree"))
    known = (planted.adjacency + split.held_out).toarray() > 0
    for epoch in range(20):
        rows, columns = ends(source.negatives.list_pairs(seed=0, epoch=epoch))
        assert not known[rows, columns].any()
        assert (rows != columns).all()


def test_negatives_are_those_of_the_epoch_or_of_the_seed(planted):
    source = pairs_of(planted, keep_all(planted).held_out, PairOptions())

    def drawn(epoch, *, fresh, seed=0):
        rows, columns = ends(source.draw(EpochDraws(seed, epoch, fresh=fresh))[1])
        return list(zip(rows.tolist(), columns.tolist(), strict=True))

    assert drawn(2, fresh=True) == drawn(2, fresh=True)
    assert drawn(1, fresh=True) != drawn(2, fresh=True)
    assert drawn(1, fresh=False) == drawn(2, fresh=False)
    assert drawn(1, fresh=False) != drawn(1, fresh=False, seed=1)


def by_node(pairs, wanted):
    """Pairs of places among the wanted nodes as pairs of nodes."""
    return replace(pairs, rows=wanted.nodes[pairs.rows], columns=wanted.nodes[pairs.columns])


@pytest.mark.parametrize("num_groups", [0, 3])
@pytest.mark.parametrize("kind", ["plain", "weighted", "by degree"])
def test_ranks_draw_the_pairs_of_one_process_between_them(planted, kind, num_groups):
    """Each the pairs that begin with its nodes, every pair on one of them, with the weight that it has there."""
    sources, targets = planted.edges()
    heavy = planted.with_edges(sources, targets, np.random.default_rng(1).random(len(sources)) + 0.5)
    split = split_links(replace(heavy, weighted=True), seed=0)
    train = split.train
    how = {
        "options": PairOptions(
            weighted=kind == "weighted", negative_sampling="degree" if kind == "by degree" else "uniform"
        ),
        "negatives_per_edge": 0.7,
    }
    homes = np.random.default_rng(0).integers(3, size=planted.num_nodes)
    draws = EpochDraws(1, 4, 0.5, 0.4, num_groups)
    whole_pairs = NodePairs(TrainingRows(train), split.held_out, **how)
    expected = [drawn.pair_list for drawn in whole_pairs.draw(draws)]

    def draw_by(communicator):
        nodes = np.flatnonzero(homes == communicator.rank)
        rows = TrainingRows(train, nodes=nodes, block_arcs=500)
        directory = NodeDirectory(communicator, planted.num_nodes, nodes, np.zeros(len(nodes), np.int64))
        pairs = NodePairs(rows, split.held_out[nodes], **how, communicator=communicator, directory=directory)
        return pairs.draw_owned(draws)

    parts = run_ranks(3, draw_by)
    total = sum(part.total for part in parts)
    weighed = [part.weighed(total) for part in parts]
    for name, whole in zip(("edges", "non_edges"), expected, strict=True):
        found = [by_node(getattr(part, name), part.wanted) for part in weighed]
        for rank, pairs in enumerate(found):
            assert (homes[pairs.rows] == rank).all()
            assert pairs.num_pairs > 20
        rows, columns, weights = (
            np.concatenate([getattr(pairs, part) for pairs in found]) for part in ("rows", "columns", "pair_weights")
        )
        assert sorted(zip(rows, columns, strict=True)) == sorted(zip(whole.rows, whole.columns, strict=True))
        first, second = np.lexsort((columns, rows)), np.lexsort((whole.columns, whole.rows))
        np.testing.assert_allclose(weights[first], whole.pair_weights[second], rtol=1e-5)
