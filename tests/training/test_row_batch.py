"""A whole graph as one patch, in rows from disk and over ranks, trains as the same graph in one block of memory."""

import itertools
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from l2g2g.graphs.graph import Graph
from l2g2g.graphs.splits import split_links
from l2g2g.graphs.store import write_graph
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.inputs import InputMap, fit_source
from l2g2g.models.preprocessing import FeatureStatistics, scale_features
from l2g2g.models.shared_rows import SharedRows
from l2g2g.models.sparse import normalise_adjacency
from l2g2g.parallel.communicator import LOCAL
from l2g2g.patches.overlap import whole_graph
from l2g2g.training import rows as rows_module
from l2g2g.training.loop import LoopSettings
from l2g2g.training.node_pairs import NodePairs
from l2g2g.training.objective import GlobalPairs, NodeSample, accumulate_gradients
from l2g2g.training.pair_source import PairOptions
from l2g2g.training.row_batch import RowBatch, RowBatches, RowPass
from l2g2g.training.rows import TrainingRows, share_rows
from l2g2g.training.shard import RowShard
from l2g2g.training.whole_pass import InputRows, RowSource

from ..parallel.threads import run_ranks, unlock
from .in_memory import prepare_batches, prepare_global_pairs, train

unlock(NodePairs)
unlock(RowSource)
unlock(RowShard)
SMALL_BLOCKS = 97  # arcs: several blocks even of a tiny graph


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("noisy", "planted")]


@pytest.fixture(scope="module", params=["weighted", *SLOW])
def stored(request, tmp_path_factory):
    """A graph on disk with dense features, with sparse ones, and with weights."""
    graph = request.getfixturevalue("noisy" if request.param == "weighted" else request.param)
    if request.param == "planted":
        graph = replace(graph, features=sp.csr_array(graph.features))
    if request.param == "weighted":
        sources, targets = graph.edges()
        weights = 0.5 + np.random.default_rng(1).random(len(sources)).astype(np.float32)
        graph = Graph.from_arcs(sources, targets, weights, num_nodes=graph.num_nodes, features=graph.features)
    return write_graph(graph, tmp_path_factory.mktemp("store"))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr("l2g2g.models.features.BLOCK_BYTES", 700)


class Case:
    """One training of a stored graph, in one block of memory and in rows."""

    def __init__(self, graph, *, loop=None, model=None, sampling="uniform"):
        self.graph, self.sampling = graph, sampling
        self.split = split_links(graph, validation_fraction=0.1, test_fraction=0.0, seed=1)
        self.train = self.split.train.to_graph()
        self.inputs = InputMap(graph.num_features, "centred")
        self.features = scale_features(graph.to_graph().features, "centred")
        defaults = {
            "scope": "global",
            "mask": 0.6,
            "epochs": 4,
            "learning_rate": 0.02,
            "seed": 9,
            "sample_size": 40,
            "alignment": "never",
        }
        self.settings = LoopSettings(**{**defaults, **(loop or {})})
        self.model_options = {"hidden": 6, **(model or {})}
        self.options = PairOptions(negative_sampling=sampling, weighted=graph.weighted)

    def make_model(self):
        mean, scale = FeatureStatistics.of(self.features).centre()
        options = {"feature_mean": torch.from_numpy(mean), "feature_scale": scale, "seed": 2, **self.model_options}
        model = Autoencoder(self.features.shape[1], 4, **options)
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.5, generator=torch.Generator().manual_seed(1))
        return model

    def resident(self):
        """(batches, what is scored) in one block."""
        patch_set, adjacency = whole_graph(self.graph.num_nodes), self.train.adjacency
        how = {"options": self.options}
        batches = prepare_batches(patch_set, adjacency, self.features, self.split.held_out, propagate_once=False, **how)
        return batches, prepare_global_pairs(patch_set, adjacency, self.split.held_out, batches=batches, **how)

    def in_rows(self, communicator, where, keep_bytes=0):
        """(batches, what is scored, shard) in rows."""
        graph = self.train if where == "memory" else self.split.train
        rows = TrainingRows(graph, block_arcs=SMALL_BLOCKS)
        local = share_rows(rows, communicator, keep_bytes=keep_bytes)
        shard = RowShard(local, whole_graph(local.num_nodes))
        features = InputRows(graph, self.inputs).of_range(local.low, local.high, keep_bytes=keep_bytes)
        batches = RowBatches([RowBatch(local, features, keep_bytes=keep_bytes)])
        if self.settings.pairs != "sampled":
            degrees = self.train.degrees[local.low : local.high]
            return batches, NodeSample(local, degrees, shard.table, local.shares), shard
        own = TrainingRows(graph, span=(local.low, local.high), block_arcs=SMALL_BLOCKS)
        directory = None if shard.has_all else shard.directory
        how = {"options": self.options, "communicator": communicator, "directory": directory}
        held_out = self.split.held_out[local.low : local.high]
        return batches, GlobalPairs(NodePairs(own, held_out, **how), shard.table, local.shares), shard

    def epoch_alone(self, epoch):
        """(loss, gradient by parameter)."""
        batches, pairs = self.resident()
        model, settings = self.make_model(), self.settings
        if settings.pairs != "sampled":
            settings = replace(settings, scope="inside")
        loss = accumulate_gradients(model, batches, None, settings, epoch, pairs)
        return loss, {name: each.grad for name, each in model.named_parameters() if each.grad is not None}

    def epoch_in_rows(self, epoch, num_ranks, where, keep_bytes=0):
        """The same, on every rank."""

        def work(communicator):
            batches, pairs, shard = self.in_rows(communicator, where, keep_bytes)
            model = self.make_model()
            loss = accumulate_gradients(model, batches, None, self.settings, epoch, pairs)
            loss = shard.add_gradients(model, loss)
            return loss, {name: each.grad for name, each in model.named_parameters() if each.grad is not None}

        return run_ranks(num_ranks, work)


