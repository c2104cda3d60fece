"""Threads of torch."""

import pytest
import torch

from l2g2g.core import one_torch_thread


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def fail_with_threads(when):
    with one_torch_thread(when):
        raise RuntimeError(torch.get_num_threads())


@pytest.mark.parametrize(("when", "expected"), [(True, 1), (False, 2)])
def test_threads_inside_and_after_an_error(two_threads, when, expected):
    with pytest.raises(RuntimeError, match=str(expected)):
        fail_with_threads(when)
    assert torch.get_num_threads() == 2
