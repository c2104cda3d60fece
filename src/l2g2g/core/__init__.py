"""Core: the kernels of the hot path, native on the CPU, and the same formulas in plain torch and NumPy.

`_native` is the compiled extension (core/cpp), `reference` says every formula once more. Kernels on graphs take and
return NumPy arrays and have the same name and arguments in both: `kernels().induce(...)`. Kernels on tensors are
called by the autograd functions of `l2g2g.models`.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Literal

from l2g2g.core import reference
from l2g2g.errors import InputError

_native: ModuleType | None
try:
    from l2g2g.core import _native  # type: ignore[attr-defined, no-redef]
except ImportError:
    _native = None

Backend = Literal["auto", "native", "torch"]
INSTALL_HINT = "the native core is not built, so l2g2g runs several times slower; install g++ and python3-dev, then reinstall"
_backend: Backend = "auto"


def set_backend(backend: Backend) -> None:
    """Choose who computes: native (the compiled core), torch (the reference), or auto: native where it is built."""
    global _backend
    if backend == "native" and _native is None:
        raise InputError(f"--backend native: {INSTALL_HINT}")
    _backend = backend


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
