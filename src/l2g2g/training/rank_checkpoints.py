"""Rank checkpoints: the first rank writes them, all ranks resume from them, and all stop after the same epoch.

Whether a rank received a signal, and whether a checkpoint is due, is reduced together with the gradients of an epoch.
Encoders of single patches are on the rank that trains them, so they are gathered before a checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from l2g2g.training.checkpoint import Checkpoint
from l2g2g.training.checkpoint_writer import CheckpointWriter, Signals
from l2g2g.training.shard import Shard
from l2g2g.training.state import LoopState


class RankCheckpointWriter:
    """The checkpoint writer of one of several ranks, with the methods of `CheckpointWriter`.

    Args:
        shard: The patches of this rank.
        writer: Writes and reads the files; None except on the first rank.
    """

    def __init__(self, shard: Shard, writer: CheckpointWriter | None) -> None:
        self.shard, self.writer = shard, writer
        self._signals = Signals()
        shard.ask = self._ask

    @property
    def seconds(self) -> float:
        """Seconds that checkpoints cost this rank."""
        return 0.0 if self.writer is None else self.writer.seconds

    @contextmanager
    def watch(self) -> Iterator[None]:
        """During training: delay SIGINT and SIGTERM to the end of the epoch, on every rank."""
        with self._signals.noted() if self.writer is None else self.writer.watch():
            yield

    def restore(self, state: LoopState) -> None:
        """Restore the state of every rank from the checkpoint, if there is one."""
        found = None if self.writer is None else self.writer.found
        received = self.shard.communicator.broadcast("checkpoint", b"" if found is None else _pack(found))
        if self.writer is not None:
            self.writer.restore(state)
        elif received:
            tensors, values = _unpack(received)
            state.restore(tensors, values)

    def after_epoch(self, state: LoopState) -> None:
        """Save, or save and raise `Interrupted`, where the ranks agreed on it."""
        interrupted, due = (answer > 0 for answer in self.shard.answers)
        if not interrupted and not due:
            return
        self._gather_encoders(state)
        if self.writer is None:
            if interrupted:
                raise self._signals.interruption(state.epoch)
        elif interrupted:
            self.writer.stop(state)
        else:
            self.writer.save(state)

    def finish(self, state: LoopState) -> None:
        """Save the end of training."""
        self._gather_encoders(state)
        if self.writer is not None:
            self.writer.finish(state)

    def _ask(self) -> list[float]:
        """This rank's part of what is reduced with every epoch: whether it was interrupted, and whether to save."""
        if self.writer is None:
            return [float(self._signals.number is not None), 0.0]
        return [float(self.writer.is_interrupted), float(self.writer.is_due())]

    def _gather_encoders(self, state: LoopState) -> None:
        """Gather all encoders, their optimiser moments and last good states from the ranks that train them."""
        model, recovery = state.model, state.recovery
        if model.shares_encoder:
            return
        names = [name for name, _ in model.named_parameters()]
        best_is_good = state.best_model is recovery.state
        moments = [state.optimiser.means, state.optimiser.squares, state.optimiser.steps]
        for tensors in moments:
            tensors[:] = self._gather(dict(zip(names, tensors, strict=True))).values()
        model.load_state_dict(self._gather(model.state_dict()))
        recovery.state = self._gather(recovery.state)
        if best_is_good:
            state.best_model = recovery.state
        elif state.best_model is not None:
            state.best_model = self._gather(state.best_model)

    def _gather(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The same tensors, those of single encoders taken from the rank that trains the patch."""
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
    """Values and tensors as bytes, without pickle."""
    from safetensors.torch import save

    values = json.dumps(checkpoint.values).encode()
    return len(values).to_bytes(8, "little") + values + save(checkpoint.tensors)


def _unpack(data: bytes) -> tuple[dict[str, Tensor], dict[str, Any]]:
    from safetensors.torch import load

    length = int.from_bytes(data[:8], "little")
    return load(data[8 + length :]), json.loads(data[8 : 8 + length])
