"""Messages of commands on stderr: what was read, what a long run will take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from l2g2g.cli.plan import look_ahead

if TYPE_CHECKING:
    from l2g2g.config import Config
    from l2g2g.graphs.graph_store import GraphStore

screen = Console(stderr=True)


def describe_graph(loaded: GraphStore, silent: bool) -> None:
    """Say what was read."""
    if not silent:
        from l2g2g.graphs.labels import number_classes

        cleaned, labels = loaded.cleaning.describe(), loaded.labels
        classes = "" if labels is None else f", {number_classes(labels).max() + 1:,} classes"
        say(
            f"{loaded.name}: {loaded.num_nodes:,} nodes, {loaded.num_edges:,} edges, "
            f"{loaded.num_features:,} features{classes}" + (f" ({cleaned})" if cleaned else "")
        )


def say_plan(loaded: GraphStore, config: Config, silent: bool) -> None:
    """Say what a long run will take before it starts."""
    expected = None if silent else look_ahead(loaded, config)
    if expected is not None:
        say(expected)


def say(text: str) -> None:
    """Print one line on stderr as it is: names may hold brackets, and long lines are not wrapped."""
    screen.print(text, markup=False, highlight=False, soft_wrap=True)
