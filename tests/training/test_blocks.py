"""Rows, pairs, patches and passes block by block, from disk, are those of one block in memory."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from l2g2g.errors import ResourceError
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.held_out import drop_entries
from l2g2g.graphs.splits import keep_all, split_edges
from l2g2g.graphs.store import write_graph
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.encoding import prepare_input
from l2g2g.models.inputs import InputMap, fit_inputs
from l2g2g.models.masking import EpochDraws
from l2g2g.models.preprocessing import FeatureStatistics, scale_features
from l2g2g.parallel.communicator import LOCAL
from l2g2g.patches.overlap import make_patches, whole_graph
from l2g2g.patches.partition import partition
from l2g2g.patches.store import write_patches
from l2g2g.training.batches import BatchOptions, KeptBytes, PatchBatches, group_patches
from l2g2g.training.loop import LoopSettings, embed_nodes, encode_patches
from l2g2g.training.node_pairs import NodePairs
from l2g2g.training.pair_source import PairOptions
from l2g2g.training.patch_source import StoredPatches
from l2g2g.training.row_batch import RowBatch, RowPass
from l2g2g.training.rows import TrainingRows, share_rows
from l2g2g.training.shard import Shard
from l2g2g.training.whole_pass import InputRows, RowSource

from .in_memory import prepare_batches, prepare_global_pairs, train

STATES, EDGES = 400, 20_000  # bytes for one number per row, and for one per arc and row
SMALL_BLOCKS = 97  # arcs: several blocks even of a tiny graph


@pytest.fixture(scope="module")
def weighted(noisy):
    sources, targets = noisy.edges()
    weights = 0.5 + np.random.default_rng(1).random(len(sources)).astype(np.float32)
    return Graph.from_arcs(sources, targets, weights, num_nodes=noisy.num_nodes, features=noisy.features, name="w")


@pytest.fixture(scope="module", params=["noisy", "planted", pytest.param("weighted", marks=pytest.mark.slow)])
def stored(request, tmp_path_factory):
    """A graph on disk, its patches on disk, and the same patches in memory."""
    graph = request.getfixturevalue(request.param)
    if request.param == "planted":
        graph = replace(graph, features=sp.csr_array(graph.features))
    patch_set = make_patches(graph, partition(graph.adjacency, 3), min_overlap=8, target_overlap=12)
    on_disk = write_graph(graph, tmp_path_factory.mktemp("store"))
    return on_disk, write_patches(on_disk, patch_set), patch_set


def stored_batches(store, inputs, held_out, *, rule=None, keep_bytes=0, kept_bytes=None, **options):
    """One batch for each patch, made when its turn comes."""
    groups = group_patches(np.arange(store.num_patches), together=False)
    source = StoredPatches(store, store.patch_set, inputs, rule)
    return PatchBatches(source, groups, held_out, BatchOptions(**options), keep_bytes=keep_bytes, kept_bytes=kept_bytes)


def dense(matrix):
    return matrix.toarray() if sp.issparse(matrix) else matrix


def in_order(pairs):
    """(rows, columns, weights) of pairs, every pair once, in one order; non-edges may be drawn twice."""
    listed = pairs.pair_list
    order = np.lexsort((listed.columns, listed.rows))
    return listed.rows[order], listed.columns[order], listed.pair_weights[order]


def assert_same_pairs(found, expected):
    """The same pairs with the same weights; their order may differ."""
    rows, columns, weights = in_order(found)
    expected_rows, expected_columns, expected_weights = in_order(expected)
    assert len(rows) > 0
    np.testing.assert_array_equal(rows, expected_rows)
    np.testing.assert_array_equal(columns, expected_columns)
    np.testing.assert_allclose(weights, expected_weights, rtol=1e-5)


@pytest.mark.parametrize("fraction", [0.0, 0.2])
def test_rows_without_what_is_held_out(stored, fraction):
    graph = stored[0]
    split = split_edges(graph, validation_fraction=fraction, test_fraction=0.0, seed=3)
    expected = split.of(graph.to_graph()).train
    rows = TrainingRows(graph.without(split.rule, split.num_edges), block_arcs=SMALL_BLOCKS)
    blocks = list(rows.blocks())
    assert len(blocks) > 5
    assert np.concatenate([block.indices for block in blocks]).tolist() == expected.adjacency.indices.tolist()
    assert rows.degrees.tolist() == expected.degrees.tolist()
    assert rows.degrees.sum() == 2 * split.num_edges == 2 * expected.num_edges
    some = TrainingRows(rows.graph, span=(10, 50), block_arcs=SMALL_BLOCKS)
    part = np.concatenate([block.indices for block in some.blocks()])
    assert part.tolist() == expected.adjacency[10:50].indices.tolist()


def test_kept_blocks_are_read_once(stored, monkeypatch):
    graph = stored[0]
    rows = TrainingRows(graph, block_arcs=SMALL_BLOCKS, keep_bytes=3000)
    first = list(rows.blocks())
    reads = []
    monkeypatch.setattr(rows, "_read", lambda low, high: reads.append(low) or first[0])
    assert 0 < len(list(rows.blocks())) - len(reads) < len(first)
    assert reads[0] > 0  # what came first stayed


@pytest.mark.parametrize(("shares", "num_groups"), [((0.7, 0.7), 0), ((0.7, 0.5), 0), ((0.0, 1.0), 0), ((0.9, 0.9), 3)])
@pytest.mark.parametrize("per_edge", [0.3, 4.0])
def test_pairs_of_all_nodes_are_those_of_memory(stored, shares, num_groups, per_edge):
    graph, _, patch_set = stored
    split = split_edges(graph, validation_fraction=0.1, test_fraction=0.0, seed=1)
    link_split = split.of(graph.to_graph())
    expected = prepare_global_pairs(
        patch_set, link_split.train.adjacency, split.held_out, negatives_per_edge=per_edge
    ).pairs
    rows = TrainingRows(graph.without(split.rule, split.num_edges), block_arcs=SMALL_BLOCKS)
    found = NodePairs(rows, split.held_out, negatives_per_edge=per_edge)
    for epoch, fresh in ((0, True), (1, True), (1, False), (2, False)):
        draws = EpochDraws(4, epoch, *shares, num_groups, fresh)
        for one, other in zip(found.draw(draws), expected.draw(draws), strict=True):
            assert_same_pairs(one, other)


def test_pairs_of_a_graph_of_several_blocks_are_those_of_memory(tmp_path):
    """Rows of a block draw columns of all others."""
    generator = np.random.default_rng(0)
    sources, targets = generator.integers(2500, size=(2, 9000))
    graph = Graph.from_arcs(sources, targets, num_nodes=2500)
    on_disk = write_graph(graph, tmp_path / "store")
    held_out = split_edges(on_disk, validation_fraction=0.0, test_fraction=0.0).held_out
    expected = prepare_global_pairs(whole_graph(2500), graph.adjacency, held_out, negatives_per_edge=2.0).pairs
    found = NodePairs(TrainingRows(on_disk, block_arcs=4000), held_out, negatives_per_edge=2.0)
    for epoch in range(2):
        drawn = (source.draw(EpochDraws(4, epoch, 0.5, 0.5)) for source in (found, expected))
        for one, other in zip(*drawn, strict=True):
            assert_same_pairs(one, other)


def test_a_graph_of_nearly_all_pairs(tmp_path):
    """Most draws are edges and count nothing, on disk as in memory."""
    sources, targets = np.triu_indices(12, 1)
    left_out = np.random.default_rng(0).random(len(sources)) < 0.15
    graph = Graph.from_arcs(sources[~left_out], targets[~left_out], num_nodes=12)
    on_disk = write_graph(graph, tmp_path / "store")
    split = keep_all(graph)
    patch_set = make_patches(graph, np.arange(12) % 2, min_overlap=1, target_overlap=2)
    expected = prepare_global_pairs(patch_set, graph.adjacency, split.held_out).pairs
    found = NodePairs(TrainingRows(on_disk, block_arcs=20), split.held_out)
    for epoch in range(5):
        one, other = (source.draw(EpochDraws(0, epoch))[1] for source in (found, expected))
        assert_same_pairs(one, other)


def test_weights_of_edges_count_in_the_loss(stored):
    graph, _, patch_set = stored
    if not graph.weighted:
        pytest.skip("this graph has no weights")
    whole = graph.to_graph()
    held_out = keep_all(whole).held_out
    options = PairOptions(weighted=True)
    expected = prepare_global_pairs(patch_set, whole.adjacency, held_out, options=options).pairs
    found = NodePairs(TrainingRows(graph, block_arcs=SMALL_BLOCKS), held_out, options=PairOptions(weighted=True))
    one, other = (source.draw(EpochDraws(0, 1, 0.6, 0.6))[0] for source in (found, expected))
    assert_same_pairs(one, other)
    assert np.ptp(one.pair_list.pair_weights) > 0


def inputs_and_features(graph, scaling="centred"):
    return InputMap(graph.num_features, scaling), scale_features(graph.to_graph().features, scaling)


def make_model(features, *, num_encoders=1, centred=True, **options):
    mean, scale = FeatureStatistics.of(features).centre() if centred else (None, 1.0)
    return Autoencoder(
        features.shape[1],
        4,
        num_encoders=num_encoders,
        hidden=6,
        feature_mean=None if mean is None else torch.from_numpy(mean),
        feature_scale=scale,
        seed=2,
        **options,
    )


def test_what_is_known_of_all_features(stored):
    graph = stored[0]
    inputs, features = inputs_and_features(graph)
    blocks = [*InputRows(graph, inputs).blocks()]
    parts = (rows[low : low + 7] for rows in blocks for low in range(0, 120, 7))
    facts = FeatureStatistics.of_blocks(parts, features.shape[1])
    assert (facts.num_rows, facts.num_entries) == (120, np.count_nonzero(dense(features)))
    mean, scale = facts.centre()
    expected_mean, expected_scale = FeatureStatistics.of(features).centre()
    np.testing.assert_allclose(mean, expected_mean, rtol=1e-6, atol=1e-9)
    assert scale == pytest.approx(expected_scale, rel=1e-9)


@pytest.mark.parametrize(
    "options", [{}, {"feature_width": 5}, {"structure_width": 6}, {"feature_width": 5, "structure_width": 6}], ids=str
)
def test_inputs_are_fitted_by_passes_as_in_memory(stored, monkeypatch, options):
    """Compared by inner products of rows: eigenvectors may change their signs, and their order."""
    monkeypatch.setattr("l2g2g.models.features.BLOCK_BYTES", 700)  # several blocks
    graph, whole = stored[0], stored[0].to_graph()
    found = fit_inputs(RowSource(TrainingRows(graph, block_arcs=SMALL_BLOCKS)), **options)
    expected = fit_inputs(RowSource(TrainingRows(whole)), **options)
    assert found.num_columns == expected.num_columns
    assert found.structure_factor == pytest.approx(expected.structure_factor, rel=1e-3)
    rows = [*InputRows(graph, found).blocks()]
    assert len(rows) > 2
    one = np.concatenate([dense(part) for part in rows])
    other = dense(expected.read_nodes(whole.features, slice(None)))
    scale = np.abs(other @ other.T).max()
    np.testing.assert_allclose(one @ one.T, other @ other.T, atol=2e-3 * scale)


@pytest.mark.parametrize(
    ("scope", "mask", "options", "loop"),
    [
        ("inside", 0.0, {"centred": False}, {"rotate": True, "translate": False, "fresh_negatives": False}),
        ("inside", 0.5, {"skip": True}, {"feature_dropout": 0.3}),
        ("inside", 0.0, {"variational": True}, {}),
        ("global", 0.6, {"skip": True}, {"feature_dropout": 0.3, "score_fraction": 0.8}),
        ("global", 0.6, {"variational": True, "decoder": "product"}, {}),
        ("inside", 0.5, {"num_encoders": 3}, {"alignment": "after"}),
    ],
)
@pytest.mark.parametrize(
    ("keep_bytes", "kept_bytes"),
    [
        (0, None),
        pytest.param(40_000, None, marks=pytest.mark.slow),
        pytest.param(STATES, KeptBytes(10**6, 10**6, 1), marks=pytest.mark.slow),
        pytest.param(STATES + EDGES, KeptBytes(1, 1, 1, 10**6), marks=pytest.mark.slow),
    ],
    ids=["nothing", "some", "states", "states and edges"],
)
def test_training_is_that_of_memory(stored, scope, mask, options, loop, keep_bytes, kept_bytes):
    graph, store, patch_set = stored
    split = split_edges(graph, validation_fraction=0.1, test_fraction=0.0, seed=1)
    link_split = split.of(graph.to_graph())
    inputs, features = inputs_and_features(graph)
    settings = LoopSettings(scope=scope, mask=mask, epochs=4, refresh_every=2, learning_rate=0.02, seed=9, **loop)
    plain = not (mask or options.get("skip") or options.get("centred", True))
    adjacency = link_split.train.adjacency
    expected_batches = prepare_batches(
        patch_set, adjacency, features, split.held_out, together=False, propagate_once=plain
    )
    batches = stored_batches(
        store,
        inputs,
        split.held_out,
        rule=split.rule,
        propagate_once=plain,
        keep_bytes=keep_bytes,
        kept_bytes=kept_bytes,
    )
    expected_pairs = found_pairs = None
    if scope == "global":
        expected_pairs = prepare_global_pairs(patch_set, adjacency, split.held_out)
        rows = TrainingRows(graph.without(split.rule, split.num_edges), block_arcs=SMALL_BLOCKS)
        found_pairs = replace(expected_pairs, pairs=NodePairs(rows, split.held_out))
    results = []
    for each, pairs in ((expected_batches, expected_pairs), (batches, found_pairs)):
        model = make_model(features, **options)
        trained = train(model, each, patch_set, settings, global_pairs=pairs)
        embedding, _ = embed_nodes(model, each, Shard(patch_set), settings, trained.frame)
        results.append((trained.history.losses, encode_patches(model, each), embedding))
    np.testing.assert_allclose(results[1][0], results[0][0], rtol=1e-5)
    torch.testing.assert_close(results[1][1], results[0][1], rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(results[1][2], results[0][2], rtol=1e-3, atol=1e-4)
    assert bool(batches._kept) == (keep_bytes > STATES)
    assert bool(batches._whole) == (keep_bytes == 40_000)
    assert batches.keeps_states == (kept_bytes is not None)


def test_what_fits_the_budget_is_read_once(stored, monkeypatch):
    _, store, _ = stored
    nothing = sp.csr_array((120, 120), dtype=np.float32)
    loads = []
    load = store.load_patch
    monkeypatch.setattr(store, "load_patch", lambda patch: loads.append(patch) or load(patch))
    draws = EpochDraws(1, 2, 0.5, 0.5, feature_dropout=0.3)

    def three_passes(**budget):
        loads.clear()
        inputs = InputMap(store.num_features, "raw")
        batches = stored_batches(store, inputs, nothing, propagate_once=False, draws_pairs=False, **budget)
        for _ in range(3):
            seen = [batch.training_inputs(draws) for batch in batches]
        dense = [
            part.features if torch.is_tensor(part.features) else part.features.to_scipy().toarray() for part in seen
        ]
        return batches, [part.propagation.to_scipy().toarray() for part in seen], dense

    batches, expected, rows = three_passes(keep_bytes=10**9)
    assert loads == [0, 1, 2]
    assert len(batches._whole) == 3
    assert all(batches.holds(batch) for batch in batches)
    for keep_bytes, kept_bytes, expected_loads in [
        (0, None, [0, 1, 2] * 2),  # read twice, and then from the file
        (STATES, KeptBytes(10**6, 10**6, 1), [0, 1, 2] * 2),
        (EDGES, KeptBytes(1, 1, 0, 10**6), [0, 1, 2]),  # the features from the file
    ]:
        batches, found, found_rows = three_passes(keep_bytes=keep_bytes, kept_bytes=kept_bytes)
        assert loads == expected_loads
        assert not any(batches.holds(batch) for batch in batches)
        assert (batches[0] is batches[0]) == (keep_bytes == EDGES)
        for one, other in zip(found + found_rows, expected + rows, strict=True):
            np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    assert [int(batch.patches[0]) for batch in batches[1:]] == [1, 2]


def test_a_full_disk_is_told_with_a_remedy(stored, monkeypatch):
    _, store, _ = stored
    nothing = sp.csr_array((120, 120), dtype=np.float32)

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.pwrite", fail)
    batches = stored_batches(store, InputMap(store.num_features, "raw"), nothing, propagate_once=False)
    list(batches)
    with pytest.raises(ResourceError, match=r"No space left on device.*allow more --memory"):
        list(batches)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"skip": True},
        {"layers": 3, "activation": "elu"},
        {"layers": 1},
        {"kind": "linear"},
        {"kind": "linear", "layers": 3, "skip": True},
        {"variational": True, "skip": True},
        {"hidden": 3, "residual": True, "skip": True},
        {"hidden": 3, "residual": True, "layers": 3},
        {"kind": "sage", "skip": True},
        {"kind": "sage", "layers": 3, "hidden": 3, "residual": True},
        {"kind": "sage", "layers": 1, "variational": True},
    ],
)
def test_a_pass_over_the_whole_graph_layer_by_layer(stored, monkeypatch, options):
    graph = stored[0]
    inputs, features = inputs_and_features(graph)
    whole = graph.to_graph()
    mean, scale = FeatureStatistics.of(features).centre()
    model = Autoencoder(
        features.shape[1],
        4,
        feature_mean=torch.from_numpy(mean),
        feature_scale=scale,
        seed=2,
        **{"hidden": 6, **options},
    )
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = model.encode(prepare_input(whole.adjacency, features, propagate_once=False))[0]
    monkeypatch.setattr("l2g2g.models.features.BLOCK_BYTES", 700)  # several blocks
    rows = share_rows(TrainingRows(graph, block_arcs=SMALL_BLOCKS), LOCAL)
    found = RowPass(RowBatch(rows, InputRows(graph, inputs).of_range(0, 120)))(model)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_entries_are_dropped_by_their_places():
    indptr, indices = np.array([0, 3, 3, 6]), np.array([1, 2, 5, 0, 3, 4], np.int32)
    for places in ([], [0], [5], [0, 1, 2], [2, 3], [0, 1, 2, 3, 4, 5]):
        fewer, rest, weights = drop_entries(indptr, indices, indices.astype(np.float32), np.array(places, np.int32))
        stays = np.setdiff1d(np.arange(6), places)
        rows = np.repeat(np.arange(3), np.diff(indptr))[stays]
        assert rest.tolist() == weights.tolist() == indices[stays].tolist()
        assert np.diff(fewer).tolist() == np.bincount(rows, minlength=3).tolist()
    assert drop_entries(indptr, indices, None, np.array([1]))[2] is None


def test_several_patches_of_a_store_are_one_block(stored):
    """As ranks without a limit have them: the batch that memory makes of the same patches."""
    graph, store, patch_set = stored
    split = split_edges(graph, validation_fraction=0.1, test_fraction=0.0, seed=1)
    inputs, features = inputs_and_features(graph)
    wanted = np.array([0, 2])
    source = StoredPatches(store, store.patch_set, inputs, split.rule)
    (found,) = PatchBatches(source, [wanted], split.held_out)
    train = split.of(graph.to_graph()).train
    (expected,) = prepare_batches(patch_set, train.adjacency, features, split.held_out, patches=wanted)
    assert (found.adjacency != expected.adjacency).nnz == 0
    np.testing.assert_array_equal(found.pairs.nodes, expected.pairs.nodes)
    torch.testing.assert_close(found.offsets, expected.offsets)
    draws = EpochDraws(4, 1, 0.5, 0.5)
    for one, other in zip(found.pairs.draw(draws), expected.pairs.draw(draws), strict=True):
        assert_same_pairs(one, other)
    rows = [batch.features.dropped(0.0, seed=0, epoch=0) for batch in (found, expected)]
    one, other = (part if torch.is_tensor(part) else torch.from_numpy(part.to_scipy().toarray()) for part in rows)
    torch.testing.assert_close(one, other)


def test_a_patch_that_is_read_twice_hides_the_same_edges(stored):
    """Whether it was kept or made anew; what an epoch scores are edges that it hides."""
    graph, patches, _ = stored
    inputs, _ = inputs_and_features(graph)
    held_out = split_edges(graph, validation_fraction=0.0, test_fraction=0.0).held_out

    def see(made, epoch):
        draws = EpochDraws(1, epoch, 0.4, 0.3)
        return [batch.training_inputs(draws).propagation.to_scipy().toarray() for batch in made]

    again = stored_batches(patches, inputs, held_out, draws_pairs=False, propagate_once=False)
    kept = stored_batches(patches, inputs, held_out, draws_pairs=False, propagate_once=False, keep_bytes=10**9)
    first, second, of_kept, third = see(again, 0), see(again, 0), [*see(kept, 0)], see(kept, 1)
    for one, same, kept_one, other, batch in zip(first, second, of_kept, third, again, strict=True):
        np.testing.assert_array_equal(one, same)
        np.testing.assert_array_equal(one, kept_one)
        assert (one != other).any()
        scored = batch.pairs.draw_edges(EpochDraws(1, 0, 0.4, 0.3)).pair_list
        assert scored.num_pairs > 0
        assert not one[scored.rows, scored.columns].any()
