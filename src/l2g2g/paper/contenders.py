"""The compared methods: the paper's four as the authors ran them, and this project's default."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from l2g2g.config import suggest
from l2g2g.errors import InputError
from l2g2g.graphs import splits
from l2g2g.paper.cells import Cell


@dataclass(frozen=True)
class Contender:
    """A method with a preset, as compared in every study.

    Attributes:
        colour: Its number in the cycle of colours, the same in all figures.
        short: The label in tables, where the usual one is too long for them.
    """

    label: str
    method: str
    preset: str
    colour: int
    uses_patches: bool = True
    short: str | None = None

    @property
    def heading(self) -> str:
        """The label in tables."""
        return self.short or self.label

    @property
    def shift(self) -> float:
        """Where its points lie beside a tick that all methods share."""
        return 0.09 * (self.colour - 2)

    def cell(self, dataset: str, options: dict[str, Any], seed: int = 0, protocol: splits.Protocol = "heldout") -> Cell:
        """A run of this method on a graph. options: settings that differ from the preset."""
        return Cell(dataset, self.method, self.preset, options, seed, protocol)


CONTENDERS = {
    "gae": Contender("GAE", "gae", "paper", 0, uses_patches=False),
    "fastgae": Contender("FastGAE", "fastgae", "paper", 1, uses_patches=False),
    "gae+l2g": Contender("GAE+L2G", "gae+l2g", "paper", 2),
    "l2g2g": Contender("L2G2G", "l2g2g", "paper", 3),
    "default": Contender("L2G2G, this project's default", "l2g2g", "default", 4, short="default"),
}
PATCHED = [name for name, contender in CONTENDERS.items() if contender.uses_patches]
DEFAULT_MEANS = "The method “default” is L2G2G with this project's default preset."


def choose_contenders(names: Iterable[str] | None) -> list[str]:
    """The names given, without repetitions; all of them for None. An unknown name is an InputError."""
    chosen = list(CONTENDERS) if names is None else list(dict.fromkeys(names))
    for name in chosen:
        if name not in CONTENDERS:
            raise InputError(f"--methods: unknown method '{name}'; {suggest(name, list(CONTENDERS))}")
    return chosen


def contender_of(row: dict[str, Any]) -> str | None:
    """The name of the contender that a stored line belongs to; None for another method or preset."""
    cell = row.get("cell", {})
    for name, contender in CONTENDERS.items():
        if (cell.get("method"), cell.get("preset")) == (contender.method, contender.preset):
            return name
    return None
