"""Command line for those who look: `l2g2g report` writes the page of a run, `l2g2g explore` serves it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from l2g2g.cli.common_options import JsonOption, QuietOption, TrainingOption
from l2g2g.cli.completion import complete_words

if TYPE_CHECKING:
    import numpy as np

    from l2g2g.runs.record import RunRecord

RunArgument = Annotated[
    Path, typer.Argument(help="A directory of embed or evaluate --run-dir, or a folder of model.save.", metavar="RUN")
]
ProjectionOption = Annotated[
    str,
    typer.Option(
        help="The map by pca, umap (extra maps) or tsne (at most 20,000 nodes).",
        autocompletion=complete_words(("pca", "umap", "tsne")),
    ),
]


def report(
    run: RunArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write (.html).", show_default="RUN/report.html")
    ] = None,
    training: TrainingOption = None,
    projection: ProjectionOption = "pca",
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write one page about a run that needs no network: how good, how sure, how long, curves, patches, and a map."""
    from l2g2g.graphs.write import check_place, write_text
    from l2g2g.reports.run_page import render_run

    started = time.perf_counter()
    record, places, others = _prepare(run, training, projection)
    output = run / "report.html" if output is None else output
    check_place(output, (".html",))
    write_text(output, render_run(record, places, projection=projection, others=others))
    row: dict[str, Any] = {
        "training": record.name,
        "num_nodes": record.num_nodes,
        "projection": projection,
        "bytes": output.stat().st_size,
        "seconds": time.perf_counter() - started,
        "output": str(output),
    }
    if as_json:
        typer.echo(json.dumps(row))
    elif not quiet:
        typer.echo(f"{output}: {record.num_nodes:,} nodes, {row['bytes'] / 1e6:.1f} MB, {row['seconds']:.1f} s")


def explore(
    run: RunArgument,
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 for any that is free.")] = 0,
    training: TrainingOption = None,
    projection: ProjectionOption = "pca",
    quiet: QuietOption = False,
) -> None:
    """Serve the page of a run on this machine only, with neighbours found when they are asked for. Ctrl-C ends it."""
    from l2g2g.reports.explore_server import make_server
    from l2g2g.reports.partners import Partners
    from l2g2g.reports.run_page import render_run

    record, places, others = _prepare(run, training, projection)
    page = render_run(record, places, projection=projection, answers="live", others=others)
    with make_server(page, Partners(record), port) as server:
        typer.echo(server.address)
        if not quiet:
            typer.echo("open this address in a browser on this machine; Ctrl-C ends it", err=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            if not quiet:
                typer.echo("stopped", err=True)


def _prepare(run: Path, training: str | None, projection: str) -> tuple[RunRecord, np.ndarray, list[dict[str, Any]]]:
    """(record, places on the map, rows of all trainings of the run)."""
    from l2g2g.reports.projection import check_projection, project
    from l2g2g.reports.thinning import thin
    from l2g2g.runs.artefact import open_artefact
    from l2g2g.runs.record import list_rows, read_record

    record = thin(read_record(open_artefact(run, training)))
    check_projection(projection, record.num_nodes)
    seed = int(record.settings.get("seed", 0))
    return record, project(record.vectors, projection, seed), list_rows(run)
