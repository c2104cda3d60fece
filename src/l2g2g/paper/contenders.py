"""Contenders: the four methods as the authors ran them, and this project's default."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from l2g2g.config import suggest
from l2g2g.errors import InputError


@dataclass(frozen=True)
class Contender:
    """A row of every comparison. colour: its place in the cycle of colours, the same in all figures.

    Attributes:
        short: What tables call it, where the label is too long for them.
    """

    label: str
    method: str
    preset: str
    colour: int
    uses_patches: bool = True
    short: str | None = None

    @property
    def heading(self) -> str:
        """What tables call it."""
        return self.short or self.label


CONTENDERS = {
    "gae": Contender("GAE", "gae", "paper", 0, uses_patches=False),
    "fastgae": Contender("FastGAE", "fastgae", "paper", 1, uses_patches=False),
    "gae+l2g": Contender("GAE+L2G", "gae+l2g", "paper", 2),
    "l2g2g": Contender("L2G2G", "l2g2g", "paper", 3),
    "default": Contender("L2G2G, this project's default", "l2g2g", "default", 4, short="default"),
}
DEFAULT_MEANS = "The method “default” is L2G2G with this project's default preset."


def choose_contenders(names: Iterable[str] | None) -> list[str]:
    """Names as given, checked; all of them by default."""
    chosen = list(CONTENDERS) if names is None else list(dict.fromkeys(names))
    for name in chosen:
        if name not in CONTENDERS:
            raise InputError(f"--methods: unknown method '{name}'; {suggest(name, list(CONTENDERS))}")
    return chosen


def contender_of(row: dict[str, Any]) -> str | None:
    """Which contender a stored line belongs to."""
    cell = row.get("cell", {})
    for name, contender in CONTENDERS.items():
        if (cell.get("method"), cell.get("preset")) == (contender.method, contender.preset):
            return name
    return None
