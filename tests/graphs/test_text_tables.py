"""Text tables: what counts as a number."""

import time

import pytest

from l2g2g.graphs.text_tables import is_number


@pytest.mark.parametrize("text", ["0", "-12", "+3.", ".5", " 2.50 ", "1e9", "7E-3", "00"])
def test_numbers(text):
    assert is_number(text)


@pytest.mark.parametrize("text", ["", ".", "-", "1e", "nan", "inf", "1 2", "1.2.3", "0x1f", "1_000"])
def test_no_numbers(text):
    assert not is_number(text)


def test_a_long_cell_takes_time_in_proportion_to_its_length():
    """A pattern that tries every place for the decimal point takes minutes for this one."""
    started = time.process_time()
    assert not is_number("1" * 1_000_000 + "x")
    assert time.process_time() - started < 1
