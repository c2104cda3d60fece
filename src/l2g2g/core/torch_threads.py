"""Threads of torch, where a second one costs more than it saves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_torch_thread(when: bool = True) -> Iterator[None]:
    """Run torch on one thread: quicker for many small steps, and the same bits whatever the number of threads."""
    threads = torch.get_num_threads()
    if when:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
