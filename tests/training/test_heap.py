"""Heap: large tables that come and go cost no new pages."""

import resource

import numpy as np
import pytest

from l2g2g.training.heap import _libc, keep_freed_memory

SIZE = 8 << 20  # floats: too large for glibc to keep on its own


def faults_of(rounds):
    """New pages while large tables are made, filled and dropped."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(rounds):
        tables = [np.empty(SIZE // 4, np.float32) for _ in range(6)]
        for table in tables:
            table[:: 4096 // 4] = 1.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.skipif(_libc() is None, reason="the C library is not glibc")
def test_freed_tables_are_used_again():
    with keep_freed_memory():
        faults_of(2)
        kept = faults_of(10)
    assert kept < 20
    faults_of(2)
    assert faults_of(10) > 5 * max(kept, 1)  # afterwards all is as before: pages go, and come back cleared


def test_an_error_leaves_nothing_behind():
    def fail():
        with keep_freed_memory():
            raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        fail()
