"""Eigenvectors: the iteration against a dense solver, for matrices whose spectrum is known."""

import numpy as np
import pytest
import torch

from l2g2g.models.eigenvectors import leading_eigenvectors, lowest_direction


def matrix_with(values, seed=0):
    """A symmetric matrix with these eigenvalues, and its eigenvectors in the same order."""
    basis = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(values), len(values))))[0]
    return torch.from_numpy((basis * np.asarray(values)) @ basis.T).float(), basis


def start(num_rows, width):
    return torch.randn(num_rows, width, generator=torch.Generator().manual_seed(1))


def test_the_largest_eigenvalues_and_the_space_of_their_vectors():
    values = np.concatenate([[0.95, 0.9, 0.7, 0.65], np.linspace(0.5, -0.9, 116)])
    matrix, basis = matrix_with(values)
    found = leading_eigenvectors(lambda table: matrix @ table, start(120, 12), 4, tolerance=1e-4)
    assert len(found.values) == 4
    assert found.values.numpy() == pytest.approx(values[:4], abs=1e-4)
    projector = found.vectors @ found.vectors.T
    assert projector.numpy() == pytest.approx(basis[:, :4] @ basis[:, :4].T, abs=1e-3)
    assert found.residuals.max() <= 1e-4
    negative = leading_eigenvectors(lambda table: -(matrix @ table), start(120, 12), 1).negated()
    assert float(negative.values[0]) == pytest.approx(-0.9, abs=1e-2)


def test_what_has_not_converged_is_dropped_or_kept_as_a_first_impression():
    """400 eigenvalues that lie close together: a few passes cannot tell them apart."""
    matrix, _ = matrix_with(np.linspace(0.8, 0.7, 400))
    few = {"tolerance": 1e-6, "max_passes": 8}
    dropped = leading_eigenvectors(lambda table: matrix @ table, start(400, 6), 5, **few)
    assert len(dropped.values) < 5
    assert dropped.num_dropped == 5 - len(dropped.values)
    rough = leading_eigenvectors(lambda table: matrix @ table, start(400, 6), 5, **few, keep_all=True)
    assert len(rough.values) == 5
    assert rough.num_passes <= 8


def test_the_lowest_direction_bounds_the_lowest_eigenvalue_from_above():
    values = np.concatenate([np.linspace(1, -0.3, 79), [-0.98]])
    matrix, basis = matrix_with(values)
    found = lowest_direction(lambda table: matrix @ table, start(80, 1), 80)
    assert -0.98 - 1e-5 <= found.value < -0.97
    assert abs(float(found.vector[:, 0] @ torch.from_numpy(basis[:, -1]).float())) > 0.99
    assert float(found.vector.norm()) == pytest.approx(1, abs=1e-4)
