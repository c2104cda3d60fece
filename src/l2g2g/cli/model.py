"""Command line of finished models: `embed --model` for new nodes, `embed --warm-start` to continue training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from l2g2g.cli.help import panel_name
from l2g2g.errors import InputError

if TYPE_CHECKING:
    from l2g2g.config import Config
    from l2g2g.graphs.formats import TableOptions
    from l2g2g.graphs.graph_store import GraphStore
    from l2g2g.runs.artefact import Artefact
    from l2g2g.runs.run import Run
    from l2g2g.runs.warm_start import Movement

_PANEL = panel_name("input")
ModelOption = Annotated[
    Path | None,
    typer.Option(
        help="A finished run or saved model: embed new nodes in its coordinates, without training.",
        rich_help_panel=_PANEL,
    ),
]
NewGraphOption = Annotated[
    bool,
    typer.Option(
        "--new-graph",
        help="With --model: treat all nodes as new, even if the model knows their ids.",
        rich_help_panel=_PANEL,
    ),
]
WarmStartOption = Annotated[
    Path | None,
    typer.Option(
        help="A finished run: continue its training on a graph that has grown, in the same coordinates.",
        rich_help_panel=_PANEL,
    ),
]


def check_one_of(model: Path | None, warm_start: Path | None, new_graph: bool) -> None:
    """Refuse options that exclude each other."""
    if model is not None and warm_start is not None:
        raise InputError("--model embeds new nodes without training, --warm-start goes on training; give one of them")
    if new_graph and model is None:
        raise InputError("--new-graph says that a graph shares no node with a model; it needs --model")


def embed_with_model(
    folder: Path,
    graph: str,
    features: Path | None,
    data_dir: Path | None,
    output: str,
    *,
    new_graph: bool,
    tables: TableOptions,
    given: dict[str, Any],
    as_json: bool,
    quiet: bool,
) -> dict[str, Any]:
    """Embed the nodes of a graph with a finished model, print what was done, and return the JSON line.

    given: options of training that were given, which here would do nothing.
    """
    if given:
        name = sorted(given)[0].replace("_", "-")
        raise InputError(f"--model trains nothing; leave --{name} out, or go on training with --warm-start")
    from l2g2g.graphs.write import check_output, write_embedding
    from l2g2g.runs.artefact import open_artefact
    from l2g2g.runs.environment import peak_memory
    from l2g2g.runs.new_nodes import embed_grown
    from l2g2g.runs.record import read_columns_of, read_ids, read_vectors
    from l2g2g.runs.resources import Stopwatch
    from l2g2g.runs.saved_model import read_fitted
    from l2g2g.runs.sources import read_whole

    clock = Stopwatch()
    with clock.measure("read"):
        artefact = open_artefact(folder)
        fitted, vectors, ids = read_fitted(artefact), read_vectors(artefact), read_ids(artefact)
        config, known_ids = fitted.config, None if new_graph else ids
        reading: dict[str, Any] = {"known_ids": known_ids, "tables": tables, "columns": read_columns_of(artefact)}
        loaded = read_whole(graph, features, directed=config.directed, data_dir=data_dir, **reading)
    check_output(output, loaded.node_ids)
    with clock.measure("embed"):
        vectors, matched = embed_grown(fitted, vectors, ids, loaded, all_new=new_graph)
    with clock.measure("write"):
        write_embedding(output, vectors, loaded.node_ids)
    clock.seconds["total"] = sum(clock.seconds.values())
    num_new = matched.new_nodes.num_new
    row = {
        "method": config.method,
        "preset": config.preset,
        "dim": config.dim,
        "epochs": 0,
        "resumed_from_epoch": 0,
        "num_patches": fitted.num_patches,
        "num_nodes": loaded.num_nodes,
        "num_edges": loaded.num_edges,
        "num_known": loaded.num_nodes - num_new,
        "num_new": num_new,
        "model": str(folder),
        "seconds": clock.seconds,
        "peak_memory_bytes": peak_memory(),
        "validation_auc": None,
        "validation_ap": None,
        "spectral_auc": None,
        "output": output,
    }
    if as_json:
        typer.echo(json.dumps(row))
    elif not quiet:
        typer.echo(
            f"{output}: {loaded.num_nodes:,} vectors, {config.dim}-dimensional, {num_new:,} of them of new nodes, "
            f"{clock.seconds['total']:.1f} s"
        )
    return row


def read_finished(folder: Path, given: dict[str, Any]) -> tuple[Artefact, Config]:
    """A finished run to continue, and its settings with those that are given now."""
    from dataclasses import replace

    from l2g2g.runs.artefact import open_artefact
    from l2g2g.runs.saved_model import read_config
    from l2g2g.runs.warm_start import check_continues

    if "preset" in given:
        raise InputError("--warm-start takes the settings of the finished run; leave --preset out")
    before = open_artefact(folder)
    config = read_config(before)
    return before, check_continues(config, replace(config, **given))


def continue_finished(
    before: Artefact, loaded: GraphStore, config: Config, **options: Any
) -> tuple[Run, Movement | None]:
    """Continue a finished run on a graph that has grown. options: others of `continue_training`."""
    from l2g2g.runs.record import read_ids, read_training_history, read_vectors
    from l2g2g.runs.saved_model import read_fitted
    from l2g2g.runs.warm_start import continue_training

    finished = (read_fitted(before), read_vectors(before), read_ids(before))
    best_epoch = read_training_history(before).best_epoch
    return continue_training(*finished, loaded, config, best_epoch=best_epoch, **options)
