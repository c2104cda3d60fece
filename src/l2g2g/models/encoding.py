"""Encoding: vectors without a graph of autograd, and the way of their gradient back to the parameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from l2g2g.models.encoder_input import EncoderInput


@dataclass(frozen=True, eq=False)
class Encoding:
    """What an encoder made of its input, and the way of a gradient back to its parameters.

    Attributes:
        vectors: (num_rows, width), detached.
        backward: Adds to the gradients of the parameters what a gradient of the vectors, (num_rows, width), gives. It
            is told the input once more.
        holds_inputs: Whether the input stays in memory until then anyway.
    """

    vectors: Tensor
    backward: Callable[[Tensor, EncoderInput], None]
    holds_inputs: bool = False


def add_gradient(parameter: Tensor, gradient: Tensor) -> None:
    """Add to the gradient of a parameter, as autograd does."""
    parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)