def assert_same(found, expected):
    (loss, gradients), (expected_loss, expected_gradients) = found, expected
    assert loss == pytest.approx(expected_loss, rel=1e-5)
    assert set(gradients) >= set(expected_gradients)
    length = np.sqrt(sum(float(each.square().sum()) for each in expected_gradients.values()))
    for name, gradient in gradients.items():
        difference = gradient - expected_gradients.get(name, torch.zeros_like(gradient))
        assert float(difference.norm()) < 1e-5 * length, name
    assert length > 0


CASES = {
    "gcn": {},
    "gcn with a skip and dropout": {"model": {"skip": True}, "loop": {"feature_dropout": 0.3, "score_fraction": 0.8}},
    "sage": {"model": {"kind": "sage"}, "loop": {"feature_dropout": 0.3}},
    "sage of three layers": {"model": {"kind": "sage", "layers": 3, "residual": True, "hidden": 3}},
    "linear": {"model": {"kind": "linear"}},
    "one layer": {"model": {"layers": 1}},
    "elu": {"model": {"layers": 3, "activation": "elu", "residual": True, "hidden": 3, "skip": True}},
    "nothing hidden": {"loop": {"mask": 0.0}},
    "old negatives": {"loop": {"mask": 0.0, "fresh_negatives": False}},
    "variational": {"model": {"variational": True}},
    "variational sage with a learned decoder": {"model": {"variational": True, "kind": "sage", "decoder": "product"}},
    "negatives by degree": {"sampling": "degree"},
    "mask by nodes": {"loop": {"mask": 1.0, "mask_groups": 3}},
    "node sample": {"loop": {"mask": 0.0, "pairs": "subgraph"}},
    "node sample with sage": {"loop": {"mask": 0.0, "pairs": "subgraph"}, "model": {"kind": "sage"}},
    "all pairs": {"loop": {"mask": 0.0, "pairs": "all"}, "model": {"learn_bias": True}},
}


@pytest.mark.parametrize("name", CASES)
def test_an_epoch_has_the_loss_and_the_gradient_of_one_block(stored, name):
    case = Case(stored, **CASES[name])
    expected = case.epoch_alone(1)
    for num_ranks, where, keep_bytes in [
        (1, "store", 0),
        (1, "memory", 10**9),
        (2, "memory", 0),
        (3, "store", 2000),
    ]:
        for found in case.epoch_in_rows(1, num_ranks, where, keep_bytes):
            assert_same(found, expected)


@pytest.mark.parametrize("num_ranks", [1, 2])
@pytest.mark.parametrize("where", ["memory", "store"])
def test_a_training_with_validation_is_that_of_one_block(stored, where, num_ranks):
    case = Case(stored, model={"skip": True}, loop={"validate_every": 2, "patience": 5})

    def judge(vectors, communicator=LOCAL):
        num_nodes, squares = SharedRows(communicator).sums(len(vectors), float(vectors.square().sum()))
        assert (num_nodes, vectors.shape[1]) == (120, 4)
        return squares / (4 * num_nodes)

    batches, pairs = case.resident()
    alone = train(case.make_model(), batches, whole_graph(120), case.settings, global_pairs=pairs, validate=judge)

    def work(communicator):
        batches, pairs, shard = case.in_rows(communicator, where)
        how = {"global_pairs": pairs, "whole": RowPass(batches[0]), "shard": shard}
        how["validate"] = partial(judge, communicator=communicator)
        return train(case.make_model(), batches, shard.patch_set, case.settings, **how)

    for found in run_ranks(num_ranks, work):
        np.testing.assert_allclose(found.history.losses, alone.history.losses, rtol=1e-4)
        np.testing.assert_allclose(found.history.validations, alone.history.validations, rtol=1e-3)


