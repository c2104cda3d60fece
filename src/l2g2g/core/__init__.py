"""Core: the kernels of the hot path, native on the CPU, and the same formulas in plain torch and NumPy.

`_native` is the compiled extension (core/cpp), `reference` says every formula once more. Kernels on graphs take and
return NumPy arrays and have the same name and arguments in both: `kernels().induce(...)`. Kernels on tensors are
called by the autograd functions of `l2g2g.models`.

The environment variable L2G2G_INSTRUCTIONS (generic, avx2 or avx512) fixes the instruction set of the native kernels:
then different kinds of CPU give the same bits.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any, Literal

import numpy as np
import torch

from l2g2g.core import reference
from l2g2g.errors import NO_NATIVE_CORE, InputError

_native: ModuleType | None
try:
    _native = import_module("l2g2g.core._native")
except ImportError:
    _native = None

Backend = Literal["auto", "native", "torch"]
_backend: Backend = "auto"
_PARTS_BELOW = {100_000: 1, 1_000_000: 2}  # number of parts of a sum with less work than this
_MOST_PARTS = 8


def set_backend(backend: Backend) -> None:
    """Choose the implementation: native (the compiled core), torch (the reference), or auto: native if it is built."""
    global _backend
    if backend == "native" and _native is None:
        raise InputError(f"--backend native: {NO_NATIVE_CORE}")
    _backend = backend


def is_built() -> bool:
    """Whether the compiled core is there."""
    return _native is not None


def native() -> Any:
    """The compiled kernels; None where the reference is to be used."""
    return None if _backend == "torch" else _native


def kernels() -> Any:
    """The kernels on graphs: compiled, or those of the reference."""
    return native() or reference


def set_num_threads(count: int) -> None:
    """Set how many threads the native kernels use."""
    if _native is not None:
        _native.set_num_threads(count)


def num_threads() -> int:
    """Threads that the native kernels use."""
    return 1 if _native is None else int(_native.num_threads())


@contextmanager
def one_torch_thread(when: bool = True) -> Iterator[None]:
    """Run torch on one thread: faster for many small steps, and the same bits for any number of threads."""
    threads = torch.get_num_threads()
    if when:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def num_parts(work: int) -> int:
    """Number of parts in which rows are summed, each in a table of its own. work: number of rows that are added.

    It does not depend on the number of threads, so that the sums do not either.
    """
    return next((parts for limit, parts in _PARTS_BELOW.items() if work < limit), _MOST_PARTS)


def instruction_set() -> str:
    """The instruction set of the native kernels, which decides the bits of a result; torch where these do not run."""
    return "torch" if native() is None else str(native().instruction_set())


def hash_nodes(nodes: np.ndarray, key: int) -> np.ndarray:
    """(num_nodes,) uint32 hashes of node numbers under a 64-bit key. nodes: int32."""
    if native() is None:
        return reference.hash_nodes(nodes, key)
    hashes = np.empty(len(nodes), np.uint32)
    native().hash_nodes(np.ascontiguousarray(nodes), key, hashes)
    return hashes


def hash_pairs(one: np.ndarray, other: np.ndarray, key: int) -> np.ndarray:
    """(num_pairs,) uint32 hashes of pairs of nodes, the same in both directions. one, other: int32."""
    if native() is None:
        return reference.hash_pairs(one, other, key)
    words = np.empty(len(one), np.uint32)
    native().hash_pairs(np.ascontiguousarray(one), np.ascontiguousarray(other), key, words)
    return words


hash_numbers = reference.hash_numbers  # the kernels hash numbers themselves; this is for a few of them


def score_inner_products(embedding: np.ndarray, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """(num_pairs,) float64 z_u · z_v of each pair. embedding: (num_nodes, dim)."""
    table = np.ascontiguousarray(embedding, np.float32 if embedding.dtype == np.float32 else np.float64)
    return kernels().inner_products(table, *(np.ascontiguousarray(ends, np.int64) for ends in (sources, targets)))


def blank_table(*shape: int) -> np.ndarray:
    """A float32 array with undefined contents that begins with a cache line, so that a row of 16 is one line."""
    table: np.ndarray = native().blank_table(shape)
    return table


def zero_table(*shape: int) -> np.ndarray:
    """A `blank_table` filled with zeros."""
    table = blank_table(*shape)
    table.fill(0.0)
    return table


def _choose_instructions() -> None:
    wanted = os.environ.get("L2G2G_INSTRUCTIONS")
    if _native is None or not wanted:
        return
    found = _native.instruction_sets()
    if wanted not in found:
        raise InputError(f"L2G2G_INSTRUCTIONS is '{wanted}'; this machine has {', '.join(found)}")
    _native.set_instruction_set(wanted)


_choose_instructions()
