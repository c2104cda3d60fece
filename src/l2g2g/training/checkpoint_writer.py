"""Checkpoint writer: saves a training at intervals, in a background thread, and when it is interrupted."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType
from typing import Any

from l2g2g.errors import InputError, Interrupted, first_line
from l2g2g.training.checkpoint import Checkpoint, CheckpointStore
from l2g2g.training.state import LoopState

# Seconds between two checkpoints, at least, and as a multiple of what one costs: 1 % of the time at most.
USUAL_INTERVAL = 1.0
_TIMES_ITS_COST = 100.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Signals:
    """Notes SIGINT and SIGTERM, so that the end of the epoch can act on them; a second one ends at once.

    number: the one that came; None before.
    """

    def __init__(self) -> None:
        self.number: int | None = None

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note signals while the block runs."""
        if threading.current_thread() is not threading.main_thread():  # elsewhere Python allows no handlers
            yield
            return
        previous = {number: signal.signal(number, self._note) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def interruption(self, epoch: int) -> Interrupted:
        """What ends a training after an epoch that was saved; another rank may have got the signal."""
        number = self.number or signal.SIGTERM
        return Interrupted(number, f"interrupted after epoch {epoch}; --resume goes on from there")

    def _note(self, number: int, _: FrameType | None) -> None:
        if self.number is not None:
            raise Interrupted(number, "interrupted before the epoch ended; --resume goes on from the last checkpoint")
        self.number = number


class CheckpointWriter:
    """Writes the checkpoints of one training.

    Args:
        store: Folder of the checkpoints.
        fingerprint: What is trained and how, written into every checkpoint.
        found: The checkpoint to resume from; None starts anew.
        interval: Minimum seconds between checkpoints; 0 writes one after every epoch and waits for it.
        patient: Write the first one after one interval, so that a shorter training leaves nothing on disk.

    Otherwise the first one is written after the first epoch. The state is copied, and a thread writes the copy; one
    checkpoint is written at a time. The last one, after the last epoch, is waited for.

    Attributes:
        num_saves: Checkpoints that were written.
        seconds: Their cost: the time that training waited, and the CPU time of the thread.
    """

    def __init__(
        self,
        store: CheckpointStore,
        fingerprint: dict[str, Any],
        found: Checkpoint | None = None,
        interval: float = USUAL_INTERVAL,
        patient: bool = False,
    ) -> None:
        self.store, self.fingerprint, self.found, self.interval = store, fingerprint, found, interval
        self.num_saves, self.seconds = 0, 0.0
        self._saved_epoch = -1 if found is None else found.epoch
        self.patient = patient
        self._due = time.perf_counter() + interval if patient else 0.0
        self._pending: Future[float] | None = None
        self._signals = Signals()

    @contextmanager
    def watch(self) -> Iterator[None]:
        """During training: start the thread, and delay SIGINT and SIGTERM to the end of the epoch."""
        with ThreadPoolExecutor(1, thread_name_prefix="checkpoint") as self._writer, self._signals.noted():
            yield
        if self._signals.number is not None:  # it came after the last epoch
            raise Interrupted(self._signals.number, "interrupted after training; --resume goes on from there")

    def restore(self, state: LoopState) -> None:
        """Restore a fresh state from the checkpoint, if there is one."""
        if self.found is None:
            return
        try:
            state.restore(self.found.tensors, self.found.values)
        except (KeyError, TypeError, ValueError, OverflowError, RuntimeError) as error:
            reason = first_line(error)
            raise InputError(f"{self.store.folder}: the checkpoint does not fit this training ({reason})") from error
        self.found = None  # its tensors are not needed any more

    def after_epoch(self, state: LoopState) -> None:
        """Save if it is due; after a signal, save and raise `Interrupted`."""
        if self.is_interrupted:
            self.stop(state)
        elif self.is_due():
            self.save(state)

    @property
    def is_interrupted(self) -> bool:
        """Whether a signal came."""
        return self._signals.number is not None

    def stop(self, state: LoopState) -> None:
        """Save, and raise `Interrupted` for the signal that came."""
        self._save_now(state)
        raise self._signals.interruption(state.epoch)

    def is_due(self) -> bool:
        """Whether a checkpoint is due."""
        if self._pending is not None:
            if self._pending.done():
                self._settle()
            return False
        return self.interval == 0 or time.perf_counter() >= self._due

    def save(self, state: LoopState) -> None:
        """Copy the state and write it in the thread; wait for it where every epoch is saved."""
        if self.interval == 0:
            self._save_now(state)
            return
        self._started = time.perf_counter()
        checkpoint = self._capture(state)
        self._copied = time.perf_counter() - self._started
        self.seconds += self._copied
        self._pending = self._writer.submit(self._write, checkpoint)

    def finish(self, state: LoopState) -> None:
        """Save the end of training, so that a later failure does not lose it."""
        if self.patient and self._pending is None and self._saved_epoch < 0:
            return
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
        """Save; returns the seconds of work, without those of waiting for the disk."""
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
            cost = self._copied + worked
            self.seconds += worked
            self._due = self._started + max(self.interval, _TIMES_ITS_COST * cost)
