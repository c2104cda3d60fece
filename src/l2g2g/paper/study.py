"""Study: one part of the reproduction: which cells it needs, and what it says about their lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from l2g2g.paper.cells import AnyCell
from l2g2g.paper.results import Row
from l2g2g.reports.document import Block


@dataclass(frozen=True)
class Choice:
    """What was asked for on the command line; None for what the study does by itself."""

    datasets: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    seeds: int | None = None
    quick: bool = False


class Study(Protocol):
    """A module with these names is a study."""

    TITLE: str

    def plan(self, choice: Choice) -> list[AnyCell]:
        """All cells; those of one graph stand together."""

    def present(self, rows: list[Row], quick: bool) -> list[Block]:
        """Tables, figures and words from stored lines, each cell's latest; also of cells of earlier commands."""
