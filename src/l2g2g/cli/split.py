"""Command line of splits: `l2g2g split` writes one as files, `l2g2g evaluate --split` uses it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from l2g2g.cli.common_options import (
    DataDirOption,
    FeaturesOption,
    GraphArgument,
    JsonOption,
    QuietOption,
    table_option,
    takes_tables,
)
from l2g2g.cli.help import panel_name
from l2g2g.errors import InputError

if TYPE_CHECKING:
    from l2g2g.config import Config
    from l2g2g.graphs.graph_store import GraphStore
    from l2g2g.graphs.split_files import PinnedSplit

SplitOption = Annotated[
    Path | None,
    typer.Option(
        help="Train and score on the pairs in this folder, written by l2g2g split.", rich_help_panel=panel_name("input")
    ),
]
EmbeddingOption = Annotated[
    Path | None,
    typer.Option(
        help="With --split and without GRAPH: score these vectors, which any program may have made.",
        rich_help_panel=panel_name("input"),
    ),
]
_VALIDATION_FRACTION, _TEST_FRACTION = 0.05, 0.10


@takes_tables
def split(
    graph: GraphArgument,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the split: new, empty, or one with an earlier split.")
    ],
    seed: Annotated[int, table_option("seed")] = 0,
    features: FeaturesOption = None,
    data_dir: DataDirOption = None,
    directed: Annotated[bool, table_option("directed")] = False,
    protocol: Annotated[str, typer.Option(help="heldout.")] = "heldout",
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    tables: Any = None,
) -> None:
    """Write train, validation and test pairs to files, as evaluate uses them.

    5 % of the edges are for validation and 10 % for the test, each with as many non-edges. The same seed gives the
    same split as evaluate --seed, from memory and from a store.
    """
    if protocol != "heldout":
        raise InputError(f"--protocol {protocol}: files hold a heldout split only; evaluate makes the paper's pairs")
    from l2g2g.config import make_config
    from l2g2g.graphs.graph_store import fingerprint
    from l2g2g.graphs.split_files import check_split_folder, write_split
    from l2g2g.graphs.splits import split_edges
    from l2g2g.graphs.store import read_node_ids
    from l2g2g.runs.sources import open_source

    check_split_folder(output)
    config = make_config("l2g2g", "default", seed=seed, directed=directed)
    fractions: dict[str, Any] = {"validation_fraction": _VALIDATION_FRACTION, "test_fraction": _TEST_FRACTION}
    with open_source(graph, features, config, data_dir=data_dir, tables=tables) as loaded:
        held_out = split_edges(loaded, **fractions, seed=seed)
        facts = {"seed": seed, **fractions, "fingerprint": fingerprint(loaded)}
        manifest = write_split(output, loaded, held_out, read_node_ids(loaded), **facts)
    if as_json:
        typer.echo(json.dumps({**manifest, "output": str(output)}))
    elif not quiet:
        what = "arcs" if directed else "edges"
        typer.echo(
            f"{output}: {manifest['train']:,} {what} to train on, {manifest['validation']['edges']:,} for validation "
            f"and {manifest['test']['edges']:,} for the test, each with as many negatives, seed {seed}"
        )


def read_pinned(folder: Path | None, graph: GraphStore, config: Config) -> PinnedSplit | None:
    """The split in a folder, of this graph; None without a folder."""
    if folder is None:
        return None
    from l2g2g.graphs.split_files import read_split
    from l2g2g.graphs.store import read_node_ids
    from l2g2g.runs.environment import resident_memory

    # The pairs are held in memory, and a matrix of them takes about three times as much.
    limit = None if config.memory is None else max(0, config.memory - resident_memory()) // 4
    what = folder, read_node_ids(graph), graph.num_nodes, graph.name
    return read_split(*what, directed=config.directed, memory_limit=limit)


def check_choices(
    graph: str | None, folder: Path | None, embedding: Path | None, protocol: str, given: dict[str, Any]
) -> None:
    """Refuse what does not go together. given: options of training that would do nothing with --embedding."""
    if embedding is not None:
        if folder is None:
            raise InputError("--embedding FILE is scored on the pairs of a split; add --split DIR (l2g2g split)")
        if graph is not None:
            raise InputError(
                f"--embedding scores finished vectors; leave out {graph}, or leave out --embedding to train"
            )
        if given:
            name = sorted(given)[0].replace("_", "-")
            raise InputError(f"--embedding scores finished vectors, for which --{name} does nothing; leave it out")
    elif graph is None:
        raise InputError("GRAPH is missing; only --split DIR --embedding FILE goes without (l2g2g evaluate --help)")
    if folder is not None and protocol != "heldout":
        raise InputError(f"--protocol {protocol} makes pairs of its own; leave out --split or --protocol")


def score_embedding(folder: Path, embedding: Path, *, as_json: bool) -> dict[str, Any]:
    """Score vectors in a file on the pairs of a split, print the scores, and return the JSON line."""
    import numpy as np

    from l2g2g.evaluation.link_scorer import score_vectors
    from l2g2g.graphs.node_columns import read_embedding
    from l2g2g.graphs.split_files import read_held_out

    node_ids, vectors = read_embedding(embedding)
    validation, test = read_held_out(folder, node_ids, str(embedding))
    scores = score_vectors(vectors, validation, test)
    validated = scores.validation or {}
    by_scorer = {
        name: {
            "auc": tested.auc,
            "ap": tested.average_precision,
            "validation_auc": validated[name].auc if validated else None,
            "validation_ap": validated[name].average_precision if validated else None,
        }
        for name, tested in scores.test.items()
    }
    row = {
        "embedding": str(embedding),
        "split": str(folder),
        "protocol": "heldout",
        "num_nodes": len(vectors),
        "dim": int(np.shape(vectors)[1]),
        "scorer": scores.scorer,
        **by_scorer[scores.scorer],
        "by_scorer": by_scorer,
    }
    if as_json:
        typer.echo(json.dumps(row))
    else:
        typer.echo(_describe(row))
    return row


def _describe(row: dict[str, Any]) -> str:
    names = {"inner": "inner product", "cosine": "cosine", "logistic": "logistic regression"}
    chosen = "chosen on validation pairs" if row["validation_auc"] is not None else "no validation pairs"
    others = ", ".join(
        f"{names[other]} AUC {100 * scores['auc']:.2f} %"
        for other, scores in row["by_scorer"].items()
        if other != row["scorer"]
    )
    return (
        f"{row['embedding']}: AUC {100 * row['auc']:.2f} %, AP {100 * row['ap']:.2f} % by {names[row['scorer']]} "
        f"({chosen}); {others}"
    )
