import numpy as np
import pytest

from l2g2g.errors import InputError
from l2g2g.neighbours.sides import Sides, sides_by


def test_cosine_forgets_lengths_and_zeros_have_no_angle():
    sides = sides_by(np.array([[2.0, 0.0], [0.0, 0.0], [3.0, 3.0]]), "cosine")
    np.testing.assert_allclose(sides.left @ sides.right.T, [[1, 0, 0.5**0.5], [0, 0, 0], [0.5**0.5, 0, 1]], rtol=1e-6)
    assert sides.same


def test_inner_products_are_those_of_the_embedding():
    table = np.arange(6.0).reshape(3, 2)
    sides = sides_by(table, "inner")
    np.testing.assert_array_equal(sides.left @ sides.right.T, table @ table.T)
    assert sides.left.dtype == np.float32


def test_two_tables_stay_two():
    left, right = np.zeros((2, 3)), np.ones((2, 3))
    assert not Sides(left, right).same
    assert Sides(left, left).same


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(InputError, match="choose from cosine, inner"):
        sides_by(np.eye(2), "euclid")
    with pytest.raises(InputError, match="shape"):
        sides_by(np.ones(3), "cosine")
