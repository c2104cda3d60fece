"""Command line of embeddings: `l2g2g embed`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from l2g2g.cli.common_options import (
    FeaturesOption,
    GraphArgument,
    JsonOption,
    MethodOption,
    OutputOrPartsOption,
    PresetOption,
    QuietOption,
    SeedOption,
    takes_settings,
    takes_tables,
)
from l2g2g.cli.help import panel_name
from l2g2g.cli.messages import say_plan
from l2g2g.cli.model import (
    ModelOption,
    NewGraphOption,
    WarmStartOption,
    check_one_of,
    continue_finished,
    embed_with_model,
    read_finished,
)
from l2g2g.cli.profile import note_run, takes_profile
from l2g2g.cli.ranks import make_rank_config, on_own_device, takes_ranks
from l2g2g.cli.run_flags import check_tracking, takes_run, watch_training
from l2g2g.lazy import without_collection

if TYPE_CHECKING:
    from l2g2g.graphs.graph_store import GraphStore
    from l2g2g.runs.resources import Stopwatch
    from l2g2g.runs.run import Run

_PARTS = ("epoch_median", "synchronise", "checkpoint")  # seconds of training, counted in it already


@takes_tables
@takes_run
@takes_ranks
@takes_profile
@takes_settings
def embed(
    context: typer.Context,
    graph: GraphArgument,
    output: OutputOrPartsOption,
    features: FeaturesOption = None,
    method: MethodOption = None,
    preset: PresetOption = None,
    model: ModelOption = None,
    new_graph: NewGraphOption = False,
    warm_start: WarmStartOption = None,
    validation: Annotated[
        bool,
        typer.Option(
            "--validation/--no-validation",
            help="Hold out 5 % of the edges during training, to stop it in time and to report a score.",
            rich_help_panel=panel_name("training"),
        ),
    ] = True,
    seed: SeedOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    communicator: Any = None,
    tables: Any = None,
    run: Any = None,
    **options: Any,
) -> None:
    """Embed a graph: train on it and write one vector per node."""
    with without_collection():
        from l2g2g.graphs.store import node_ids_of
        from l2g2g.graphs.write import check_output, is_parts, write_embedding, write_parts
        from l2g2g.runs.embed import embed_graph
        from l2g2g.runs.finished import keep_run
        from l2g2g.runs.resources import Stopwatch

    first, in_parts = communicator.is_first, is_parts(output)
    if first:
        check_output(output)
        check_tracking(run.tensorboard)
    check_one_of(model, warm_start, new_graph)
    chosen = {"method": method, "preset": preset, "seed": seed}
    given = {**{name: value for name, value in chosen.items() if value is not None}, **options}
    if model is not None:
        if not first:  # reading a model and a graph once is no work to share
            return
        unused = {name.replace("_", "-"): value for name, value in run.given().items() if name != "data_dir"}
        given |= unused if validation else {**unused, "no-validation": True}
        row = embed_with_model(
            model,
            graph,
            features,
            run.data_dir,
            output,
            new_graph=new_graph,
            tables=tables,
            given=given,
            as_json=as_json,
            quiet=quiet,
        )
        note_run(row)
        return
    clock, before, movement = Stopwatch(), None, None
    if warm_start is None:
        config = make_rank_config(
            **{"method": "l2g2g", "preset": "default", "seed": 0, **given}, communicator=communicator
        )
    else:
        before, config = read_finished(warm_start, on_own_device(given, communicator))
    silent = quiet or as_json
    source = (graph, features, config, communicator, tables, clock)
    with run.open(*source, silent=silent) as (directory, loaded):
        if first:
            check_output(output, node_ids_of(loaded))
            say_plan(loaded, config, silent)
        length, curves = config.num_epochs(loaded.num_edges), run.tensorboard if first else None
        with watch_training(length, config.method, silent=silent, tensorboard=curves) as on_epoch:
            how: dict[str, Any] = {
                "validation_fraction": 0.05 if validation else 0.0,
                "on_epoch": on_epoch,
                "directory": directory,
                "communicator": communicator,
            }
            if before is None:
                done = embed_graph(loaded, config, **how, keep=run.run_dir is not None, gather=not in_parts)
            else:
                done, movement = continue_finished(before, loaded, config, **how, small_steps="lr" not in given)
        node_ids = node_ids_of(loaded)
        if in_parts:
            with clock.measure("write"):
                write_parts(output, done.embedding, node_ids, communicator)
            if run.run_dir is not None:
                done = done.gathered(communicator)
        if not first:
            return
        with clock.measure("write"):
            if not in_parts:
                write_embedding(output, done.embedding, node_ids)
            first_id = 0 if node_ids is None else node_ids[:1].tolist()[0]
        moved = {} if movement is None else {"warm_start": str(warm_start), **movement.describe()}
        row = {**_describe(loaded, done, clock, output), **moved}
        keep_run(directory, "embed", loaded, done, row, arguments=context.obj)
    note_run(row)
    if as_json:
        typer.echo(json.dumps(row))
    elif not quiet:
        lines = [_describe_size(row), done.tell_validation(), *([] if movement is None else [movement.summary()])]
        typer.echo("\n".join([*lines, f"next: {_next_command(output, run.run_dir, first_id)}"]))


def _describe(graph: GraphStore, done: Run, clock: Stopwatch, output: str) -> dict[str, Any]:
    """The line of `--json`."""
    from l2g2g.runs.environment import peak_memory

    seconds = {**clock.seconds, **done.seconds}
    seconds["total"] = sum(value for stage, value in seconds.items() if stage not in _PARTS)
    return {
        **done.describe(),
        "num_nodes": graph.num_nodes,
        "num_edges": graph.num_edges,
        "seconds": seconds,
        "peak_memory_bytes": peak_memory(),
        **done.describe_validation(),
        "output": output,
    }


def _describe_size(row: dict[str, Any]) -> str:
    size = f"{row['num_nodes']:,} vectors, {row['dim']}-dimensional, {row['method']}"
    return f"{row['output']}: {size}, {row['epochs']} epochs, {row['seconds']['total']:.1f} s"


def _next_command(output: str, run_dir: Path | None, first_id: object) -> str:
    """A command to go on with: the page of the run where it is kept, otherwise the neighbours of a node."""
    if run_dir is not None:
        return shlex.join(["l2g2g", "report", str(run_dir)])
    return shlex.join(["l2g2g", "neighbours", output, str(first_id)])
