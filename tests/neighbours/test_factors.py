import numpy as np
import pytest

from l2g2g.errors import InputError
from l2g2g.neighbours.factors import ScoreFactors, factors_by


def test_cosine_forgets_lengths_and_zeros_have_no_angle():
    factors = factors_by(np.array([[2.0, 0.0], [0.0, 0.0], [3.0, 3.0]]), "cosine")
    np.testing.assert_allclose(
        factors.left @ factors.right.T, [[1, 0, 0.5**0.5], [0, 0, 0], [0.5**0.5, 0, 1]], rtol=1e-6
    )
    assert factors.same


def test_inner_products_are_those_of_the_embedding():
    table = np.arange(6.0).reshape(3, 2)
    factors = factors_by(table, "inner")
    np.testing.assert_array_equal(factors.left @ factors.right.T, table @ table.T)
    assert factors.left.dtype == np.float32


def test_two_tables_stay_two():
    left, right = np.zeros((2, 3)), np.ones((2, 3))
    assert not ScoreFactors(left, right).same
    assert ScoreFactors(left, left).same


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(InputError, match="choose from cosine, inner"):
        factors_by(np.eye(2), "euclid")
    with pytest.raises(InputError, match="shape"):
        factors_by(np.ones(3), "cosine")