@pytest.mark.parametrize("num_ranks", [1, 3])
@pytest.mark.parametrize("where", ["memory", "store"])
def test_products_for_structural_columns_are_those_of_memory(stored, where, num_ranks):
    table = torch.from_numpy(np.random.default_rng(0).standard_normal((120, 5)).astype(np.float32))
    whole = stored.to_graph()
    expected = torch.from_numpy(normalise_adjacency(whole.adjacency) @ table.numpy())
    rows = TrainingRows(whole if where == "memory" else stored, block_arcs=SMALL_BLOCKS)

    def multiply(communicator):
        source = RowSource(rows, communicator)
        return source.propagate(table[slice(*source.span)])

    torch.testing.assert_close(torch.cat(run_ranks(num_ranks, multiply)), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("bounds", [[0, 40, 80, 120], [0, 5, 5, 120]])
def test_ranks_find_structural_columns_together(stored, monkeypatch, bounds):
    """The same subspace and eigenvalues as one process, each rank its rows, of which some may have few or none.

    Rows of other nodes are fetched from the ranks that found them; the first rank can have all.
    """
    rows = TrainingRows(stored, block_arcs=SMALL_BLOCKS)
    one = fit_source(RowSource(rows), 7)
    monkeypatch.setattr(rows_module, "balance_rows", lambda *_: np.array(bounds))
    wanted = [np.array([0, 3, 50, 119]), np.empty(0, np.int64), np.arange(120)]

    def fit(communicator):
        found, shared = fit_source(RowSource(rows, communicator), 7), SharedRows(communicator)
        return found, found.with_rows(wanted[communicator.rank], shared), found.on_first(shared)

    parts = run_ranks(3, fit)
    columns = np.concatenate([found.columns for found, _, _ in parts])
    assert [found.span for found, _, _ in parts] == list(itertools.pairwise(bounds))
    assert columns.shape == one.columns.shape == (120, 8)
    bases = [np.linalg.qr(each[:, :-1].astype(np.float64))[0] for each in (columns, one.columns)]
    np.testing.assert_allclose(*(basis @ basis.T for basis in bases), atol=1e-3)
    np.testing.assert_allclose(columns[:, -1], one.columns[:, -1], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(parts[0][0].eigenvalues, one.eigenvalues, rtol=1e-3)
    for (found, more, all_on_first), nodes in zip(parts, wanted, strict=True):
        np.testing.assert_array_equal(found.eigenvalues, parts[0][0].eigenvalues)
        np.testing.assert_array_equal(more.rows_of(nodes), columns[nodes])
        np.testing.assert_array_equal(more.found_rows, found.columns)
        np.testing.assert_array_equal(more.leading(3).rows_of(nodes), columns[nodes][:, [0, 1, 2, -1]])
        assert len(all_on_first.columns) == (120 if found is parts[0][0] else 0)
    np.testing.assert_array_equal(parts[0][2].columns, columns)


@pytest.mark.parametrize("bounds", [[0, 50, 50, 120], [0, 0, 70, 120], [0, 60, 120, 120]])
@pytest.mark.parametrize("loop", [{}, {"mask": 0.0, "pairs": "subgraph"}], ids=str)
def test_a_rank_without_a_row_takes_part(stored, monkeypatch, loop, bounds):
    monkeypatch.setattr(rows_module, "balance_rows", lambda *_: np.array(bounds))
    case = Case(stored, loop=loop)
    expected = case.epoch_alone(0)
    for where in ("memory", "store"):
        for found in case.epoch_in_rows(0, 3, where):
            assert_same(found, expected)


def test_edges_that_are_kept_are_not_read_again(stored, monkeypatch):
    case, reads = Case(stored), []
    batches, pairs, _ = case.in_rows(LOCAL, "store", 10**9)
    rows = batches[0].rows.rows
    read = rows._read
    monkeypatch.setattr(rows, "_read", lambda low, high: reads.append(low) or read(low, high))
    accumulate_gradients(case.make_model(), batches, None, case.settings, 0, pairs)
    assert len(reads) == len(rows._bounds) - 1  # for the mask of the epoch
    accumulate_gradients(case.make_model(), batches, None, case.settings, 1, pairs)
    assert len(reads) == 2 * (len(rows._bounds) - 1)
