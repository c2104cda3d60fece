"""Node tables against sums made by hand, of one process and of several that are threads here."""

import numpy as np
import pytest
import torch

from l2g2g.parallel.communicator import LOCAL
from l2g2g.parallel.node_directory import NodeDirectory
from l2g2g.parallel.node_table import Assemble, NodeTable, Placement, RangeOwners, WantedNodes

from .threads import run_ranks, unlock

unlock(NodeTable)
unlock(NodeDirectory)


def normal(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


@pytest.mark.parametrize("num_rows", [9, 4])
def test_a_placement_adds_shares_and_takes_them_back(backend, num_rows):
    generator = np.random.default_rng(1)
    index = generator.integers(0, 6, num_rows).astype(np.int32)
    shares = generator.random(num_rows).astype(np.float32)
    placement, rows, before = Placement(index, shares, 6), normal(num_rows, 5), normal(6, 5, seed=2)
    matrix = np.zeros((6, num_rows))
    matrix[index, np.arange(num_rows)] = shares
    matrix = torch.from_numpy(matrix).float()
    torch.testing.assert_close(placement.add(None, rows), matrix @ rows)
    torch.testing.assert_close(placement.add(before.clone(), rows), before + matrix @ rows)
    torch.testing.assert_close(placement.take(before), matrix.T @ before)
    given = rows.double().requires_grad_()
    assert torch.autograd.gradcheck(lambda given: Assemble.apply(given, placement), given)


def test_rows_of_all_nodes_in_order_are_the_table():
    rows = normal(4, 3)
    placement = Placement(np.arange(4, dtype=np.int32), np.ones(4, np.float32), 4)
    assert placement.add(None, rows) is rows
    assert placement.take(rows) is rows


def test_one_process_owns_everything():
    table = NodeTable(LOCAL, RangeOwners(np.array([0, 5])), np.arange(5))
    shares = np.array([1, 0.5, 1, 1, 0.5], np.float32)
    for seed, nodes in enumerate(([0, 1, 4], [1, 2, 3, 4])):
        table.scatter_add(table.place(np.array(nodes), shares[nodes]), normal(len(nodes), 2, seed=seed))
    table.complete("sums")
    expected = torch.zeros(5, 2)
    expected[[0, 1, 4]] += normal(3, 2) * torch.tensor([[1], [0.5], [0.5]])
    expected[[1, 2, 3, 4]] += normal(4, 2, seed=1) * torch.tensor([[0.5], [1], [1], [0.5]])
    request, total = table.request(None, 7)
    assert total == 7
    torch.testing.assert_close(table.gather(request), expected)
    torch.testing.assert_close(table.by_range("means", np.array([0, 5])), expected)
    table.clear()
    with pytest.raises(AssertionError, match="nothing was added"):
        _ = table.rows


# Nodes 0 to 7; rank 0 has the patch 0 1 2 3 and owns 1 2 3; rank 1 has 2 3 4 5 and 5 6; rank 2 has 6 7 0.
HELD = [[np.array([0, 1, 2, 3])], [np.array([2, 3, 4, 5]), np.array([5, 6])], [np.array([0, 6, 7])]]
OWNERS = np.array([2, 0, 0, 0, 1, 1, 1, 2])
BOUNDS = np.array([0, 3, 3, 8])  # the ranges of nodes by which rows are handed out: rank 1 gets none
COUNTS = np.bincount(np.concatenate([nodes for patches in HELD for nodes in patches]))


@pytest.mark.parametrize("asks_for_all", [False, True])
def test_ranks_add_up_what_one_process_does(asks_for_all):
    shares = (1 / COUNTS).astype(np.float32)
    vectors = [[normal(len(nodes), 3, seed=10 * rank + k) for k, nodes in enumerate(HELD[rank])] for rank in range(3)]
    expected = torch.zeros(8, 3)
    for patches, parts in zip(HELD, vectors, strict=True):
        for nodes, part in zip(patches, parts, strict=True):
            expected[nodes] += part * torch.from_numpy(shares[nodes])[:, None]
    wanted = np.random.default_rng(0).random((3, 8)) < (1.0 if asks_for_all else 0.6)
    pair_gradients = [normal(8, 3, seed=50 + rank) for rank in range(3)]
    gradient = sum(part * torch.from_numpy(wanted[rank])[:, None] for rank, part in enumerate(pair_gradients))

    def work(communicator):
        rank = communicator.rank
        held = np.unique(np.concatenate(HELD[rank]))
        claims = np.where(OWNERS[held] == rank, rank, 3 + rank)  # the owner of a node has the lowest one
        table = NodeTable(communicator, NodeDirectory(communicator, 8, held, claims), held)
        placements = [table.place(nodes, shares[nodes]) for nodes in HELD[rank]]
        for placement, part in zip(placements, vectors[rank], strict=True):
            table.scatter_add(placement, part)
        table.complete("sums")
        here = table.by_range("means", BOUNDS)
        by_owner = np.argsort(OWNERS, kind="stable")
        lists = WantedNodes(by_owner[wanted[rank][by_owner]], np.bincount(OWNERS[wanted[rank]], minlength=3).tolist())
        request, total = table.request(None if asks_for_all else lists, rank + 1)
        asked = np.arange(8) if request.nodes is None else request.nodes
        found = table.gather(request)
        table.clear()
        table.scatter_add_to_owners(request, pair_gradients[rank][asked])
        table.return_ghosts("gradients")
        return here, asked, found, total, [table.take(placement) for placement in placements]

    for rank, (here, nodes, found, total, gradients) in enumerate(run_ranks(3, work)):
        torch.testing.assert_close(here, expected[BOUNDS[rank] : BOUNDS[rank + 1]])
        assert sorted(nodes.tolist()) == np.flatnonzero(wanted[rank]).tolist()
        torch.testing.assert_close(found, expected[nodes])
        assert total == 6
        for part, held in zip(gradients, HELD[rank], strict=True):
            torch.testing.assert_close(part, gradient[held] * torch.from_numpy(shares[held])[:, None])


def test_owners_by_range():
    ranges = RangeOwners(np.array([0, 2, 2, 5]))
    assert (ranges.num_nodes, ranges.counts, ranges.are_ranges) == (5, [2, 0, 3], True)
    assert ranges.of(np.array([4, 0, 2])).tolist() == [2, 0, 2]
