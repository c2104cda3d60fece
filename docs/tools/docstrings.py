"""An extension of griffe: `Example:` in a docstring is its section of examples, as `Examples:` is."""

from __future__ import annotations

import re
from typing import Any

import griffe


class OneExample(griffe.Extension):
    """Read `Example:` as `Examples:`, which is what the parser knows."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        """Change the docstring of everything that has one."""
        if obj.docstring is not None:
            obj.docstring.value = re.sub(r"^Example:$", "Examples:", obj.docstring.value, flags=re.MULTILINE)
