"""Communicator: how the processes of a job exchange tensors. One process is a communicator of size one.

Every message has a time-out: a rank that died or stalls ends the others with a WorkerError.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from l2g2g.errors import InputError, WorkerError

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.distributed import Store

USUAL_TIMEOUT = 600.0
_GET_ADDRESS = 0x8915  # SIOCGIFADDR of Linux
_POLL = 0.01  # seconds between two checks which ranks have come
_FIRST_REPORTS = 0.5  # seconds for which the other ranks let the first one report
_FEW_RANKS, _SMALL_SUM = 4, 1 << 16  # ranks, and bytes, of which a sum takes longest to begin


@dataclass(frozen=True)
class Place:
    """Rank, size and addresses of a process in a torchrun job, from its environment.

    Attributes:
        rank, size: Its number among all processes, and how many they are.
        local_rank: Its number among those of its host.
        attempt: How often torchrun has restarted them.
    """

    rank: int
    size: int
    local_rank: int = 0
    attempt: int = 0

    @staticmethod
    def read(environment: Mapping[str, str]) -> Place | None:
        """None outside torchrun, and where the job has one process only."""
        try:
            size = int(environment.get("WORLD_SIZE", "1"))
            if size < 2:
                return None
            for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
                if not environment.get(name):
                    raise InputError(f"WORLD_SIZE is {size} but {name} is not set; start the ranks with torchrun")
            names = (("RANK", ""), ("LOCAL_RANK", "0"), ("TORCHELASTIC_RESTART_COUNT", "0"))
            rank, local_rank, attempt = (int(environment.get(*name)) for name in names)
        except ValueError as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"the environment of torchrun cannot be read ({error}); start the ranks with it"
            ) from error
        return Place(rank, size, local_rank, attempt)


@dataclass
class MessageCount:
    """Bytes that this rank sent to others, and how often, by kind of message."""

    num_bytes: Counter[str] = field(default_factory=Counter)
    times: Counter[str] = field(default_factory=Counter)

    def add(self, kind: str, num_bytes: int) -> None:
        """One more message."""
        self.num_bytes[kind] += num_bytes
        self.times[kind] += 1


class Communicator:
    """A single process: rank 0 of 1; nothing is sent.

    A collective call, here and in what uses this, is one that every rank must make, in the same order.

    Attributes:
        rank, size: The number of this process, and how many there are.
        sent: What this process has sent to others.
    """

    def __init__(self, rank: int = 0, size: int = 1) -> None:
        self.rank, self.size = rank, size
        self.sent = MessageCount()

    @property
    def is_first(self) -> bool:
        """Whether this is the rank that prints and writes."""
        return self.rank == 0

    @property
    def local_rank(self) -> int:
        """The number of this process on its host."""
        return 0

    @property
    def attempt(self) -> int:
        """How often the job was restarted."""
        return 0

    @property
    def device(self) -> torch.device:
        """Where messages start and end."""
        import torch

        return torch.device("cpu")

    def all_reduce(self, kind: str, values: Tensor) -> None:
        """Add up a tensor over all ranks, in place; all ranks get the same bits. kind: of message."""

    def all_to_all(self, kind: str, rows: Tensor, lengths: Sequence[int], expected: Sequence[int]) -> Tensor:
        """Send rows to every rank, those for rank 0 first, and return what came, that of rank 0 first.

        rows: (sum of lengths, width). lengths, expected: (num_ranks,) rows that go to and come from each rank.
        """
        return rows

    def all_gather(self, kind: str, rows: Tensor, lengths: Sequence[int]) -> Tensor:
        """The rows of all ranks, those of rank 0 first. lengths: (num_ranks,) how many each has."""
        return self.all_to_all(kind, rows.repeat(self.size, *[1] * (rows.dim() - 1)), [len(rows)] * self.size, lengths)

    def gather(self, kind: str, rows: Tensor, lengths: Sequence[int]) -> Tensor:
        """The same for rank 0 only; the others get no row."""
        others = [0] * (self.size - 1)
        expected = lengths if self.is_first else [0] * self.size
        return self.all_to_all(kind, rows, [len(rows), *others], expected)

    def broadcast(self, kind: str, data: bytes) -> bytes:
        """The bytes that rank 0 has, for all."""
        return data

    def decide(self, judge: Callable[[], Any]) -> Any:
        """What the first rank finds, for all. It must fit into JSON."""
        if self.size == 1:
            return judge()
        found = json.dumps(judge()).encode() if self.is_first else b""
        return json.loads(self.broadcast("decisions", found))

    def check_same(self, what: str, digest: bytes) -> None:
        """Refuse to go on where ranks read or made different things."""

    def tell_all(self, kind: str, numbers: Sequence[int]) -> list[list[int]]:
        """Some numbers of every rank, as many of each, for all; those of rank 0 first."""
        import torch

        rows = torch.tensor([list(numbers)], dtype=torch.int64, device=self.device)
        found: list[list[int]] = self.all_gather(kind, rows, [1] * self.size).tolist()
        return found

    def count_messages(self) -> dict[str, tuple[list[int], int]]:
        """(bytes that each rank sent to others, times) by kind of message; empty for one process."""
        return {}

    def reports_error(self) -> bool:
        """Whether this rank is the one to tell the user what went wrong: the first that asks."""
        return True


class RankCommunicator(Communicator):
    """A rank of a torchrun job; `join_ranks` makes it.

    Bytes are counted as they leave for another rank. Of a sum over all ranks every rank counts what it puts in.
    """

    def __init__(self, place: Place, store: Store, timeout: float) -> None:
        super().__init__(place.rank, place.size)
        self.place, self.timeout = place, timeout
        self._store = store

    @property
    def local_rank(self) -> int:
        """The number of this process on its host."""
        return self.place.local_rank

    @property
    def attempt(self) -> int:
        """How often torchrun restarted the job."""
        return self.place.attempt

    def all_reduce(self, kind: str, values: Tensor) -> None:
        """See `Communicator`."""
        from torch import distributed

        self.sent.add(kind, values.nbytes)
        with self._answered():
            if self.device.type == "cpu" and self.size <= _FEW_RANKS and values.nbytes <= _SMALL_SUM:
                self._add_up(values)
            else:
                distributed.all_reduce(values)

    def _add_up(self, values: Tensor) -> None:
        """The same by a message to every rank: of few bytes it takes a third of the time of a sum by gloo."""
        from torch import distributed

        found = values.new_empty(self.size, *values.shape)
        found[self.rank] = values
        others = [rank for rank in range(self.size) if rank != self.rank]
        waiting = [distributed.isend(found[self.rank], rank) for rank in others]
        for rank in others:
            distributed.recv(found[rank], rank)
        for message in waiting:
            if message is not None:
                message.wait()
        values.copy_(found.sum(0))  # in the order of ranks, so that all get the same bits

    def all_to_all(self, kind: str, rows: Tensor, lengths: Sequence[int], expected: Sequence[int]) -> Tensor:
        """See `Communicator`."""
        from torch import distributed

        received = rows.new_empty(sum(expected), *rows.shape[1:])
        away = len(rows) - lengths[self.rank]
        self.sent.add(kind, away * rows[:1].nbytes if len(rows) else 0)
        with self._answered():
            distributed.all_to_all_single(received, rows.contiguous(), list(expected), list(lengths))
        return received

    def broadcast(self, kind: str, data: bytes) -> bytes:
        """See `Communicator`; what the others have is not sent."""
        import torch
        from torch import distributed

        device = self.device
        with self._answered():
            length = torch.tensor([len(data)], device=device)
            distributed.broadcast(length, src=0)
            buffer = torch.empty(int(length), dtype=torch.uint8, device=device)
            if self.is_first:
                buffer.copy_(torch.frombuffer(bytearray(data or b" "), dtype=torch.uint8)[: len(data)])
            distributed.broadcast(buffer, src=0)
        self.sent.add(kind, (8 + len(data)) * (self.size - 1) if self.is_first else 0)
        return buffer.cpu().numpy().tobytes()

    def check_same(self, what: str, digest: bytes) -> None:
        """See `Communicator`."""
        import torch

        rows = torch.frombuffer(bytearray(digest), dtype=torch.uint8)[None].to(self.device)
        found = self.all_gather("check", rows, [1] * self.size)
        different = (found != found[0]).any(1).nonzero().flatten().tolist()
        if different:
            raise InputError(
                f"rank {different[0]} has another {what} than rank 0; all ranks need the same files and versions"
            )

    def count_messages(self) -> dict[str, tuple[list[int], int]]:
        """See `Communicator`."""
        kinds = sorted(self.sent.num_bytes)
        times = [self.sent.times[kind] for kind in kinds]
        by_rank = self.tell_all("count", [self.sent.num_bytes[kind] for kind in kinds])
        return {kind: (list(sent), often) for kind, *sent, often in zip(kinds, *by_rank, times, strict=True)}

    def reports_error(self) -> bool:
        """See `Communicator`."""
        if not self.is_first:
            time.sleep(_FIRST_REPORTS)
        with suppress(RuntimeError):
            return bool(self._store.add("said", 1) == 1)
        return True  # the first rank is gone, which holds the store

    @property
    def device(self) -> torch.device:
        """See `Communicator`."""
        import torch
        from torch import distributed

        return torch.device("cuda" if distributed.get_backend() == "nccl" else "cpu")

    @contextmanager
    def _answered(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            raise _no_answer(self.place, self.timeout, error) from error


LOCAL = Communicator()


@contextmanager
def join_ranks(place: Place, *, device: str = "cpu", timeout: float = USUAL_TIMEOUT) -> Iterator[RankCommunicator]:
    """Connect to the other ranks of the job until the context ends. timeout: seconds, of every message."""
    from torch import distributed

    if not timeout > 0:
        raise InputError(f"--timeout is {timeout}; it must be positive")
    limit = timedelta(seconds=timeout)
    backend = "nccl" if device.startswith("cuda") else "gloo"
    choose_interface(os.environ)
    try:
        store, _, _ = next(distributed.rendezvous("env://", timeout=limit))
        store.set_timeout(limit)
        own = distributed.PrefixStore(_agree_on_name(store, place, timeout), store)
        distributed.init_process_group(backend, store=own, rank=place.rank, world_size=place.size, timeout=limit)
    except RuntimeError as error:
        raise _no_answer(place, timeout, error) from error
    yield RankCommunicator(place, own, timeout)
    distributed.destroy_process_group()


def _agree_on_name(store: Store, place: Place, timeout: float) -> str:
    """A fresh prefix for the keys in the store, so that those of an earlier attempt are not read.

    The count of restarts would do on one host, but hosts may count differently. Every rank asks with a random
    token; rank 0 answers with the name, until all have taken it. The token of a dead rank is answered, but not read.
    """
    if place.rank:
        token = secrets.token_hex(8)
        store.set(f"l2g2g/asks/{place.rank}", token)
        name = store.get(f"l2g2g/answer/{token}").decode()
        store.add(f"{name}/came", 1)
        return name
    name, answered = f"l2g2g/attempt-{place.attempt}-{secrets.token_hex(4)}", set()
    end = time.monotonic() + timeout
    while store.add(f"{name}/came", 0) < place.size - 1:
        for rank in range(1, place.size):
            if store.check([f"l2g2g/asks/{rank}"]):
                token = store.get(f"l2g2g/asks/{rank}").decode()
                if token not in answered:
                    store.set(f"l2g2g/answer/{token}", name)
                    answered.add(token)
        if time.monotonic() > end:
            raise RuntimeError("timed out")
        time.sleep(_POLL)
    return name


def _no_answer(place: Place, timeout: float, error: RuntimeError) -> WorkerError:
    stalled = "timed out" in str(error).lower() or "timeout" in str(error).lower()
    what = f"did not answer within {timeout:g} s" if stalled else "is gone"
    return WorkerError(
        f"another rank {what}, rank {place.rank} of {place.size} cannot go on; start the job again, "
        f"with --resume where it has a --run-dir"
    )


def choose_interface(environment: MutableMapping[str, str]) -> None:
    """Set GLOO_SOCKET_IFNAME to the interface that reaches the other ranks, unless the user has set it.

    By default gloo takes the address of the host name, which on many hosts is the loopback address or none.
    """
    if environment.get("GLOO_SOCKET_IFNAME"):
        return
    own = own_address(environment["MASTER_ADDR"], int(environment["MASTER_PORT"]))
    name = None if own is None else interface_of(own)
    if name is not None:
        environment["GLOO_SOCKET_IFNAME"] = name


def own_address(host: str, port: int) -> str | None:
    """Return the IPv4 address from which this machine reaches a host, by its routing table; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, port))
        except OSError:
            return None
        return str(probe.getsockname()[0])


def interface_of(address: str) -> str | None:
    """Return the name of the interface with an IPv4 address; None if the system does not tell."""
    try:
        import fcntl

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            for _, name in socket.if_nameindex():
                try:
                    answer = fcntl.ioctl(asked.fileno(), _GET_ADDRESS, struct.pack("256s", name[:15].encode()))
                except OSError:  # an interface without an address
                    continue
                if socket.inet_ntoa(answer[20:24]) == address:
                    return name
    except (ImportError, OSError):
        return None
    return None
