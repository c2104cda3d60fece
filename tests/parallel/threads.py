"""Ranks that are threads of one process, for tests."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import cached_property

import torch

from l2g2g.parallel.communicator import Communicator


class Threads:
    """Messages are lists that all can read."""

    def __init__(self, size):
        self.barrier, self.sent = threading.Barrier(size, timeout=30), [None] * size

    def communicator(self, rank):
        shared, size = self, len(self.sent)

        class OneThread(Communicator):
            def all_to_all(self, kind, rows, lengths, expected):
                shared.sent[rank] = rows.split(list(lengths))
                shared.barrier.wait()
                received = [parts[rank].clone() for parts in shared.sent]
                shared.barrier.wait()
                assert [len(part) for part in received] == list(expected)
                return torch.cat(received)

            def broadcast(self, kind, data):
                row = (
                    torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
                )
                lengths = [len(row)] * size if rank == 0 else [0] * size
                count = self.all_gather(kind, torch.tensor([len(row)]), [1] * size)[0]
                return (
                    self.all_to_all(kind, row.repeat(size), lengths, [int(count)] + [0] * (size - 1)).numpy().tobytes()
                )

            def all_reduce(self, kind, values):
                rows = self.all_gather(kind, values[None].clone(), [1] * size)
                values.copy_(rows.sum(0))

        return OneThread(rank, size)


def run_ranks(size, work):
    """What work(communicator) returns on every rank."""
    threads = Threads(size)

    def answer(communicator):
        try:
            return work(communicator)
        except BaseException:
            threads.barrier.abort()
            raise

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(answer, [threads.communicator(rank) for rank in range(size)]))


def unlock(kind):
    """Let threads that are ranks talk inside the cached properties of a class, on which Python 3.11 has one lock."""
    for each in vars(kind).values():
        if isinstance(each, cached_property) and hasattr(each, "lock"):
            each.lock = nullcontext()
