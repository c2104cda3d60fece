"""Shared rows: several ranks find what one process finds, and all the same bits."""

import pytest
import torch

from l2g2g.models.shared_rows import SharedRows

from ..parallel.threads import run_ranks

TABLE = torch.randn(50, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
BOUNDS = [0, 31, 31, 50]  # the second rank has no row


def on_ranks(work):
    """What work(shared, rows of this rank) returns on each of three ranks."""

    def of_rank(communicator):
        low, high = BOUNDS[communicator.rank : communicator.rank + 2]
        return work(SharedRows(communicator), TABLE[low:high].clone())

    return run_ranks(3, of_rank)


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (lambda shared, rows: shared.inner(rows, 2 * rows), 2 * TABLE.T @ TABLE),
        (lambda shared, rows: shared.norms(rows), TABLE.norm(dim=0)),
        (lambda shared, rows: shared.gather(rows), TABLE),
        (lambda shared, rows: shared.largest(rows), TABLE[TABLE.abs().argmax(0), torch.arange(5)]),
    ],
    ids=["inner", "norms", "gather", "largest"],
)
def test_sums_norms_rows_and_largest_entries(work, expected):
    alone = work(SharedRows(), TABLE.clone())
    torch.testing.assert_close(alone, expected)
    first, *others = on_ranks(work)
    torch.testing.assert_close(first, expected)
    for found in others:
        assert (found == first).all()  # to the bit


def test_an_orthonormal_basis_of_the_same_columns():
    parts = on_ranks(lambda shared, rows: shared.orthonormal(rows))
    assert [len(part) for part in parts] == [31, 0, 19]
    basis = torch.cat(parts)
    torch.testing.assert_close(basis.T @ basis, torch.eye(5, dtype=torch.float64))
    torch.testing.assert_close(basis @ (basis.T @ TABLE), TABLE)


def test_eigenvectors_of_a_small_matrix_are_those_of_the_first_rank():
    matrix = TABLE.T @ TABLE

    def work(shared, rows):
        noise = 1e-9 * shared.communicator.rank  # as another machine would round
        return shared.eigh(matrix + noise * torch.eye(5, dtype=torch.float64))

    (values, vectors), *others = on_ranks(work)
    assert (values.diff() < 0).all()
    torch.testing.assert_close(matrix @ vectors, vectors * values)
    for found in others:
        assert (found[0] == values).all()
        assert (found[1] == vectors).all()
