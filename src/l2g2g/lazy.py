"""Lazy imports: what a package exports is imported when it is first used, so that importing the package stays fast."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any


def lazy_names(package: str, modules: dict[str, str]) -> Callable[[str], Any]:
    """A `__getattr__` for a package. modules: for each exported name, the module of the package that defines it.

    Example:
        >>> lazy_names("collections", {"Mapping": "abc"})("Mapping").__name__
        'Mapping'
    """

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(import_module(f"{package}.{modules[name]}"), name)

    return load


@contextmanager
def without_collection() -> Iterator[None]:
    """Import torch without garbage collections, and leave what is there then out of later ones: modules stay.

    For commands, whose process is ours. Collections are a fifth of the time that importing torch and the package
    takes. Nothing happens where torch is imported already.
    """
    if "torch" in sys.modules or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
