"""Command line for what is done with vectors: `l2g2g cluster` and `l2g2g classify`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from l2g2g.cli.common_options import DataDirOption, JsonOption, QuietOption, TrainingOption
from l2g2g.cli.help import complete_words
from l2g2g.cli.neighbours import EmbeddingArgument
from l2g2g.errors import InputError
from l2g2g.lazy import without_collection

if TYPE_CHECKING:
    from l2g2g.evaluation.classes import Classified
    from l2g2g.evaluation.clusters import Clusters
    from l2g2g.runs.record import RunRecord

TableOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write the table here (.csv, .parquet or .jsonl).")
]
SeedOption = Annotated[int, typer.Option(help="Random seed.")]
_SHOWN = 12  # clusters that are listed


def cluster(
    embedding: EmbeddingArgument,
    output: TableOption = None,
    method: Annotated[
        str,
        typer.Option(
            help="kmeans, or hdbscan, which leaves sparse nodes without a cluster (at most 50,000 nodes).",
            autocompletion=complete_words(("kmeans", "hdbscan")),
        ),
    ] = "kmeans",
    k: Annotated[
        int | None,
        typer.Option(
            "-k",
            help="Clusters of kmeans; without it the count from 2 to 64 with the highest modularity of the known "
            "edges, or else the highest silhouette.",
        ),
    ] = None,
    min_size: Annotated[
        int | None, typer.Option(help="Smallest cluster of hdbscan.", show_default="0.5 % of the nodes, at least 5")
    ] = None,
    graph: Annotated[
        str | None,
        typer.Option("--graph", help="The graph of an embedding file, for the modularity; a run has its own."),
    ] = None,
    seed: SeedOption = 0,
    data_dir: DataDirOption = None,
    training: TrainingOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Group nodes with similar vectors, and measure how good the groups are.

    The table has id, cluster (0 is the largest, -1 is none) and similarity (cosine to the centre of the cluster).
    `l2g2g report EMBEDDING --nodes TABLE` shows it on the map.
    """
    with without_collection():
        from l2g2g.evaluation.clusters import find_clusters, name_clusters
        from l2g2g.graphs.write_table import check_table

    if output is not None:
        check_table(output)
    record = _open(embedding, training, graph, data_dir)
    found = find_clusters(
        record.vectors,
        record.node_ids,
        edges=record.edges,
        method=method,
        num_clusters=k,
        min_size=min_size,
        seed=seed,
    )
    names = name_clusters(found, record.label_texts(), record.degrees)
    facts = {
        "num_nodes": len(found.numbers),
        "num_clusters": found.num_clusters,
        "method": found.method,
        "criterion": found.criterion,
        "criterion_by_count": found.by_count,
        "silhouette": found.silhouette,
        "modularity": found.modularity,
        "sizes": found.sizes.tolist(),
        "names": names,
        "num_in_no_cluster": int((found.numbers < 0).sum()),
    }
    _report(found, facts, _describe_clusters(found, names), output, as_json=as_json, quiet=quiet)


