"""Checkpoint writer: save a training at intervals, in a background thread, and when it is interrupted."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType
from typing import Any

from torch import Tensor

from l2g2g.errors import InputError, Interrupted, first_line
from l2g2g.training.checkpoint import Checkpoint, CheckpointStore
from l2g2g.training.shard import Shard
from l2g2g.training.state import LoopState

USUAL_INTERVAL = 1.0  # minimum seconds between two checkpoints
_TIMES_ITS_COST = 100.0  # minimum interval as a multiple of the cost of a checkpoint: at most 1 % of the time
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Signals:
    """Record SIGINT and SIGTERM, so that training can stop after the epoch; a second signal stops it at once.

    Attributes:
        number: The signal received; None before.
    """

    def __init__(self) -> None:
        self.number: int | None = None

    @contextmanager
    def record(self) -> Iterator[None]:
        """Record signals while the block runs."""
        if threading.current_thread() is not threading.main_thread():  # Python allows handlers in the main thread only
            yield
            return
        previous = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def interruption(self, epoch: int) -> Interrupted:
        """Return the exception that ends a saved training; the signal may have reached another rank only."""
        number = self.number or signal.SIGTERM
        return Interrupted(number, f"interrupted after epoch {epoch}; --resume goes on from there")

    def _handle(self, number: int, _: FrameType | None) -> None:
        if self.number is not None:
            raise Interrupted(number, "interrupted before the epoch ended; --resume goes on from the last checkpoint")
        self.number = number


class CheckpointWriter:
    """Writer of the checkpoints of one training.

    The first checkpoint is written after the first epoch. A thread writes a copy of the state, one checkpoint at a
    time. Training waits for the checkpoint of the last epoch.

    Args:
        store: Folder of the checkpoints.
        fingerprint: Data and settings of the training, written into every checkpoint.
        found: Checkpoint to resume from; None for a new training.
        interval: Minimum seconds between checkpoints; with 0 training waits for a checkpoint after every epoch.
        patient: Write the first checkpoint after one interval, so that a shorter training leaves nothing on disk.

    Attributes:
        num_saves: Checkpoints written.
        seconds: Their cost: the time training waited, and the CPU time of the thread.
        signals: Signals received during training.
    """

    def __init__(
        self,
        store: CheckpointStore,
        fingerprint: dict[str, Any],
        found: Checkpoint | None = None,
        interval: float = USUAL_INTERVAL,
        patient: bool = False,
    ) -> None:
        self.store, self.fingerprint, self.found = store, fingerprint, found
        self.interval, self.patient, self.signals = interval, patient, Signals()
        self.num_saves, self.seconds = 0, 0.0
        self._saved_epoch = -1 if found is None else found.epoch
        self._due = time.perf_counter() + interval if patient else 0.0
        self._pending: Future[float] | None = None

    @contextmanager
    def watch(self) -> Iterator[None]:
        """During training: start the thread, and delay SIGINT and SIGTERM to the end of the epoch."""
        with ThreadPoolExecutor(1, thread_name_prefix="checkpoint") as self._writer, self.signals.record():
            yield
        if self.signals.number is not None:  # received after the last epoch
            raise Interrupted(self.signals.number, "interrupted after training; --resume goes on from there")

    def restore(self, state: LoopState) -> None:
        """Restore a new state from the checkpoint, if there is one."""
        if self.found is None:
            return
        try:
            state.restore(self.found.tensors, self.found.values)
        except (KeyError, TypeError, ValueError, OverflowError, RuntimeError) as error:
            reason = first_line(error)
            raise InputError(f"{self.store.folder}: the checkpoint does not fit this training ({reason})") from error
        self.found = None  # free its tensors

    def poll(self) -> tuple[bool, bool]:
        """Return (is_interrupted, is_due)."""
        if self._pending is not None and self._pending.done():
            self._settle()
            is_due = False
        else:
            is_due = self._pending is None and (self.interval == 0 or time.perf_counter() >= self._due)
        return self.signals.number is not None, is_due

    def after_epoch(self, state: LoopState) -> None:
        """Save if a checkpoint is due; after a signal, save and raise `Interrupted`."""
        self.save(state, *self.poll())

    def save(self, state: LoopState, is_interrupted: bool, is_due: bool) -> None:
        """See `after_epoch`."""
        if is_interrupted:
            self._save_now(state)
            raise self.signals.interruption(state.epoch)
        if is_due and self.interval == 0:
            self._save_now(state)
        elif is_due:
            self._started = time.perf_counter()
            checkpoint = self._capture(state)
            self._copied = time.perf_counter() - self._started
            self.seconds += self._copied
            self._pending = self._writer.submit(self._write, checkpoint)

    def finish(self, state: LoopState) -> None:
        """Save the end of training, so that a later failure does not lose it."""
        if not self.patient or self._pending is not None or self._saved_epoch >= 0:
            self._save_now(state)

    def _save_now(self, state: LoopState) -> None:
        started = time.perf_counter()
        self._settle()
        if state.epoch != self._saved_epoch:
            self._write(self._capture(state))
        self.seconds += time.perf_counter() - started

    def _capture(self, state: LoopState) -> Checkpoint:
        tensors, values = state.capture()
        return Checkpoint(state.epoch, self.fingerprint, values, tensors)

    def _write(self, checkpoint: Checkpoint) -> float:
        """Write a checkpoint. Returns CPU seconds, which leave out waiting for the disk."""
        started = time.thread_time()
        self.store.save(checkpoint)
        self._saved_epoch = checkpoint.epoch
        self.num_saves += 1
        return time.thread_time() - started

    def _settle(self) -> None:
        """Wait for the checkpoint being written, raise its error if it failed, and set when the next one is due."""
        if self._pending is not None:
            pending, self._pending = self._pending, None
            worked = pending.result()
            self.seconds += worked
            self._due = self._started + max(self.interval, _TIMES_ITS_COST * (self._copied + worked))


class RankCheckpointWriter:
    """The same for one of several ranks: the first one writes, all of them resume, and stop after the same epoch.

    Interruptions and due checkpoints are reduced together with the gradients of an epoch. Encoders of single patches
    are gathered before a checkpoint, since each is on the rank that trains it.

    Args:
        shard: The patches of this rank.
        writer: Reads and writes the files; None except on the first rank.
    """

    def __init__(self, shard: Shard, writer: CheckpointWriter | None) -> None:
        self.shard, self.writer = shard, writer
        self._signals = Signals() if writer is None else writer.signals
        shard.ask = self._ask

    @contextmanager
    def watch(self) -> Iterator[None]:
        """See `CheckpointWriter`."""
        with self._signals.record() if self.writer is None else self.writer.watch():
            yield

    def restore(self, state: LoopState) -> None:
        """Restore the state of every rank from the checkpoint of the first one, if there is one."""
        found = None if self.writer is None else self.writer.found
        received = self.shard.communicator.broadcast("checkpoint", b"" if found is None else _pack(found))
        if self.writer is not None:
            self.writer.restore(state)
        elif received:
            state.restore(*_unpack(received))

    def after_epoch(self, state: LoopState) -> None:
        """Save, or save and raise `Interrupted`, if any rank asked for it."""
        is_interrupted, is_due = (answer > 0 for answer in self.shard.answers)
        if is_interrupted or is_due:
            self._gather_encoders(state)
        if self.writer is not None:
            self.writer.save(state, is_interrupted, is_due)
        elif is_interrupted:
            raise self._signals.interruption(state.epoch)

    def finish(self, state: LoopState) -> None:
        """See `CheckpointWriter`."""
        self._gather_encoders(state)
        if self.writer is not None:
            self.writer.finish(state)

    def _ask(self) -> list[float]:
        """Return (is_interrupted, is_due) of this rank as numbers to be added up."""
        found = (self._signals.number is not None, False) if self.writer is None else self.writer.poll()
        return [float(each) for each in found]

    def _gather_encoders(self, state: LoopState) -> None:
        """Gather all encoders, their optimiser moments and last good states from the ranks that train them."""
        model, recovery = state.model, state.recovery
        if model.shares_encoder:
            return
        names = [name for name, _ in model.named_parameters()]
        best_is_good = state.best_model is recovery.state
        for tensors in (state.optimiser.means, state.optimiser.squares, state.optimiser.steps):
            tensors[:] = self._gather(dict(zip(names, tensors, strict=True))).values()
        model.load_state_dict(self._gather(model.state_dict()))
        recovery.state = self._gather(recovery.state)
        if best_is_good:
            state.best_model = recovery.state
        elif state.best_model is not None:
            state.best_model = self._gather(state.best_model)

    def _gather(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the tensors, with those of single encoders taken from the rank that trains the patch."""
        owners, communicator = self.shard.owners, self.shard.communicator
        gathered = {}
        for name, tensor in tensors.items():
            if name.startswith("encoders."):
                tensor = tensor.clone()
                if owners[int(name.split(".")[1])] != communicator.rank:
                    tensor.zero_()
                communicator.all_reduce("encoders", tensor)
            gathered[name] = tensor
        return gathered


def _pack(checkpoint: Checkpoint) -> bytes:
    """Return values and tensors as bytes, without pickle."""
    from safetensors.torch import save

    values = json.dumps(checkpoint.values).encode()
    return len(values).to_bytes(8, "little") + values + save(checkpoint.tensors)


def _unpack(data: bytes) -> tuple[dict[str, Tensor], dict[str, Any]]:
    from safetensors.torch import load

    end = 8 + int.from_bytes(data[:8], "little")
    return load(data[end:]), json.loads(data[8:end])
