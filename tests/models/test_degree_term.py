"""The term of the degree, and the column that it adds."""

import numpy as np
import pytest
import scipy.sparse as sp

from l2g2g.models.degree_term import DegreeTerm
from l2g2g.models.features import append_columns


def test_weights_of_the_basis_add_up():
    degrees = np.array([0, 1, 2, 7])
    term = DegreeTerm.blank(degrees)
    assert (term.of(degrees) == 0).all()
    logs = (np.log1p(degrees) - np.log1p(degrees).mean()) / np.log1p(degrees).std()
    weighted = DegreeTerm(np.array([1.0, 10.0, 100.0, 1000.0]), term.mean, term.spread, degrees)
    expected = np.array([1, 10, 0, 0]) + 100 * logs + 1000 * logs**2
    np.testing.assert_allclose(weighted.of(degrees), expected, rtol=1e-6)
    # Beyond the degrees of training as at their end: a parabola would run away.
    assert weighted.of(np.array([5000]))[0] == weighted.of(np.array([7]))[0]
    assert weighted.with_degrees(np.array([0, 90])).of(np.array([90]))[0] > weighted.of(np.array([90]))[0]


def test_all_degrees_alike():
    assert np.isfinite(DegreeTerm.blank(np.full(5, 3)).basis(np.array([0, 3, 9]))).all()


@pytest.mark.parametrize("sparse", [False, True])
def test_a_column_stands_last(sparse):
    rows = np.array([[1, 0], [0, 2], [0, 0]], np.float32)
    found = append_columns(sp.csr_array(rows) if sparse else rows, np.array([[5], [0], [7]], np.float32))
    assert sp.issparse(found) == sparse
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found.toarray() if sparse else found, [[1, 0, 5], [0, 2, 0], [0, 0, 7]])
