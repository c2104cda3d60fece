"""Command line of finished embeddings: `l2g2g neighbours` and `l2g2g predict`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from l2g2g.cli.common_options import DataDirOption, JsonOption, QuietOption, TrainingOption, takes_tables
from l2g2g.cli.help import complete_words
from l2g2g.errors import InputError
from l2g2g.lazy import without_collection

if TYPE_CHECKING:
    import numpy as np

    from l2g2g.graphs.formats import TableOptions
    from l2g2g.neighbours.search import Neighbours
    from l2g2g.runs.link_prediction import PredictedLinks
    from l2g2g.runs.published import Published

EmbeddingArgument = Annotated[
    Path,
    typer.Argument(
        metavar="EMBEDDING", help="An embedding file, a folder of its parts, a saved model or a run directory."
    ),
]
TableOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write a table here (.csv, .parquet or .jsonl), not to stdout.")
]
_MOST_PLACES = 4  # digits of a score for people


def neighbours(
    out: EmbeddingArgument,
    nodes: Annotated[list[str] | None, typer.Argument(metavar="NODE...", help="Nodes by their ids.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Search for all nodes; best with --output.")] = False,
    k: Annotated[int, typer.Option("-k", help="Neighbours of each node.")] = 10,
    metric: Annotated[
        str,
        typer.Option(
            help="cosine, inner, or decoder: the score that a model was trained with.",
            autocompletion=complete_words(("cosine", "inner", "decoder")),
        ),
    ] = "cosine",
    exact: Annotated[
        bool, typer.Option("--exact", help="Compare with every node, also if an approximate index would be faster.")
    ] = False,
    index: Annotated[
        Path | None,
        typer.Option(help="File of the approximate index (usearch): loaded if it exists, written otherwise."),
    ] = None,
    training: TrainingOption = None,
    output: TableOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Find the nearest nodes of some nodes, or of all nodes.

    With --index FILE and no node the index is written for others to use: a file of usearch, whose keys are the row
    numbers of the embedding.
    """
    is_export = index is not None and not nodes and not every
    if bool(nodes) == every and not is_export:
        raise InputError("name the nodes, or give --all for every node" + (", not both" if every else ""))
    if exact and index is not None:
        raise InputError("--exact needs no index, and --index is approximate; give one of them")
    import numpy as np

    with without_collection():
        from l2g2g.graphs.write_table import check_table

    if output is not None:
        check_table(output)
    published = open_published(out, training)
    rows = np.arange(len(published.node_ids) if every else 0)
    if nodes:
        rows = published.rows_of(nodes)
    method: Any = "exact" if exact else "auto"
    found = published.neighbours(rows, k, metric=metric, method=method, index_file=index)
    if is_export:
        assert index is not None
        _say_index(index, published, found, metric, as_json=as_json, quiet=quiet)
        return
    if found.recall is not None and not (quiet or as_json):
        typer.echo(f"approximate: the index finds {100 * found.recall:.1f} % of the true neighbours", err=True)
    if output is not None:
        _write_neighbours(output, published, rows, found)
        if not quiet:
            typer.echo(f"wrote {output}", err=True)
    elif as_json:
        _print_json(published, rows, found, metric)
    else:
        _print_text(published, rows, found)


@takes_tables
def predict(
    out: EmbeddingArgument,
    pairs: Annotated[
        Path | None, typer.Option(help="Pairs to score: two columns of ids (.csv, .tsv, .txt or .parquet).")
    ] = None,
    top: Annotated[int | None, typer.Option(help="Find this many of the most likely missing links.")] = None,
    graph: Annotated[
        str | None,
        typer.Option(help="The graph with the known edges; not needed for a run directory."),
    ] = None,
    features: Annotated[Path | None, typer.Option(help="With --graph: node features, as for embed.")] = None,
    scorer: Annotated[
        str,
        typer.Option(
            help="Score of a pair: vectors, combined (with pair features), or auto: what the validation pairs of the "
            "run prefer."
        ),
    ] = "auto",
    missing_share: Annotated[
        float | None,
        typer.Option(
            help="Links assumed to be missing, as a share of the known ones; without it, as many as were held out "
            "for validation."
        ),
    ] = None,
    data_dir: DataDirOption = None,
    training: TrainingOption = None,
    output: TableOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    tables: Any = None,
) -> None:
    """Score pairs, or find the most likely missing links.

    A run directory or a saved model scores with the decoder it was trained with, an embedding file with inner products.
    A run directory with validation pairs also weighs the vectors against the neighbours of both nodes (--scorer), and
    gives probabilities at the density of the graph; without them a probability is σ(score), which only ranks pairs.
    """
    if (pairs is None) == (top is None):
        raise InputError(
            "give --pairs FILE to score pairs, or --top N to find missing links"
            + (", not both" if pairs is not None else "")
        )
    if features is not None and graph is None:
        raise InputError("--features belong to the nodes of --graph; give both")
    with without_collection():
        from l2g2g.graphs.write_table import check_table, print_csv, print_lines, write_table
        from l2g2g.runs.link_prediction import find_links, score_pairs

    if output is not None:
        check_table(output)
    published = open_published(out, training)
    if graph is not None:
        published = _with_edges(published, graph, features, data_dir, tables)
    elif tables.given():
        raise InputError("options about columns, ids and missing values say how --graph is read; give it too")
    if pairs is not None:
        found = score_pairs(published, *published.read_pairs(pairs), scorer=scorer, missing_share=missing_share)
        more = found.describe()
        del more["expected_precision"]
    else:
        assert top is not None
        found = find_links(published, top, scorer=scorer, missing_share=missing_share)
        more = {"recall": found.links.recall, **found.describe()}
    if not (quiet or as_json):
        _say_links(found, is_list=top is not None)
    columns: dict[str, np.ndarray] = {
        "source": published.node_ids[found.links.sources],
        "target": published.node_ids[found.links.targets],
        "probability": found.links.probabilities.astype("float32"),  # no more digits than the score has
        "score": found.links.scores,
    }
    if output is not None:
        write_table(output, columns)
        if not quiet:
            typer.echo(f"wrote {output}", err=True)
    elif as_json:
        print_lines(sys.stdout, columns, more)
    else:
        print_csv(sys.stdout, columns)


