"""An extension of griffe: the sections of our docstrings by the names that its parser knows."""

from __future__ import annotations

import re
from typing import Any

import griffe

NAMES = {r"^Example:$": "Examples:", r"^Attributes set by `fit`:$": "Attributes:"}


class OurSections(griffe.Extension):
    """Read one example as examples, and what `fit` sets as attributes."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Change the docstring of everything that has one."""
        if obj.docstring is not None:
            for ours, known in NAMES.items():
                obj.docstring.value = re.sub(ours, known, obj.docstring.value, flags=re.MULTILINE)
