"""Traffic: what the ranks of a job send each other in an epoch, from the sizes alone, and how long that takes."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from dataclasses import dataclass

from l2g2g.config import Config
from l2g2g.runs.budget import StoredSizes, asked_rows, asks_for_all, drawn_rows, ghost_rows

_MESSAGE_SECONDS = 5e-5  # between two hosts of one switch
_LOCAL_MESSAGE_SECONDS = 2e-5
# Of an epoch: far ends and what is known of them, requests, rows and gradients of pairs, sums and gradients of
# overlaps, the gradient, and twice how much is coming.
_EXCHANGES = 10
_ID_BYTES, _TOLD_BYTES = 4, 5  # of a node's number, and of its number with its owner
_PROBE_BYTES, _PIECE = 1 << 26, 1 << 20


@dataclass(frozen=True)
class Traffic:
    """What one rank sends to others in an epoch.

    Attributes:
        gradient: Bytes of the sum of the gradients.
        pairs: Of the vectors of the ends of sampled pairs, and of their gradients.
        overlaps: Of the nodes that patches of two ranks share, and of their gradients.
        ids: That say which rows are asked for.
        layers: Of rows of neighbours, where the whole graph is one patch.
    """

    gradient: int
    pairs: int
    overlaps: int
    ids: int
    layers: int

    @property
    def total(self) -> int:
        """Bytes of all messages."""
        return self.gradient + self.pairs + self.overlaps + self.ids + self.layers


def estimate_traffic(sizes: StoredSizes, config: Config, num_patches: int) -> Traffic:
    """What a rank sends in an epoch, by the formulas of docs/scale.md; nothing for one process."""
    ranks, vector = sizes.num_ranks, 4 * config.dim
    if ranks == 1:
        return Traffic(0, 0, 0, 0, 0)
    columns = sizes.num_features or config.structure_width + 1
    widths = [columns, *[config.hidden] * (config.layers - 1), config.dim]
    parameters = sum(one * other for one, other in itertools.pairwise(widths))
    by_rows = not config.definition.uses_patches
    pairs, ids, overlaps, layers = 0.0, 0.0, 0.0, 0.0
    if config.loss_scope == "global" or by_rows:
        asked = asked_rows(sizes, config)
        pairs = 2 * vector * asked
        if not asks_for_all(sizes, config):
            ids = _ID_BYTES * asked + (_ID_BYTES + _TOLD_BYTES) * drawn_rows(sizes, config)
    if by_rows:  # forwards and backwards through every layer
        layers = 2 * 4 * sum(widths[1:]) * ghost_rows(sizes)
    else:
        shared = config.patch_degree / 2 * num_patches * config.overlap_range[1]
        overlaps = 2 * vector * shared / ranks
    return Traffic(4 * parameters, int(pairs), int(overlaps), int(ids), int(layers))


def exchange_seconds(traffic: Traffic, ranks: int, hosts: int, network: float) -> float:
    """Seconds that the messages of an epoch take. network: bytes each second between two hosts.

    The ranks of a host share its network; on one host they talk at the rate that is measured here.
    """
    if ranks == 1:
        return 0.0
    on_host = -(-ranks // hosts)
    rate, latency = (network / on_host, _MESSAGE_SECONDS) if hosts > 1 else (local_rate(), _LOCAL_MESSAGE_SECONDS)
    return traffic.total / rate + _EXCHANGES * (ranks - 1) * latency


def local_rate() -> float:
    """Bytes each second that two processes of this machine send each other, measured in a moment."""
    one, other = socket.socketpair()

    def send() -> None:
        piece = bytes(_PIECE)
        for _ in range(_PROBE_BYTES // _PIECE):
            one.sendall(piece)

    thread, left, buffer = threading.Thread(target=send), _PROBE_BYTES, bytearray(_PIECE)
    started = time.perf_counter()
    thread.start()
    while left:
        left -= other.recv_into(buffer)
    thread.join()
    one.close()
    other.close()
    return _PROBE_BYTES / (time.perf_counter() - started)
