"""The parts that all studies of the reproduction share: selections, protocols, and options of timed runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from l2g2g.graphs import splits
from l2g2g.paper.cells import AnyCell
from l2g2g.paper.results import Row
from l2g2g.reports.document import Block

PROTOCOLS: dict[splits.Protocol, str] = {
    "paper": "the paper's evaluation (validation edges and a self-loop for every node)",
    "heldout": "held-out links (no self-loops, nothing of the test seen)",
}
SHORT_PROTOCOLS = {"paper": "under the paper's evaluation", "heldout": "on held-out links"}
TIMED_EPOCHS, QUICK_TIMED_EPOCHS = 20, 5


@dataclass(frozen=True)
class Choice:
    """Selections of the command line; None leaves the choice to the study."""

    datasets: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    seeds: int | None = None
    quick: bool = False

    def graphs_and_seeds(
        self, full: Mapping[str, int], quick: Mapping[str, int], otherwise: int = 1
    ) -> list[tuple[str, int]]:
        """(graph, seed) pairs to run, all seeds of one graph together.

        full, quick: graphs of the study and their number of seeds; otherwise: seeds of other graphs in a full run.
        """
        usual = quick if self.quick else full
        return [
            (name, seed)
            for name in self.datasets or usual
            for seed in range(self.seeds or usual.get(name, 1 if self.quick else otherwise))
        ]


class Study(Protocol):
    """A module with these names is a study: one section of the report."""

    TITLE: str

    def plan(self, choice: Choice) -> list[AnyCell]:
        """All cells; those of one graph stand together."""

    def present(self, rows: list[Row], quick: bool) -> list[Block]:
        """Tables, figures and text from stored lines, the latest of each cell; also of cells of earlier commands."""


def timing_options(quick: bool, **more: Any) -> dict[str, Any]:
    """Options of a run for its times: a fixed number of epochs, without early stopping. more: settings to vary."""
    return {"epochs": QUICK_TIMED_EPOCHS if quick else TIMED_EPOCHS, "patience": 0, **more}
