"""Lazy names: what a package exports is imported when it is first used, so that importing the package stays fast."""

from __future__ import annotations

from collections.abc import Callable
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
