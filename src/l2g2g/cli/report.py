"""Command line of pages: `l2g2g report` writes the page of a run, `l2g2g explore` serves it."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from l2g2g.cli.common_options import DataDirOption, JsonOption, QuietOption, TrainingOption
from l2g2g.cli.help import complete_words
from l2g2g.lazy import without_collection

if TYPE_CHECKING:
    import numpy as np

    from l2g2g.reports.layout import MapColumn
    from l2g2g.runs.record import RunRecord

SourceArgument = Annotated[
    Path,
    typer.Argument(
        help="A run directory, a model saved from Python, or any embedding file (.parquet, also a folder of parts, "
        ".csv, .npy, .txt).",
        metavar="EMBEDDING",
    ),
]
ProjectionOption = Annotated[
    str,
    typer.Option(
        help="What the map shows first: tsne keeps neighbours together, pca is there at once; auto is tsne where "
        "openTSNE is installed.",
        autocompletion=complete_words(("auto", "tsne", "pca")),
    ),
]
NodesOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--nodes",
        help="A table with an id column (.csv, .parquet): its columns colour the map and are shown for each node; "
        "repeatable.",
    ),
]
GraphOption = Annotated[
    str | None,
    typer.Option("--graph", help="The graph of an embedding file, for degrees and missing links; a run has its own."),
]


def report(
    embedding: SourceArgument,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Where to write (.html).", show_default="RUN/report.html or FILE-report.html"
        ),
    ] = None,
    nodes: NodesOption = None,
    graph: GraphOption = None,
    projection: ProjectionOption = "auto",
    data_dir: DataDirOption = None,
    training: TrainingOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write an HTML page about a run or an embedding file: map, scores, curves, settings."""
    with without_collection():
        from l2g2g.graphs.node_columns import is_embedding
        from l2g2g.graphs.write import check_place, write_text
        from l2g2g.reports.layout import open_layout
        from l2g2g.reports.run_page import render_run

    started = time.perf_counter()
    projection = _resolve(projection, quiet)
    is_file = is_embedding(embedding)
    beside = embedding.with_name(f"{embedding.stem}-report.html") if is_file else embedding / "report.html"
    output = beside if output is None else output
    record, others = _read(embedding, training, nodes or [], graph, data_dir, quiet)
    check_place(output, (".html",))
    layout = open_layout(record, None if is_file else embedding)
    if projection == "tsne" and not quiet and not as_json and not layout.is_cached("tsne"):
        typer.echo(f"laying out {record.num_nodes:,} nodes by their neighbours …", err=True)
    places: dict[str, np.ndarray | None] = {name: layout.places(name) for name in dict.fromkeys((projection, "pca"))}
    write_text(output, render_run(record, places, _columns(record), others=others))
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
    embedding: SourceArgument,
    port: Annotated[
        int, typer.Option(help="Port on 127.0.0.1, which only this machine can reach; 0 takes any free one.")
    ] = 0,
    nodes: NodesOption = None,
    graph: GraphOption = None,
    projection: ProjectionOption = "auto",
    data_dir: DataDirOption = None,
    training: TrainingOption = None,
    browser: Annotated[bool, typer.Option(help="Open the browser if there is a screen.")] = True,
    quiet: QuietOption = False,
) -> None:
    """Open the report in the browser, with neighbour search. Ctrl-C ends it.

    PCA is shown at once, and t-SNE as soon as it is computed.
    """
    with without_collection():
        from l2g2g.graphs.node_columns import is_embedding
        from l2g2g.reports.explore_server import make_server
        from l2g2g.reports.layout import open_layout
        from l2g2g.reports.map_data import Partners
        from l2g2g.reports.run_page import render_run

    projection = _resolve(projection, quiet)
    record, others = _read(embedding, training, nodes or [], graph, data_dir, quiet)
    layout = open_layout(record, None if is_embedding(embedding) else embedding)
    is_there = projection == "pca" or layout.is_cached(projection)
    places: dict[str, np.ndarray | None] = {projection: layout.places(projection) if is_there else None}
    places.setdefault("pca", layout.places("pca"))
    pending = {} if is_there else {projection: lambda: layout.places(projection)}
    page = render_run(record, places, _columns(record), answers="live", others=others)
    with make_server(page, Partners(record), port, pending) as server:
        typer.echo(server.address)
        is_open = browser and _open_browser(server.address)
        if not quiet:
            what = "opened in the browser" if is_open else "open this address in a browser on this machine"
            typer.echo(f"{what}; Ctrl-C ends it", err=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            if not quiet:
                typer.echo("stopped", err=True)


def _resolve(projection: str, quiet: bool) -> str:
    """The projection that auto stands for; one whose package is missing is refused."""
    from l2g2g.reports.projection import check_projection, default_projection

    if projection == "auto":
        projection = default_projection()
        if projection == "pca" and not quiet:
            typer.echo("the map is PCA; for one that keeps neighbours together: pip install openTSNE", err=True)
    check_projection(projection)
    return projection


def _read(
    source: Path, training: str | None, nodes: list[Path], graph: str | None, data_dir: Path | None, quiet: bool
) -> tuple[RunRecord, list[dict[str, Any]]]:
    """The record, with a sample of the nodes if there are very many, and the rows of all trainings of the run."""
    from l2g2g.graphs.node_columns import is_embedding
    from l2g2g.reports.layout import thin
    from l2g2g.runs.artefact import open_artefact
    from l2g2g.runs.record import list_rows, read_record, read_vector_record, with_edges, with_table

    if is_embedding(source):
        record, others = read_vector_record(source, training), []
    else:
        record, others = read_record(open_artefact(source, training)), list_rows(source)
    if graph is not None:
        from l2g2g.runs.sources import read_whole

        record = with_edges(record, read_whole(graph, None, directed=False, data_dir=data_dir))
    for path in nodes:
        record, num_matched = with_table(record, path)
        if num_matched < record.num_nodes and not quiet:
            typer.echo(f"{path}: {num_matched:,} of {record.num_nodes:,} nodes have a row", err=True)
    return thin(record), others


def _columns(record: RunRecord) -> list[MapColumn]:
    from l2g2g.evaluation.clusters import find_clusters, name_clusters
    from l2g2g.reports.layout import make_columns

    if record.num_nodes < 3:
        return make_columns(record)
    clusters = find_clusters(record.vectors, record.node_ids, edges=record.edges)
    return make_columns(record, clusters.numbers, name_clusters(clusters, record.label_texts(), record.degrees))


def _open_browser(address: str) -> bool:
    """Open an address in the user's browser; False where there is no screen, or no browser.

    A browser in the terminal would take the terminal away from the command that serves the page.
    """
    import webbrowser

    screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or sys.platform in ("darwin", "win32")
    if not screen or not sys.stdout.isatty():
        return False
    try:
        return webbrowser.open(address)
    except webbrowser.Error:
        return False
