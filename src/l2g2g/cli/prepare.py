"""Command line of data: `l2g2g prepare` puts a graph and its patches on disk, `l2g2g datasets` lists named graphs."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from l2g2g.cli.common_options import DataDirOption, FeaturesOption, JsonOption, QuietOption, table_option, takes_tables
from l2g2g.cli.help import complete_words
from l2g2g.cli.messages import say, show_steps
from l2g2g.errors import InputError, ResourceError
from l2g2g.options import check_choice

if TYPE_CHECKING:
    from l2g2g.config import Config
    from l2g2g.graphs.store import StoredGraph
    from l2g2g.patches.store import PatchStore
    from l2g2g.runs.resources import Stopwatch

PARTITIONS = ("metis", "fennel", "streaming", "random")


@takes_tables
def prepare(
    graph: Annotated[str, typer.Argument(help="A graph as for embed; or a store, to cut other patches from it.")],
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Write nothing; check a store, or a folder of edges.parquet and nodes.parquet, of another program.",
        ),
    ] = False,
    store: Annotated[Path | None, typer.Option(help="Directory of the store.")] = None,
    features: FeaturesOption = None,
    memory: Annotated[str, typer.Option(help="Memory limit, such as 4GB or 500MB.")] = "4GB",
    partition: Annotated[
        str | None,
        typer.Option(
            help="metis, fennel, streaming (FENNEL in passes over the disk) or random.",
            show_default="metis where memory allows, else streaming",
            autocompletion=complete_words(PARTITIONS),
        ),
    ] = None,
    patches: Annotated[
        int | None, typer.Option(help="Number of patches.", show_default="by the number of nodes")
    ] = None,
    dim: Annotated[int, typer.Option(help="Largest --dim of later runs: overlaps get 2 (dim + 1) nodes.")] = 16,
    seed: Annotated[int, table_option("seed")] = 0,
    data_dir: DataDirOption = None,
    directed: Annotated[bool, table_option("directed")] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    tables: Any = None,
) -> None:
    """Write a graph of any size and its patches to disk, within a memory limit, for later runs."""
    if check:
        _check(graph, {"--store": store, "--features": features}, as_json=as_json, quiet=quiet)
        return
    if partition is not None:
        check_choice("partition", partition, PARTITIONS)
    from l2g2g.config import make_config, parse_size
    from l2g2g.runs.environment import peak_memory
    from l2g2g.runs.resources import Stopwatch

    budget = parse_size(memory)
    given = {name: value for name, value in {"patches": patches, "dim": dim}.items() if value is not None}
    config = make_config("l2g2g", "default", seed=seed, **given)
    clock = Stopwatch()
    reading: dict[str, Any] = {"data_dir": data_dir, "seed": seed, "directed": directed, "tables": tables}
    stored, is_new = _find_or_write(graph, store, features, budget, clock, reading, silent=quiet or as_json)
    cut, is_cut = _find_or_cut(stored, partition, config, budget, clock)
    row = {
        **_describe(stored, cut),
        "reused": {"graph": not is_new, "patches": not is_cut},
        "seconds": {**clock.seconds, "total": sum(clock.seconds.values())},
        "peak_memory_bytes": peak_memory(),
    }
    if as_json:
        typer.echo(json.dumps(row))
    elif not quiet:
        typer.echo(
            f"{stored.directory}: {stored.num_nodes:,} nodes, {stored.num_edges:,} edges, {stored.num_features:,} "
            f"features in {cut.num_patches} patches, {row['kept_edge_fraction']:.1%} of the edges inside, "
            f"{row['store_bytes'] / 1e6:,.0f} MB, {row['seconds']['total']:.1f} s"
        )


def _check(source: str, unused: dict[str, Any], *, as_json: bool, quiet: bool) -> None:
    """Check a store and its patches, or tables of another engine; what is wrong is refused in one line."""
    from l2g2g.graphs.check_store import check_store, check_tables
    from l2g2g.graphs.node_tables import is_table_folder
    from l2g2g.patches.store import has_patches, open_patches

    for flag, value in unused.items():
        if value is not None:
            raise InputError(f"--check writes nothing; leave {flag} out")
    if is_table_folder(Path(source)):
        num_nodes, num_rows = check_tables(Path(source))
        row: dict[str, Any] = {"tables": source, "num_nodes": num_nodes, "num_rows": num_rows}
        told = f"{source}: {num_nodes:,} nodes, {num_rows:,} rows of edges; the tables are as they must be"
    else:
        graph = check_store(source)
        if has_patches(source):
            open_patches(source, graph=graph, verify=True)
        row = {"store": source, "num_nodes": graph.num_nodes, "num_edges": graph.num_edges, "sha256": graph.sha256}
        told = f"{source}: {graph.num_nodes:,} nodes, {graph.num_edges:,} edges; the store is as it must be"
    if as_json:
        typer.echo(json.dumps(row))
    elif not quiet:
        typer.echo(told)


def _find_or_write(
    source: str,
    directory: Path | None,
    features: Path | None,
    budget: int,
    clock: Stopwatch,
    reading: dict[str, Any],
    *,
    silent: bool,
) -> tuple[StoredGraph, bool]:
    """The stored graph, and whether it was written now. reading: how files are read, for `write_store`."""
    from l2g2g.graphs.store import is_store, open_graph
    from l2g2g.graphs.store_writer import describe_source, write_store
    from l2g2g.runs.sources import check_directions, refuse_for_store

    if is_store(source):
        if directory is not None and directory.resolve() != Path(source).resolve():
            raise InputError(f"{source}: is a store already; leave --store out to cut other patches from it")
        refuse_for_store(source, features, reading["tables"])
        return check_directions(open_graph(source), directed=reading["directed"]), False
    if directory is None:
        raise InputError("--store DIR is needed: the directory to write to")
    if is_store(directory):
        try:
            found = open_graph(directory)
        except InputError as error:
            print(f"l2g2g: {error}: written again", file=sys.stderr)
        else:
            wanted = describe_source(
                source, features, reading["seed"], directed=reading["directed"], tables=reading["tables"]
            )
            if found.source == wanted:
                return found, False
            raise InputError(f"{directory}: holds the store of another graph ({found.name}); give another --store")
    available = _memory_left(budget)
    with show_steps(silent) as progress:
        written = write_store(
            source, directory, features, memory_bytes=available, measure=clock.measure, progress=progress, **reading
        )
    return written, True


def _find_or_cut(
    graph: StoredGraph, method: str | None, config: Config, budget: int, clock: Stopwatch
) -> tuple[PatchStore, bool]:
    """The patches, and whether they were cut now."""
    from l2g2g.patches.cut import cut_stored_graph
    from l2g2g.patches.partition import metis_memory
    from l2g2g.patches.store import has_patches, open_patches
    from l2g2g.runs.patches import plan_cut

    available = _memory_left(budget)
    if method is None:
        method = "metis" if metis_memory(graph) <= available else "streaming"
    cut = plan_cut(graph, config.num_patches(graph.num_nodes), config, method)
    if has_patches(graph.directory):
        with suppress(InputError):  # damaged, or cut from a graph that was there before
            found = open_patches(graph.directory, graph=graph)
            if cut.made(found):
                return found, False
    return cut_stored_graph(graph, cut, memory_bytes=available, prepared=True, measure=clock.measure), True


def _memory_left(budget: int) -> int:
    """What the budget leaves beside what the process holds."""
    from l2g2g.graphs.store_writer import LEAST_MEMORY
    from l2g2g.runs.environment import resident_memory

    held = resident_memory()
    if budget - held < LEAST_MEMORY:
        least = (held + LEAST_MEMORY) / 1e6
        raise ResourceError(f"--memory is {budget / 1e6:,.0f} MB; {least:,.0f} MB is the least that will do")
    return budget - held


def _describe(graph: StoredGraph, patches: PatchStore) -> dict[str, Any]:
    """What the JSON line says of a store."""
    import numpy as np

    settings = patches.settings
    sizes = np.diff(patches.offsets)
    return {
        "store": str(graph.directory),
        "name": graph.name,
        "num_nodes": graph.num_nodes,
        "num_edges": graph.num_edges,
        "num_features": graph.num_features,
        "directed": graph.directed,
        "num_self_loops": graph.cleaning.num_self_loops,
        "num_duplicates": graph.cleaning.num_duplicates,
        "num_reversed": graph.cleaning.num_reversed,
        "num_isolated": graph.cleaning.num_isolated,
        "partition": settings["partition"],
        "num_patches": patches.num_patches,
        "kept_edge_fraction": patches.patch_set.count_covered_edges(graph) / graph.num_edges,
        "balance": settings.get("balance"),
        "node_duplication": float(sizes.sum() / graph.num_nodes),
        "largest_patch_nodes": int(sizes.max()),
        "graph_bytes": graph.num_bytes,
        "patch_bytes": patches.num_bytes,
        "store_bytes": graph.num_bytes + patches.num_bytes,
    }


def datasets(
    data_dir: DataDirOption = None,
    fetch: Annotated[str | None, typer.Option(help="Fetch this published graph into the cache first.")] = None,
    sha256: Annotated[
        str | None, typer.Option(help="SHA-256 of the file to be fetched; known for cora, amazon-photo, coauthor-cs.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the data sets that can be used by name."""
    from l2g2g.graphs.datasets import fetch_dataset, list_datasets
    from l2g2g.reports.tables import render_datasets

    if fetch is None and sha256 is not None:
        raise InputError("--sha256 SUM is the sum of a file that --fetch NAME fetches; add --fetch, or leave it out")
    if fetch is not None:
        say(f"{fetch}: {fetch_dataset(fetch, sha256)}")
    found = list_datasets(data_dir)
    if as_json:
        from dataclasses import asdict

        for item in found:
            typer.echo(json.dumps(asdict(item)))
    else:
        Console().print(render_datasets(found))
