"""Store writer: a graph, or its training edges, become a store: by memory where it fits, otherwise by DuckDB."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from l2g2g.errors import ResourceError
from l2g2g.graphs.archives import parts_of
from l2g2g.graphs.array_writer import locked_for_writing, write_folder
from l2g2g.graphs.duckdb_store import Measure, Progress, has_duckdb, silent, write_large_store
from l2g2g.graphs.formats import AS_FOUND, TableOptions
from l2g2g.graphs.graph import RowBlock
from l2g2g.graphs.read import check_ending, find_graph_file, is_streamed, read_graph
from l2g2g.graphs.store import GRAPH_FOLDER, KIND, StoredGraph, open_graph, store_values, write_graph

LEAST_MEMORY = 64_000_000
# A file becomes at most this many times as many bytes while it is read into memory: edge lists, features.
_EDGE_FACTOR, _FEATURE_FACTOR = 12, 4
_PIECE_BYTES = 1 << 25


def reading_bytes(path: Path, features: str | Path | None) -> int:
    """Memory that it takes at most to read these files as a whole, by their sizes."""
    columns = 0 if features is None else _size_on_disk(Path(features))
    return _EDGE_FACTOR * _size_on_disk(path) + _FEATURE_FACTOR * columns


def write_store(
    source: str | Path,
    directory: str | Path,
    features: str | Path | None = None,
    *,
    memory_bytes: int = 2_000_000_000,
    name: str | None = None,
    data_dir: str | Path | None = None,
    seed: int = 0,
    directed: bool = False,
    tables: TableOptions = AS_FOUND,
    measure: Measure = nullcontext,
    progress: Progress = silent,
) -> StoredGraph:
    """Write a graph as a store: the same graph that `read_graph` gives, where it is read into memory.

    Args:
        source: An edge list (`.csv`, `.tsv`, `.txt`, also `.gz`; `.parquet`; a folder of `.csv` or `.parquet` parts;
            node numbers in an `.npy`), which DuckDB prepares where it is larger than memory; or another file or the
            name of a data set, which must fit.
        directory: The store. A graph that is there already is replaced when the new one is complete.
        features: A path as for `read_graph`.
        memory_bytes: What this may take beside what the process holds already.
        name: What to call the graph; by default after its file.
        data_dir, seed, directed, tables: As for `read_graph`.
        measure: Gives a context manager for each stage by its name ("read", "sort", "features").
        progress: Called with how far DuckDB is.
    """
    if memory_bytes < LEAST_MEMORY:
        raise ResourceError(
            f"writing a store needs at least {LEAST_MEMORY / 1e6:,.0f} MB beside what is in use, "
            f"and {memory_bytes / 1e6:,.0f} MB may be used; allow more memory"
        )
    directory = Path(directory)
    made_of = describe_source(source, features, seed, directed=directed, tables=tables)
    path = find_graph_file(source)
    if path is not None:
        check_ending(path)
    if path is None or not is_streamed(path) or reading_bytes(path, features) <= memory_bytes:
        with measure("read"):
            graph = read_graph(
                source,
                features,
                name=name,
                data_dir=data_dir,
                seed=seed,
                directed=directed,
                memory_limit=memory_bytes,
                tables=tables,
            )
        with measure("write"):
            return write_graph(graph, directory, source=made_of)
    if not has_duckdb():
        raise ResourceError(
            f"{path}: may take {reading_bytes(path, features) / 1e6:,.0f} MB to read and {memory_bytes / 1e6:,.0f} MB "
            f"may be used; DuckDB prepares it within that: pip install 'l2g2g[scale]'"
        )
    return write_large_store(
        path,
        directory,
        None if features is None else Path(features),
        memory_bytes=memory_bytes,
        name=name or path.name.split(".")[0] or path.name,
        made_of=made_of,
        measure=measure,
        progress=progress,
        directed=directed,
        tables=tables,
    )


def describe_source(
    source: str | Path,
    features: str | Path | None,
    seed: int,
    *,
    directed: bool = False,
    tables: TableOptions = AS_FOUND,
) -> dict[str, Any]:
    """What a store was made of, to know it again: names, sizes and times of files, not where they lie."""

    def describe(item: str | Path | None) -> Any:
        path = None if item is None else Path(item)
        if path is None or not path.exists():
            return None if item is None else {"name": str(item), "seed": seed}
        found = [part.stat() for part in parts_of(path)]
        modified = max((status.st_mtime_ns for status in found), default=0)
        return {"name": path.name, "bytes": sum(status.st_size for status in found), "modified": modified}

    given = {"tables": tables.given()} if tables.given() else {}
    return {"graph": describe(source), "features": describe(features), "directed": directed, **given}


def _size_on_disk(path: Path) -> int:
    if not path.exists():
        return 0  # the reader says that it is not there
    return sum(part.stat().st_size for part in parts_of(path))


def write_training_graph(
    graph: StoredGraph,
    rows: Iterable[RowBlock],
    directory: Path,
    *,
    num_edges: int,
    weighted: bool,
    source: dict[str, Any],
) -> StoredGraph:
    """Write other edges between the nodes of a stored graph, with its features, so that patches can be cut from them.

    rows: all rows in order, with weights where weighted and directions where the graph has some. source: what tells
    this store from others.
    """
    with locked_for_writing(directory), write_folder(directory / GRAPH_FOLDER, KIND) as writer:
        indptr, indices = writer.array("indptr", np.int64), writer.array("indices", np.int32)
        indptr.append(np.zeros(1, np.int64))
        end = num_arcs = 0
        for block in rows:
            indptr.append(end + block.indptr[1:])
            indices.append(block.indices)
            values = {"weights": block.weights, "directions": block.directions, "arc_weights": block.arc_weights}
            for name, part in values.items():
                if part is not None:
                    writer.append(name, part)
            num_arcs += 0 if block.directions is None else len(block.arcs()[0])
            end += len(block.indices)
        for name, stored in graph.arrays.items():
            if name.startswith("features"):
                copied = writer.array(name, stored.dtype, stored.shape[1:])
                for part in stored.blocks(max(1, _PIECE_BYTES // max(1, stored.info.row_bytes))):
                    copied.append(part)
        writer.values = store_values(
            name=graph.name,
            num_nodes=graph.num_nodes,
            num_edges=num_edges,
            num_features=graph.num_features,
            weighted=weighted,
            cleaning=graph.cleaning,
            source=source,
            num_arcs=num_arcs if graph.directed else None,
            columns=graph.columns,
        )
    return open_graph(directory)
