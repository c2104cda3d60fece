"""Completion: what the shell offers after a tab. Loaded at every tab, so nothing heavy is imported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import typer

from l2g2g.graphs.formats import ENDINGS

BASELINE_NAMES = (  # those of `evaluation.baselines`, whose import would load torch
    "spectral",
    "adamic-adar",
    "common-neighbours",
    "resource-allocation",
    "l3",
    "preferential-attachment",
)


def complete_words(words: Iterable[str]) -> Callable[[str], list[str]]:
    """What completes one of these words."""
    known = tuple(words)

    def complete(incomplete: str) -> list[str]:
        return [word for word in known if word.startswith(incomplete)]

    return complete


def complete_graph(context: typer.Context, incomplete: str) -> list[str]:
    """Names of data sets that are there, and files and folders that may hold a graph."""
    return [*_dataset_names(context.params.get("data_dir"), incomplete), *_graph_files(incomplete)]


def _dataset_names(data_dir: Path | str | None, incomplete: str) -> list[str]:
    from l2g2g.errors import InputError
    from l2g2g.graphs.datasets import list_datasets

    try:
        known = list_datasets(data_dir)
    except InputError:  # a folder that is not there is said when the command runs
        return []
    wanted = incomplete.lower().replace("_", "-")
    return [item.name for item in known if item.available and item.name.startswith(wanted)]


def _graph_files(incomplete: str) -> Iterator[str]:
    folder, _, start = incomplete.rpartition("/")
    place = Path(f"{folder}/" if folder or incomplete.startswith("/") else ".")
    if not place.is_dir():
        return
    for path in sorted(place.iterdir()):
        if path.name.startswith(start) and (start or not path.name.startswith(".")):
            shown = incomplete[: len(incomplete) - len(start)] + path.name
            if path.is_dir():
                yield f"{shown}/"
            elif path.suffix.lower() in ENDINGS:
                yield shown
