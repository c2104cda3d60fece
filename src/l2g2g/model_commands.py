"""Command line of finished models: `embed --model` for new nodes, `embed --warm-start` to go on training."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from l2g2g.errors import InputError

if TYPE_CHECKING:
    from l2g2g.config import Config
    from l2g2g.graphs.graph_store import GraphStore
    from l2g2g.run import Run
    from l2g2g.saved_model import SavedModel


ModelOption = Annotated[
    Path | None,
    typer.Option(help="A finished run or saved model: embed new nodes in its coordinates, without training."),
]
NewGraphOption = Annotated[
    bool, typer.Option("--new-graph", help="With --model: no node of the graph is known, whatever its id.")
]
WarmStartOption = Annotated[
    Path | None, typer.Option(help="A finished run: go on training on a graph that has grown, in its coordinates.")
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
    output: Path,
    *,
    new_graph: bool,
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
    from l2g2g.graphs.read import read_graph
    from l2g2g.graphs.write import check_output, write_embedding
    from l2g2g.new_nodes import embed_grown
    from l2g2g.resources import peak_memory
    from l2g2g.saved_model import read_model
    from l2g2g.stopwatch import Stopwatch

    clock = Stopwatch()
    with clock.measure("read"):
        model = read_model(folder)
        fitted, config = model.for_new_nodes(), model.config
        known_ids = None if new_graph else model.node_ids
        loaded = read_graph(graph, features, data_dir=data_dir, directed=config.directed, known_ids=known_ids)
    check_output(output, loaded.node_ids)
    with clock.measure("embed"):
        vectors, matched = embed_grown(fitted, model.embedding, model.node_ids, loaded, all_new=new_graph)
    with clock.measure("write"):
        write_embedding(output, vectors, loaded.node_ids)
    clock.seconds["total"] = sum(clock.seconds.values())
    num_new = matched.newcomers.num_new
    row = {
        "method": config.method,
        "preset": config.preset,
        "dim": config.dim,
        "epochs": 0,
        "resumed_from_epoch": 0,
        "num_patches": fitted.known.num_patches,
        "num_nodes": loaded.num_nodes,
        "num_edges": loaded.num_edges,
        "num_known": loaded.num_nodes - num_new,
        "num_new": num_new,
        "model": str(folder),
        "seconds": clock.seconds,
        "peak_memory_bytes": peak_memory(),
        "output": str(output),
    }
    if as_json:
        typer.echo(json.dumps(row))
    elif not quiet:
        typer.echo(
            f"{output}: {loaded.num_nodes:,} vectors of {config.dim} numbers, {num_new:,} of them of new nodes, "
            f"{clock.seconds['total']:.1f} s"
        )
    return row


def read_finished(folder: Path, given: dict[str, Any]) -> tuple[SavedModel, Config]:
    """A finished run to go on with, and its settings with those that are given now."""
    from dataclasses import replace

    from l2g2g.saved_model import read_model
    from l2g2g.warm_start import check_continues

    if "preset" in given:
        raise InputError("--warm-start takes the settings of the finished run; leave --preset out")
    before = read_model(folder)
    return before, check_continues(before.config, replace(before.config, **given))


def save_run(run_dir: Path, run: Run, graph: GraphStore) -> None:
    """Leave the finished model in its run directory, for `--model` and `--warm-start`."""
    from l2g2g.record_graph import ids_of
    from l2g2g.saved_model import ESTIMATORS, SavedModel, write_model

    name, history = ESTIMATORS[run.config.method], run.trained.history
    write_model(run_dir, SavedModel(name, None, run.config, run.embedding, ids_of(graph), history, run.fitted))
