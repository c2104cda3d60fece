"""Messages of commands on stderr: what was read, what a long run will take."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console

from l2g2g.cli.plan import look_ahead

if TYPE_CHECKING:
    from l2g2g.config import Config
    from l2g2g.graphs.duckdb_store import Progress
    from l2g2g.graphs.graph_store import GraphStore

screen = Console(stderr=True)


def describe_graph(loaded: GraphStore, silent: bool) -> None:
    """Say what was read."""
    if not silent:
        from l2g2g.graphs.checks import find_classes

        cleaned, labels, classes = loaded.cleaning.describe(), loaded.labels, ""
        if labels is not None:
            numbers = find_classes(labels)[1]
            num_unknown = int((numbers < 0).sum())
            classes = f", {numbers.max(initial=-1) + 1:,} classes"
            classes += f" ({num_unknown:,} nodes without a label)" if num_unknown else ""
        say(
            f"{loaded.name}: {loaded.num_nodes:,} nodes, {loaded.num_edges:,} edges, "
            f"{loaded.num_features:,} features{classes}" + (f" ({cleaned})" if cleaned else "")
        )


def say_plan(loaded: GraphStore, config: Config, silent: bool) -> None:
    """Say what a long run will take before it starts."""
    expected = None if silent else look_ahead(loaded, config)
    if expected is not None:
        say(expected)


@contextmanager
def show_steps(silent: bool) -> Iterator[Progress]:
    """A progress bar on a terminal for the rows of each step of a preparation; elsewhere a line for each step."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen, transient=True, disable=silent or not screen.is_terminal) as bar:
        task = bar.add_task("", total=None, visible=False)
        last_step = ""

        def show(step: str, done: int, total: int) -> None:
            nonlocal last_step
            if bar.disable and not silent and step != last_step:
                say(f"preparing: {step} …")
            last_step = step
            bar.update(task, description=step, completed=done, total=total or None, visible=True)

        yield show


def say(text: str) -> None:
    """Print one line on stderr as it is: names may hold brackets, and long lines are not wrapped."""
    screen.print(text, markup=False, highlight=False, soft_wrap=True)
