"""Tables begin with a cache line and have the shape that was asked for."""

import pytest

from l2g2g.core import blank_table, zero_table


@pytest.mark.parametrize("shape", [(3, 16), (1, 1), (2, 5, 16), (1000, 33)])
def test_tables_begin_with_a_line_of_the_cache(shape):
    for make in (blank_table, zero_table):
        table = make(*shape)
        assert table.__array_interface__["data"][0] % 64 == 0
        assert table.shape == shape
        assert table.dtype.name == "float32"
        assert table.flags.c_contiguous
        assert table.flags.writeable
    assert not zero_table(*shape).any()


def test_a_table_without_rows():
    assert blank_table(0, 4).shape == zero_table(0, 4).shape == (0, 4)