def open_published(path: Path, training: str | None = None) -> Published:
    """What lies at a path: an embedding file of any written format, a saved model, or a finished run.

    training: which one of a run with several; the first where none is named.
    """
    from l2g2g.graphs.node_columns import is_embedding, read_embedding
    from l2g2g.runs.published import Published, publish

    if not path.exists():
        raise InputError(f"{path}: no such embedding file or run directory")
    if not is_embedding(path):
        from l2g2g.runs.artefact import open_artefact

        return publish(open_artefact(path, training), str(path))
    if training is not None:
        raise InputError(f"{path}: is an embedding file; --training names a training of a run directory")
    node_ids, vectors = read_embedding(path)
    return Published(node_ids, vectors, name=str(path))


def _with_edges(
    published: Published, graph: str, features: Path | None, data_dir: Path | None, tables: TableOptions
) -> Published:
    from l2g2g.runs.sources import read_whole

    directed = published.decoder.is_directed
    reading: dict[str, Any] = {"data_dir": data_dir, "tables": tables, "columns": published.columns}
    return published.with_edges_of(read_whole(graph, features, directed=directed, **reading))


def _say_links(found: PredictedLinks, *, is_list: bool) -> None:
    """What a list holds and how far its probabilities can be trusted, on stderr."""
    links = found.links
    if is_list:
        count = f"{len(links.scores):,}"
        sure = "exact" if links.recall is None else f"about {100 * links.recall:.0f} % of the true {count} likeliest"
        scored = f"{100 * links.scored_fraction:.3g} % of all pairs were scored"
        typer.echo(f"{count} links by --scorer {found.scorer}, {sure}; {scored}", err=True)
    if found.missing_share is None:
        typer.echo("probabilities are not calibrated: no validation pairs are kept here", err=True)
        return
    assumed = (
        f"assuming that {100 * found.missing_share:.3g} % as many links are missing as are known (--missing-share)"
    )
    if found.expected_precision is not None and is_list:
        expected = f"{100 * found.expected_precision:.3g} % of them are expected to be links"
        typer.echo(f"{expected}, {assumed}", err=True)
    else:
        typer.echo(f"probabilities {assumed}", err=True)


def _write_neighbours(output: Path, published: Published, rows: np.ndarray, found: Neighbours) -> None:
    import numpy as np

    from l2g2g.graphs.write_table import write_table

    k = found.nodes.shape[1]
    columns = {
        "node": published.node_ids[np.repeat(rows, k)],
        "rank": np.tile(np.arange(1, k + 1), len(rows)),
        "neighbour": published.node_ids[found.nodes.ravel()],
        "score": found.scores.ravel(),
    }
    write_table(output, columns)


def _say_index(path: Path, published: Published, found: Neighbours, metric: str, *, as_json: bool, quiet: bool) -> None:
    num_nodes, dim = published.vectors.shape
    if as_json:
        line = {"index": str(path), "num_nodes": num_nodes, "dim": dim, "metric": metric, "recall": found.recall}
        typer.echo(json.dumps(line))
    elif not quiet:
        share = "" if found.recall is None else f"; it finds {100 * found.recall:.1f} % of the true neighbours"
        typer.echo(f"{path}: index of {num_nodes:,} vectors by {metric}{share}", err=True)


def _print_json(published: Published, rows: np.ndarray, found: Neighbours, metric: str) -> None:
    for row, nodes, scores in zip(rows, found.nodes, found.scores, strict=True):
        near = [
            {"node": node, "score": float(str(score))}
            for node, score in zip(published.node_ids[nodes].tolist(), scores, strict=True)
        ]
        line = {
            "node": published.node_ids[row : row + 1].tolist()[0],
            "neighbours": near,
            "metric": metric,
            "exact": found.recall is None,
            "recall": found.recall,
        }
        typer.echo(json.dumps(line))


def _print_text(published: Published, rows: np.ndarray, found: Neighbours) -> None:
    for row, nodes, scores in zip(rows, found.nodes, found.scores, strict=True):
        typer.echo(_shown(published.node_ids[row]))
        names = [_shown(node) for node in published.node_ids[nodes].tolist()]
        width = max(len(name) for name in names)
        for name, score in zip(names, scores, strict=True):
            typer.echo(f"  {name:<{width}}  {score:.{_MOST_PLACES}f}")


def _shown(node: Any) -> str:
    """A name for a terminal, without control characters."""
    name = str(node)
    return name if name.isprintable() else repr(name)
