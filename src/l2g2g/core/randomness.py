"""Randomness by counter: a draw is a function of (seed, purpose, epoch, node numbers) and nothing else.

So training in one block, patch by patch, over several ranks or after a resume draws the same numbers. A stream's 64-bit
key is made here by the finaliser of SplitMix64 (Steele, Lea and Flood 2014); the draws themselves are 32-bit hashes of
the key and of node numbers, in `core/cpp/hashing.hpp` and `core/reference.py`.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import torch

from l2g2g.core import reference

_GOLDEN = 0x9E3779B97F4A7C15
_FIRST = 0xBF58476D1CE4E5B9
_SECOND = 0x94D049BB133111EB
_MASK = (1 << 64) - 1
_ROWS = 1 << 14


class Purpose(IntEnum):
    """What a stream of random numbers is for; streams of different purpose are independent."""

    NEGATIVES = 1
    NOISE = 2
    NODE_SAMPLE = 3
    MASK = 4
    FEATURE_DROPOUT = 5
    INITIAL_WEIGHTS = 7
    STRUCTURE = 8
    MASK_GROUPS = 9
    SPLIT = 10
    NODE_ORDER = 11
    NON_EDGES = 12
    DIRECTIONS = 13
    RECORD = 14


def mix(value: int) -> int:
    """The SplitMix64 finaliser of a Python integer."""
    value = (value ^ (value >> 30)) * _FIRST & _MASK
    value = (value ^ (value >> 27)) * _SECOND & _MASK
    return value ^ (value >> 31)


def mix_words(values: np.ndarray) -> np.ndarray:
    """The same of an array of uint64."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(_FIRST)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(_SECOND)
    return values ^ (values >> np.uint64(31))


def stream_key(seed: int, purpose: Purpose, epoch: int = 0, patch: int = 0) -> int:
    """A 64-bit key of one stream of random numbers."""
    return mix((_base_key(seed, purpose, epoch) + patch) & _MASK)


def stream_keys(seed: int, purpose: Purpose, epoch: int, patches: np.ndarray) -> np.ndarray:
    """(num_patches,) uint64 keys of the streams of some patches."""
    if len(patches) == 1:  # many times faster than arrays of one number
        return np.array([stream_key(seed, purpose, epoch, int(patches[0]))], np.uint64)
    return mix_words(np.uint64(_base_key(seed, purpose, epoch)) + patches.astype(np.uint64))


def _base_key(seed: int, purpose: Purpose, epoch: int) -> int:
    key = 0
    for part in (seed, int(purpose), epoch):
        key = mix((key + part + _GOLDEN) & _MASK)
    return (key + _GOLDEN) & _MASK


def random_words(keys: np.ndarray, position: int) -> np.ndarray:
    """64 random bits at a position of each stream, uint64."""
    return mix_words(keys + np.uint64((position + 1) * _GOLDEN & _MASK))


def scale_words(words: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Map random 64-bit words to integers in [0, bound), bound below 2^31, int64."""
    return (((words >> np.uint64(32)) * bounds.astype(np.uint64)) >> np.uint64(32)).astype(np.int64)


def scale_all_bits(words: np.ndarray, bound: int) -> np.ndarray:
    """Map random 64-bit words to integers in [0, bound), bound below 2^32, int64: the upper half of their product.

    Unlike `scale_words` it uses all bits, so that no integer is more than bound / 2^64 likelier than another.
    """
    factor, half = np.uint64(bound), np.uint64(32)
    low = ((words & np.uint64(0xFFFFFFFF)) * factor) >> half
    return (((words >> half) * factor + low) >> half).astype(np.int64)


def hash_node_pairs(one: np.ndarray, other: np.ndarray, key: int) -> np.ndarray:
    """(num_pairs,) uint64 hashes of ordered pairs of node numbers below 2^32; under one key no two pairs share one."""
    position = (one.astype(np.uint64) << np.uint64(32)) + other.astype(np.uint64) + np.uint64(1)
    return mix_words(np.uint64(key) + position * np.uint64(_GOLDEN))


def share_threshold(fraction: float) -> int:
    """32-bit hashes below this number are the given share of all."""
    return round(fraction * (1 << 32))


def torch_generator(seed: int, purpose: Purpose, patch: int = 0) -> torch.Generator:
    """A CPU generator for draws that torch makes itself."""
    return torch.Generator().manual_seed(stream_key(seed, purpose, patch=patch) >> 1)


def gaussian_numbers(nodes: np.ndarray, width: int, *, seed: int, epoch: int) -> np.ndarray:
    """(num_nodes, width) float32 normal numbers of an epoch, by node: those of Box and Muller."""
    key = stream_key(seed, Purpose.NOISE, epoch)
    numbers = np.empty((len(nodes), width + width % 2), np.float32)
    half = numbers.shape[1] // 2
    for low in range(0, len(nodes), _ROWS):
        hashes = reference.hash_nodes(nodes[low : low + _ROWS].astype(np.int32), key)[:, None]
        words = reference.hash_numbers(hashes, np.arange(2 * half, dtype=np.uint32)[None], key)
        uniform = (words + 0.5) / 2.0**32
        lengths, angles = np.sqrt(-2.0 * np.log(uniform[:, :half])), 2 * np.pi * uniform[:, half:]
        numbers[low : low + _ROWS, :half] = lengths * np.cos(angles)
        numbers[low : low + _ROWS, half:] = lengths * np.sin(angles)
    return np.ascontiguousarray(numbers[:, :width])
