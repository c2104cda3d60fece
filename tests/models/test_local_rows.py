"""Rows of Â by hand: a path of three nodes with weights 1 and 3, in one block, in two and over two ranks."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import connected_components

from l2g2g.graphs.graph import Graph, RowBlock
from l2g2g.models.features import FeatureBlocks, FeatureReader, block_bounds
from l2g2g.models.local_rows import LocalRows, RowPropagation, VisibleRows, balance_rows, find_components
from l2g2g.models.masking import EdgeMask, MaskDraw
from l2g2g.models.shared_rows import SharedRows
from l2g2g.models.sparse import SparseMatrix
from l2g2g.models.structure import large_components
from l2g2g.training.rows import TrainingRows, rank_span, share_rows

from ..parallel.threads import run_ranks

PATH = np.array([[0, 1, 0], [1, 0, 3], [0, 3, 0]], np.float32)  # degrees with the loop: 2, 5, 4


class Rows:
    """The rows low:high of a matrix, a block for each."""

    def __init__(self, matrix, low, high):
        self.matrix, self.low, self.high, self.num_nodes = sp.csr_array(matrix), low, high, len(matrix)

    def blocks(self):
        for low in range(self.low, self.high):
            row = self.matrix[low : low + 1]
            yield RowBlock(low, low + 1, row.indptr.astype(np.int64), row.indices.astype(np.int32), 0, row.data)


def whole(mean):
    if mean:
        return PATH / PATH.sum(1, keepdims=True)
    scale = 1 / np.sqrt(np.array([2.0, 5.0, 4.0]))
    return scale[:, None] * (PATH + np.eye(3)) * scale


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("num_ranks", [1, 2, 3])
def test_products_and_their_transposes(backend, num_ranks, mean):
    bounds = np.array([[0, 3], [0, 1, 3], [0, 1, 2, 3]][num_ranks - 1])
    table = torch.tensor([[1.0, 2.0], [3.0, 5.0], [7.0, 11.0]])

    def work(communicator):
        low, high = bounds[communicator.rank : communicator.rank + 2]
        rows = LocalRows(Rows(PATH, low, high), communicator, bounds)
        matrix = RowPropagation.symmetric(VisibleRows(rows))
        matrix = matrix.mean if mean else matrix
        own = table[low:high]
        return rows.nodes.tolist(), matrix.product(own, torch.tensor([1.0, 0.0])), matrix.transposed_product(own)

    found = run_ranks(num_ranks, work)
    expected = whole(mean) @ table.numpy() + np.array([1.0, 0.0])
    np.testing.assert_allclose(torch.cat([part for _, part, _ in found]), expected, rtol=1e-6)
    np.testing.assert_allclose(torch.cat([part for *_, part in found]), whole(mean).T @ table.numpy(), rtol=1e-6)
    assert found[0][0] == ([0, 1, 2] if num_ranks == 1 else [0, 1])  # node 2 is no neighbour of node 0


@pytest.mark.parametrize("keep_bytes", [0, 150, 10**6])
@pytest.mark.parametrize("grouped", [False, True])
def test_a_block_hides_what_the_whole_graph_hides(backend, grouped, keep_bytes):
    generator = np.random.default_rng(0)
    upper = np.triu(generator.random((40, 40)) < 0.4, 1) * generator.random((40, 40))
    adjacency = sp.csr_array((upper + upper.T).astype(np.float32))
    nodes = generator.permutation(100)[:40].astype(np.int32)
    groups = generator.integers(0, 3, 40).astype(np.int32) if grouped else None
    how = {"seed": 3, "epoch": 5}
    expected = EdgeMask(adjacency, nodes, weighted=True).split(0.6, 0.6, groups=groups, **how)[0].to_scipy().toarray()
    rows = LocalRows(Rows(adjacency.toarray(), 0, 40))
    visible = VisibleRows(rows, MaskDraw.of_epoch(0.6, 0.6, nodes, groups, **how), keep_bytes=keep_bytes)
    matrix = RowPropagation.symmetric(visible)
    for _ in range(2):
        np.testing.assert_allclose(matrix.product(torch.eye(40)), expected, rtol=1e-5, atol=1e-7)
    assert 0 < (expected > 0).sum() < adjacency.nnz


def test_a_matrix_without_the_entries_between_its_rows():
    indices, values = np.array([3, 9, 1, 2, 9, 0], np.int32), np.arange(6, dtype=np.float32)
    matrix = SparseMatrix(np.array([0, 2, 2, 5]), np.array([1, 2, 4, 6]), indices, values, 10)
    found = matrix.compact()
    assert found.indices.tolist() == [3, 1, 2, 0]
    assert found.starts.tolist() == [0, 1, 1, 3]
    assert (found.to_scipy() != matrix.to_scipy()).nnz == 0


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("keep_bytes", [0, 10**6])
def test_products_with_features_in_blocks(monkeypatch, sparse, keep_bytes):
    monkeypatch.setattr("l2g2g.models.features.BLOCK_BYTES", 60)
    features = np.arange(55, dtype=np.float32).reshape(11, 5) % 7
    reads = []

    def read(low, high):
        reads.append((low, high))
        return sp.csr_array(features[low:high]) if sparse else features[low:high]

    blocks = FeatureBlocks(FeatureReader(read, 1, 11, 5, keep_bytes=keep_bytes))
    weight, rows = torch.randn(5, 3), torch.randn(10, 3)
    torch.testing.assert_close(blocks.product(weight, torch.ones(3)), torch.from_numpy(features[1:]) @ weight + 1)
    torch.testing.assert_close(blocks.transposed_product(rows), torch.from_numpy(features[1:]).t() @ rows)
    assert reads == block_bounds(1, 11, 5) * (1 if keep_bytes else 2)
    assert len(block_bounds(1, 11, 5)) == 4


def test_ranges_of_rows_have_about_the_same_work():
    assert balance_rows(lambda row: 10 * row, 100, 4).tolist() == [0, 25, 50, 75, 100]


@pytest.mark.parametrize("num_ranks", [1, 2])
def test_columns_of_a_large_table_are_multiplied_part_by_part(backend, monkeypatch, num_ranks):
    bounds = np.array([[0, 3], [0, 1, 3]][num_ranks - 1])
    table = torch.from_numpy(np.random.default_rng(0).normal(size=(3, 40)).astype(np.float32))

    def work(communicator):
        low, high = bounds[communicator.rank : communicator.rank + 2]
        rows = LocalRows(Rows(PATH, low, high), communicator, bounds)
        matrix = RowPropagation.symmetric(VisibleRows(rows))
        asked = []
        monkeypatch.setattr(
            rows, "round_table", lambda *of: asked.append(of[1].shape[1]) or type(rows).round_table(rows, *of)
        )
        return matrix.product(table[low:high], torch.ones(40)), asked

    monkeypatch.setattr("l2g2g.models.local_rows._MOST_COPIED", 4 * 3 * 20)
    found = run_ranks(num_ranks, work)
    assert all(asked == [16] * 2 * num_ranks + [8] * num_ranks for _, asked in found)  # own rows, and ghost rows
    np.testing.assert_allclose(np.concatenate([rows for rows, _ in found]), whole(False) @ table.numpy() + 1, atol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("keep_bytes", [0, 3_000, 10**6])
@pytest.mark.parametrize("masked", [False, True])
def test_ghost_rows_come_in_rounds(backend, monkeypatch, masked, keep_bytes, weighted):
    monkeypatch.setattr("l2g2g.parallel.node_table._LEAST_PART", 10)
    generator, how = np.random.default_rng(0), {"seed": 3, "epoch": 5}
    ends = generator.integers(0, 60, (2, 400))
    values = generator.integers(1, 5, 400).astype(np.float32) if weighted else None
    graph = Graph.from_arcs(*ends, values, num_nodes=60)
    table = torch.from_numpy(generator.normal(size=(60, 20)).astype(np.float32))

    def work(communicator):
        rows = share_rows(TrainingRows(graph, block_arcs=50), communicator, keep_bytes=keep_bytes)
        draw = MaskDraw.of_epoch(0.4, 0.4, rows.nodes, None, **how) if masked else None
        matrix = RowPropagation.symmetric(VisibleRows(rows, draw, keep_bytes=keep_bytes))
        fetched = [len(rows.round_table(turn, table[rows.low : rows.high])) for turn in range(rows.num_rounds)]
        products = [matrix.product(table[rows.low : rows.high]) for _ in range(2)]
        return products, rows.with_ghosts(table[rows.low : rows.high]), rows.nodes, rows.counts, fetched

    adjacency = sp.csr_array(graph.adjacency)
    seen = SparseMatrix.propagation(adjacency)
    if masked:
        seen = EdgeMask(adjacency, np.arange(60), weighted=weighted).split(0.4, 0.4, **how)[0]
    expected = seen.to_scipy().toarray() @ table.numpy()
    found = run_ranks(3, work)
    for turn in range(2):
        np.testing.assert_allclose(np.concatenate([part[0][turn] for part in found]), expected, rtol=1e-4, atol=1e-5)
    for _, rows, nodes, _, fetched in found:
        np.testing.assert_array_equal(rows.numpy(), table.numpy()[nodes])
        assert len(fetched) == 2 + 6
        assert max(fetched) <= 12  # of about 20 owned and 40 ghost nodes
    assert np.concatenate([part[3] for part in found]).tolist() == np.diff(adjacency.indptr).tolist()


def shuffled_path(num_nodes, generator):
    order = generator.permutation(num_nodes)
    return np.stack([order[:-1], order[1:]])


@pytest.mark.parametrize("num_ranks", [1, 2, 4])
@pytest.mark.parametrize("kind", ["paths", "sparse", "no edge between ranks"])
def test_ranks_find_the_components_of_one_process(num_ranks, kind):
    generator = np.random.default_rng(0)
    if kind == "paths":  # zigzag between the ranges of nodes of all ranks
        ends = np.concatenate([shuffled_path(60, generator), 60 + shuffled_path(30, generator)], axis=1)
    elif kind == "sparse":
        ends = generator.integers(0, 90, (2, 70))
    else:
        ends = np.stack([np.arange(0, 90, 2), np.arange(1, 90, 2)])
    graph = Graph.from_arcs(*ends, None, num_nodes=95)
    _, expected = connected_components(sp.csr_array(graph.adjacency), directed=False)
    sizes = np.bincount(expected)
    is_large = (sizes >= min(0.3 * 95, sizes.max()))[expected]

    def work(communicator):
        low, high = rank_span(graph, communicator)
        found = find_components(share_rows(TrainingRows(graph, block_arcs=13), communicator))
        return low, high, found, large_components(found, 0.3, SharedRows(communicator))

    parts = run_ranks(num_ranks, work)
    labels = np.concatenate([part[2] for part in parts])
    pairs = np.unique(np.stack([labels, expected]), axis=1)
    assert pairs.shape[1] == len(sizes) == len(np.unique(labels))
    for low, high, _, (large, num_large) in parts:
        assert large.tolist() == is_large[low:high].tolist()
        assert num_large == is_large.sum()
