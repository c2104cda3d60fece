"""An extension of griffe: docstrings as they are at run time, their sections by the names that its parser knows."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Any

import griffe

NAMES = {r"^Example:$": "Examples:", r"^Attributes set by `fit`:$": "Attributes:"}
ESTIMATORS = "l2g2g.estimators.estimator"  # their parameters are made from the table of options


class OurSections(griffe.Extension):
    """Read one example as examples, what `fit` sets as attributes, and the parameters that estimators were given."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Change the docstring of everything that has one."""
        if obj.docstring is None:
            return
        if obj.is_class and obj.path == f"{ESTIMATORS}.{obj.name}":
            obj.docstring.value = inspect.getdoc(getattr(import_module(ESTIMATORS), obj.name)) or ""
        for ours, known in NAMES.items():
            obj.docstring.value = re.sub(ours, known, obj.docstring.value, flags=re.MULTILINE)
