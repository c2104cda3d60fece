"""Shared keeper: one rank keeps the state of a job, all go on from it, and all end after the same epoch.

Whether a signal came to one of the ranks, and whether it is time to save, is agreed on with the gradients of an epoch.
Encoders of single patches live on the rank that trains them, so before a save they are brought together.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from torch import Tensor

from l2g2g.errors import Interrupted
from l2g2g.training.checkpoint import Checkpoint
from l2g2g.training.keeper import Keeper
from l2g2g.training.shard import Shard
from l2g2g.training.state import LoopState

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class SharedKeeper:
    """The keeper of a job with several ranks, as each of them sees it.

    Args:
        shard: This rank's part of the job.
        keeper: Saves and finds; only the first rank has it.
    """

    def __init__(self, shard: Shard, keeper: Keeper | None) -> None:
        self.shard, self.keeper = shard, keeper
        self._signal: int | None = None
        shard.ask = self._ask

    @property
    def seconds(self) -> float:
        """What saving cost this rank."""
        return 0.0 if self.keeper is None else self.keeper.seconds

    @contextmanager
    def watch(self) -> Iterator[None]:
        """While a training runs: signals wait for the end of an epoch, on every rank."""
        if self.keeper is not None:
            with self.keeper.watch():
                yield
            return
        previous = {}
        if threading.current_thread() is threading.main_thread():
            previous = {number: signal.signal(number, self._note) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def begin(self, state: LoopState) -> None:
        """Bring the state of every rank to where the checkpoint stands."""
        found = None if self.keeper is None else self.keeper.found
        heard = self.shard.communicator.broadcast("checkpoint", b"" if found is None else _pack(found))
        if self.keeper is not None:
            self.keeper.begin(state)
        elif heard:
            tensors, values = _unpack(heard)
            state.restore(tensors, values)

    def after_epoch(self, state: LoopState) -> None:
        """Save or leave where that was agreed on."""
        asked, due = (answer > 0 for answer in self.shard.answers)
        if not asked and not due:
            return
        self._bring_together(state)
        if self.keeper is None:
            if asked:
                number = self._signal or signal.SIGTERM
                raise Interrupted(number, f"interrupted after epoch {state.epoch}; --resume goes on from there")
        elif asked:
            self.keeper.stop(state)
        else:
            self.keeper.save(state)

    def finish(self, state: LoopState) -> None:
        """Keep the end of training."""
        self._bring_together(state)
        if self.keeper is not None:
            self.keeper.finish(state)

    def _ask(self) -> list[float]:
        """What the ranks agree on with every epoch: does anyone have to stop, and does the first want to save."""
        if self.keeper is None:
            return [float(self._signal is not None), 0.0]
        return [float(self.keeper.asked), float(self.keeper.is_due())]

    def _bring_together(self, state: LoopState) -> None:
        """All encoders, with their moments and good states, from the ranks that train them."""
        model, recovery = state.model, state.recovery
        if model.shares_encoder:
            return
        names = [name for name, _ in model.named_parameters()]
        best_is_good = state.best_model is recovery.state
        moments = [state.optimiser.means, state.optimiser.squares, state.optimiser.steps]
        for tensors in moments:
            tensors[:] = self._unite(dict(zip(names, tensors, strict=True))).values()
        model.load_state_dict(self._unite(model.state_dict()))
        recovery.state = self._unite(recovery.state)
        if best_is_good:
            state.best_model = recovery.state
        elif state.best_model is not None:
            state.best_model = self._unite(state.best_model)

    def _unite(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """The same tensors, those of single encoders taken from the rank that trains the patch."""
        owners, communicator = self.shard.owners, self.shard.communicator
        united = {}
        for name, tensor in tensors.items():
            if name.startswith("encoders."):
                tensor = tensor.clone()
                if owners[int(name.split(".")[1])] != communicator.rank:
                    tensor.zero_()
                communicator.all_reduce("encoders", tensor)
            united[name] = tensor
        return united

    def _note(self, number: int, _: FrameType | None) -> None:
        if self._signal is not None:  # asked twice: at once
            raise Interrupted(number)
        self._signal = number


def _pack(checkpoint: Checkpoint) -> bytes:
    """Values and tensors as bytes, without pickle."""
    from safetensors.torch import save

    values = json.dumps(checkpoint.values).encode()
    return len(values).to_bytes(8, "little") + values + save(checkpoint.tensors)


def _unpack(data: bytes) -> tuple[dict[str, Tensor], dict[str, Any]]:
    from safetensors.torch import load

    length = int.from_bytes(data[:8], "little")
    return load(data[8 + length :]), json.loads(data[8 : 8 + length])
