"""Randomness by counter: a draw is a function of (seed, epoch, patch, purpose, position) and nothing else.

So training in one block, patch by patch, over several ranks or after a resume draws the same numbers.
The generator is the finaliser of SplitMix64 (Steele, Lea and Flood 2014), once in numba for the CPU and
once in torch for any device; both give the same bits.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import torch
from numba import njit
from torch import Tensor

_GOLDEN = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
_MASK = (1 << 64) - 1


class Purpose(IntEnum):
    """What a stream of random numbers is for; streams of different purpose are independent."""

    NEGATIVES = 1
    NOISE = 2
    NODE_SAMPLE = 3
    MASK = 4
    FEATURE_DROPOUT = 5
    BETWEEN_PATCHES = 6
    INITIAL_WEIGHTS = 7
    STRUCTURE = 8
    MASK_GROUPS = 9
    HELD_BACK = 10


def mix(value: int) -> int:
    """The SplitMix64 finaliser of a Python integer."""
    value = (value ^ (value >> 30)) * _FIRST & _MASK
    value = (value ^ (value >> 27)) * _SECOND & _MASK
    return value ^ (value >> 31)


def stream_key(seed: int, purpose: Purpose, epoch: int = 0, patch: int = 0) -> int:
    """A 64-bit key of one stream of random numbers."""
    key = 0
    for part in (seed, int(purpose), epoch, patch):
        key = mix((key + part + _GOLDEN) & _MASK)
    return key


def torch_generator(seed: int, purpose: Purpose, epoch: int = 0, patch: int = 0) -> torch.Generator:
    """A CPU generator for draws that torch makes itself."""
    return torch.Generator().manual_seed(stream_key(seed, purpose, epoch, patch) >> 1)


@njit(cache=True, inline="always")
def random_word(key: np.uint64, position: np.uint64) -> np.uint64:
    """64 random bits at a position of a stream (numba)."""
    value = key + (position + np.uint64(1)) * np.uint64(_GOLDEN)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(_FIRST)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(_SECOND)
    return value ^ (value >> np.uint64(31))


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def _shift(value: Tensor, bits: int) -> Tensor:
    return (value >> bits) & ((1 << (64 - bits)) - 1)


def random_words(keys: Tensor, positions: Tensor) -> Tensor:
    """64 random bits at each position of each stream, as int64, on the device of `positions` (torch)."""
    value = keys + (positions + 1) * _signed(_GOLDEN)
    value = (value ^ _shift(value, 30)) * _signed(_FIRST)
    value = (value ^ _shift(value, 27)) * _signed(_SECOND)
    return value ^ _shift(value, 31)


def scale_to(words: Tensor, bounds: Tensor) -> Tensor:
    """Map random bits to integers in [0, bound), bound below 2^31, by the upper 32 bits."""
    return (_shift(words, 32) * bounds) >> 32


def signed_key(key: int) -> int:
    """The key as torch's int64 holds it."""
    return _signed(key)
