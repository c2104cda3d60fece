"""Store writer: edge lists and features of any size become a store on disk, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from l2g2g.errors import InputError, ResourceError
from l2g2g.graphs.archives import is_parquet, parquet_parts
from l2g2g.graphs.array_writer import FolderWriter, locked, write_folder
from l2g2g.graphs.checks import check_num_nodes
from l2g2g.graphs.edge_sort import EdgeSorter
from l2g2g.graphs.named_rows import LabelsByNode, RowSorter, match_features
from l2g2g.graphs.npy_edges import NumberedEdges, open_npy_edges
from l2g2g.graphs.numbering import IntegerNumbers, TextNumbers
from l2g2g.graphs.read import check_ending, find_graph_file, is_streamed, read_graph
from l2g2g.graphs.read_edges import EdgeBatches, open_parquet_edges, open_text_edges
from l2g2g.graphs.read_features import NamedFeatures, NumberedFeatures, open_features
from l2g2g.graphs.store import GRAPH_FOLDER, KIND, StoredGraph, open_graph, save_names, store_values, write_graph
from l2g2g.graphs.table_options import AS_FOUND, TableOptions

Measure = Callable[[str], AbstractContextManager[Any]]
_Numbers = IntegerNumbers | TextNumbers
LEAST_MEMORY = 64_000_000
_MOST_NODES = 2**31 - 1
# Of the memory that may be used, one piece of a file may take this part; the sorting of edges the other one.
_PIECE_SHARE, _SORT_SHARE = 0.2, 0.6


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
) -> StoredGraph:
    """Write a graph as a store: the same graph that `read_graph` gives, read piece by piece.

    Args:
        source: An edge list (`.csv`, `.tsv`, `.txt`, also `.gz`; `.parquet` or a folder of its parts; node numbers in
            an `.npy`), which is never in memory as a whole; or another file or the name of a data set, which are.
        directory: The store. A graph that is there already is replaced when the new one is complete.
        features: A path as for `read_graph`.
        memory_bytes: What this may take beside what the process holds already.
        name: What to call the graph; by default after its file.
        data_dir, seed, directed, tables: As for `read_graph`.
        measure: Called with the name of each stage ("read", "sort", "features"), gives a context that lasts as long.
    """
    if memory_bytes < LEAST_MEMORY:
        raise ResourceError(
            f"writing a store needs at least {LEAST_MEMORY / 1e6:,.0f} MB beside what is in use, "
            f"and {memory_bytes / 1e6:,.0f} MB may be used; allow more memory"
        )
    directory = Path(directory)
    made_of = describe_source(source, features, seed, directed=directed, tables=tables)
    path = find_graph_file(source)
    if path is None or not is_streamed(path):
        with measure("read"):
            how: dict[str, Any] = {"data_dir": data_dir, "seed": seed, "directed": directed, "tables": tables}
            graph = read_graph(source, features, name=name, memory_limit=memory_bytes, **how)
        with measure("write"):
            return write_graph(graph, directory, source=made_of)
    check_ending(path)
    with locked(directory), write_folder(directory / GRAPH_FOLDER, KIND) as writer:
        name = name or path.name.split(".")[0] or path.name
        job = _Job(writer, path, name, memory_bytes, measure, directed, tables)
        writer.values = {**job.write(None if features is None else Path(features)), "name": name, "source": made_of}
    return open_graph(directory)


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
        found = [part.stat() for part in (parquet_parts(path) if path.is_dir() else [path])]
        modified = max((status.st_mtime_ns for status in found), default=0)
        return {"name": path.name, "bytes": sum(status.st_size for status in found), "modified": modified}

    given = {"tables": tables.given()} if tables.given() else {}
    return {"graph": describe(source), "features": describe(features), "directed": directed, **given}


class _Job:
    """One store that is being written."""

    def __init__(
        self,
        writer: FolderWriter,
        path: Path,
        name: str,
        memory_bytes: int,
        measure: Measure,
        directed: bool,
        tables: TableOptions,
    ) -> None:
        self.writer, self.path, self.name, self.memory_bytes, self.measure = writer, path, name, memory_bytes, measure
        self.directed, self.tables = directed, tables

    def write(self, features_path: Path | None) -> dict[str, Any]:
        """Write all arrays; returns what the manifest says of them."""
        piece = int(_PIECE_SHARE * self.memory_bytes)
        with self.measure("read"):
            features = None
            if features_path is None:
                self.tables.refuse_for_features(str(self.path))
            else:
                features = open_features(features_path, piece, self.tables)
            edges = self._open_edges(features)
            kind = {"weighted": edges.weighted, "directed": self.directed}
            sorter = EdgeSorter(self.writer.part, int(_SORT_SHARE * self.memory_bytes), **kind)
            num_nodes, numbers = self._collect(edges, features, sorter)
        with self.measure("features"):
            rows, labels = None, LabelsByNode()
            if isinstance(features, NamedFeatures):
                rows = RowSorter(self.writer.part, features.num_features, int(_SORT_SHARE * self.memory_bytes))
                if numbers is None:  # nodes are their own numbers, and there are no others
                    own = IntegerNumbers.up_to(num_nodes)
                    match_features(features, own, rows, self.name, may_add=False, labels=labels)
                else:
                    numbers = match_features(features, numbers, rows, str(self.path), may_add=True, labels=labels)
                    num_nodes = numbers.num_ids
        with self.measure("sort"):
            cleaning = sorter.write_rows(self.writer, num_nodes)
            if cleaning.num_self_loops == cleaning.num_arcs_read:
                raise InputError(
                    f"{self.path}: all {cleaning.num_arcs_read:,} edges are self-loops; give edges between two nodes"
                )
            if self.directed and sorter.num_arcs == 2 * sorter.num_edges:
                raise InputError(f"{self.name}: every edge is given in both directions; there is no direction to learn")
        with self.measure("features"):
            num_features = 0
            if isinstance(features, NumberedFeatures):
                num_features = features.shape[1]
                _write_numbered(self.writer, features)
            elif isinstance(features, NamedFeatures) and rows is not None:
                num_features = features.num_features
                rows.write_rows(self.writer, np.dtype(np.float32))
            save_names(self.writer, "labels", labels.by_node(num_nodes))
            if isinstance(numbers, TextNumbers):
                self.writer.save("ids_bytes", numbers.content)
                self.writer.save("ids_offsets", numbers.offsets)
            elif numbers is not None:
                save_names(self.writer, "ids", numbers.ids)
        return store_values(
            num_nodes=num_nodes,
            num_edges=sorter.num_edges,
            num_features=num_features,
            weighted=edges.weighted,
            cleaning=cleaning,
            num_arcs=sorter.num_arcs if self.directed else None,
            columns=features.columns if isinstance(features, NamedFeatures) else None,
        )

    def _open_edges(self, features: NumberedFeatures | NamedFeatures | None) -> EdgeBatches | NumberedEdges:
        ending = self.path.suffix.lower()
        if ending == ".npy":
            self.tables.refuse_for_edges(str(self.path))
            return open_npy_edges(self.path, features.shape[0] if isinstance(features, NumberedFeatures) else None)
        if is_parquet(self.path):
            return open_parquet_edges(self.path, int(_PIECE_SHARE * self.memory_bytes), options=self.tables)
        named = features.tables() if isinstance(features, NamedFeatures) else ()
        known = (table.ids for table in named if table.ids is not None)
        return open_text_edges(self.path, known, options=self.tables)

    def _collect(
        self,
        edges: EdgeBatches | NumberedEdges,
        features: NumberedFeatures | NamedFeatures | None,
        sorter: EdgeSorter,
    ) -> tuple[int, _Numbers | None]:
        """Number all edges and hand them to the sorter. Returns how many nodes there are, and their numbers by id."""
        if isinstance(edges, NumberedEdges):
            num_nodes = edges.num_nodes or self._count_nodes(edges)
            for sources, targets in edges.batches():
                sorter.add(sources, targets, None)
            return num_nodes, None
        if isinstance(features, NumberedFeatures):
            for table in edges.tables():
                sorter.add(*table.as_node_numbers(features.shape[0], features.source_name), table.weights)
            return features.shape[0], None
        numbers: _Numbers = IntegerNumbers() if edges.has_integer_ids else TextNumbers()
        for table in edges.tables():
            if isinstance(numbers, IntegerNumbers):
                both = np.stack([table.sources.to_numpy(), table.targets.to_numpy()], axis=1).ravel()
                numbered = numbers.number(both)
                sorter.add(numbered[0::2], numbered[1::2], table.weights)
            else:
                sources, targets = numbers.number(table.sources, table.targets)
                sorter.add(sources, targets, table.weights)
            self._check_memory(numbers)
        return numbers.num_ids, numbers

    def _count_nodes(self, edges: NumberedEdges) -> int:
        largest = edges.largest_node()
        check_num_nodes(largest + 1, edges.num_edges, str(self.path))
        if largest >= _MOST_NODES:
            raise InputError(f"{self.path}: node number {largest}; a store holds no more than {_MOST_NODES:,} nodes")
        return largest + 1

    def _check_memory(self, numbers: _Numbers) -> None:
        if numbers.num_ids > _MOST_NODES:
            raise InputError(f"{self.path}: more than {_MOST_NODES:,} nodes; a store holds no more")
        if numbers.num_bytes > self.memory_bytes:
            raise ResourceError(
                f"{self.path}: {numbers.num_ids:,} ids take {numbers.num_bytes / 1e6:,.0f} MB and "
                f"{self.memory_bytes / 1e6:,.0f} MB may be used; allow more memory, or give node numbers from 0 "
                f"with features by row"
            )


def _write_numbered(writer: FolderWriter, features: NumberedFeatures) -> None:
    """Copy rows that are in order already."""
    if not features.sparse:
        dense = writer.array("features", np.float32, (features.shape[1],))
        for rows in features.batches():
            dense.append(rows)
        return
    indptr, indices = writer.array("features_indptr", np.int64), writer.array("features_indices", np.int32)
    data = writer.array("features_data", np.float32)
    indptr.append(np.zeros(1, np.int64))
    end = 0
    for matrix in features.batches():
        assert sp.issparse(matrix)
        indptr.append(end + matrix.indptr[1:])
        indices.append(matrix.indices)
        data.append(matrix.data)
        end += matrix.nnz