def classify(
    embedding: EmbeddingArgument,
    labels: Annotated[
        Path | None,
        typer.Option(
            help="A table with an id column and a column of labels, empty where the class is not known; without it "
            "the labels of the run.",
        ),
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="The column of labels.", show_default="label, or the only other column")
    ] = None,
    output: TableOption = None,
    classifier: Annotated[
        str,
        typer.Option(
            help="linear: logistic regression; knn: the 15 nearest by cosine.",
            autocompletion=complete_words(("linear", "knn")),
        ),
    ] = "linear",
    seed: SeedOption = 0,
    training: TrainingOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Predict the class of every node from the labels of some, and measure the accuracy.

    The table has id, label, predicted and confidence; a labelled node is predicted by a classifier that has not seen
    its label. `l2g2g report EMBEDDING --nodes TABLE` shows it on the map.
    """
    with without_collection():
        from l2g2g.evaluation.classes import classify_nodes
        from l2g2g.graphs.write_table import check_table

    if output is not None:
        check_table(output)
    record = _open(embedding, training, None, None)
    given = _labels(record, labels, column, embedding)
    found = classify_nodes(record.vectors, given, record.node_ids, classifier=classifier, seed=seed)
    facts = {
        "num_nodes": len(found.predicted),
        "num_labelled": found.num_labelled,
        "num_classes": found.num_classes,
        "classifier": found.classifier,
        "accuracy": found.accuracy.value,
        "accuracy_low": found.accuracy.low,
        "accuracy_high": found.accuracy.high,
        "majority": found.majority,
        "macro_f1": found.macro_f1,
    }
    _report(found, facts, [_describe_classes(found)], output, as_json=as_json, quiet=quiet)


def _open(path: Path, training: str | None, graph: str | None, data_dir: Path | None) -> RunRecord:
    from l2g2g.graphs.node_columns import is_embedding
    from l2g2g.runs.artefact import open_artefact
    from l2g2g.runs.record import read_record, read_vector_record, with_edges
    from l2g2g.runs.sources import read_whole

    if not path.exists():
        raise InputError(f"{path}: no such embedding file or run directory")
    record = read_vector_record(path, training) if is_embedding(path) else read_record(open_artefact(path, training))
    if graph is None:
        return record
    return with_edges(record, read_whole(graph, None, directed=False, data_dir=data_dir))


def _labels(record: RunRecord, path: Path | None, column: str | None, embedding: Path) -> Any:
    """(num_nodes,) labels of a table, or of the run."""
    if path is None:
        if column is not None:
            columns = record.columns
        elif record.label_texts() is not None:
            return record.label_texts()
        else:
            raise InputError(f"{embedding}: keeps no labels; give them with --labels FILE")
    else:
        from l2g2g.runs.record import with_table

        columns = with_table(record, path)[0].columns
        own = [title for title in columns if title not in record.columns] or list(columns)
        if column is None:
            column = "label" if "label" in columns else own[0] if len(own) == 1 else None
            if column is None:
                raise InputError(f"{path}: which column holds the labels? give --column with one of {', '.join(own)}")
    if column not in columns:
        raise InputError(f"{path or embedding}: no column {column!r}; it has {', '.join(columns) or 'no others'}")
    return columns[column]


def _report(
    found: Clusters | Classified,
    facts: dict[str, Any],
    summary: list[str],
    output: Path | None,
    *,
    as_json: bool,
    quiet: bool,
) -> None:
    """Write the table of all nodes, or say how to get it; print the summary, or facts and table as one JSON line."""
    from l2g2g.graphs.write_table import plain_columns, write_table

    columns = found.columns()
    if output is not None:
        write_table(output, columns)
    if as_json:
        nodes = {"nodes": dict(zip(columns, plain_columns(columns), strict=True))} if output is None else {}
        typer.echo(json.dumps({**facts, "output": None if output is None else str(output), **nodes}))
    elif not quiet:
        for line in summary:
            typer.echo(line)
        remedy = f"the table of all {facts['num_nodes']:,} nodes: -o FILE (.csv, .parquet or .jsonl), or --json"
        typer.echo(f"wrote {output}" if output is not None else remedy, err=True)


def _describe_clusters(found: Clusters, names: list[str]) -> list[str]:
    """How good the clusters are, then a line for each of the largest."""
    why = {
        "given": "as given",
        "density": "by density",
        "modularity": "the count of the highest modularity",
        "silhouette": "the count of the highest silhouette",
    }[found.criterion]
    parts = [f"{found.num_clusters} clusters by {found.method}, {why}"]
    if found.silhouette is not None:
        parts.append(f"silhouette {found.silhouette:.3f} (-1 to 1)")
    if found.modularity is not None:
        parts.append(f"modularity {found.modularity:.3f} (0 is chance)")
    outside = int((found.numbers < 0).sum())
    if outside:
        parts.append(f"{outside:,} nodes in none")
    more = [f"  and {found.num_clusters - _SHOWN} more"] if found.num_clusters > _SHOWN else []
    sizes = zip(found.sizes[:_SHOWN].tolist(), names, strict=False)
    lines = [f"  {number:>3}  {size:>9,} nodes  {name}" for number, (size, name) in enumerate(sizes)]
    return ["; ".join(parts), *lines, *more]


def _describe_classes(found: Classified) -> str:
    accuracy = found.accuracy
    return (
        f"accuracy {100 * accuracy.value:.1f} % on held-out labels (95 % interval {100 * accuracy.low:.1f} to "
        f"{100 * accuracy.high:.1f} %), the largest class alone {100 * found.majority:.1f} %; macro F1 "
        f"{100 * found.macro_f1:.1f} %; {found.num_labelled:,} labelled nodes of {found.num_classes} classes, "
        f"{found.classifier}, 5-fold"
    )
