"""Adam: the optimiser, without the seconds that importing torch's own takes."""

from __future__ import annotations

from collections.abc import Iterable
from operator import is_not

import numpy as np
import torch
from torch import Tensor

from l2g2g.core import native
from l2g2g.models.sparse import runs_native


class Adam:
    """Adam (Kingma and Ba 2015) with the usual constants; equal to `torch.optim.Adam` up to rounding.

    torch.optim imports torch's compiler with its first optimiser, which takes longer than a small training. On the
    CPU a native kernel does the step, because torch's own wakes threads for it.
    """

    def __init__(self, parameters: Iterable[Tensor], rate: float) -> None:
        self.parameters = list(parameters)
        self.rate = rate
        self.forget()

    def forget(self) -> None:
        """Reset the moments."""
        self.means = [torch.zeros_like(each) for each in self.parameters]
        self.squares = [torch.zeros_like(each) for each in self.parameters]
        self.steps = [torch.zeros((), device=each.device) for each in self.parameters]
        # Of each parameter: its address and moments, and the arrays that share their memory.
        self._arrays: dict[int, tuple[int, tuple[Tensor, ...], tuple[np.ndarray, ...]]] = {}

    def clear_gradients(self) -> None:
        """Reset the gradients."""
        for each in self.parameters:
            each.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Update the parameters that have a gradient."""
        used = [place for place, each in enumerate(self.parameters) if each.grad is not None]
        if runs_native(*self.parameters):
            self._step_native(used)
            return
        for place in used:
            self.steps[place] += 1
        torch._fused_adam_(
            [self.parameters[place] for place in used],
            [gradient for gradient in (self.parameters[place].grad for place in used) if gradient is not None],
            [self.means[place] for place in used],
            [self.squares[place] for place in used],
            [],
            [self.steps[place] for place in used],
            lr=self.rate,
            beta1=0.9,
            beta2=0.999,
            weight_decay=0.0,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
        )

    def _step_native(self, used: list[int]) -> None:
        step = native().step_adam
        for place in used:
            gradient = self.parameters[place].grad
            assert gradient is not None
            values, mean, square, steps = self._arrays_of(place)
            steps += 1
            count = float(steps)
            flat = gradient.contiguous().numpy().reshape(-1)
            step(values, flat, mean, square, self.rate, 1 - 0.9**count, 1 - 0.999**count)

    def _arrays_of(self, place: int) -> tuple[np.ndarray, ...]:
        """Return a parameter, its moments and its steps as arrays that share their memory; made anew if they moved."""
        parameter, moments = self.parameters[place], (self.means[place], self.squares[place], self.steps[place])
        found = self._arrays.get(place)
        if found is None or found[0] != parameter.data_ptr() or any(map(is_not, found[1], moments)):
            *tables, steps = (each.detach().numpy() for each in (parameter, *moments))
            arrays = *(table.reshape(-1) for table in tables), steps
            found = self._arrays[place] = parameter.data_ptr(), moments, arrays
        return found[2]
