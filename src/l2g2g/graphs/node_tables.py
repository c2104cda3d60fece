"""Tables of another engine: edges.parquet between node numbers, and nodes.parquet with the id of every number.

FOLDER/edges.parquet   source, target and perhaps weight: node numbers, in any order; a file or a folder of parts
FOLDER/nodes.parquet   node (0, 1, 2, … in this order), id (integer or text) and perhaps features (lists of numbers)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from l2g2g.errors import InputError
from l2g2g.graphs.arrow_tables import ParquetTable, is_list, is_text, open_parquet, plain_type
from l2g2g.graphs.node_ids import name_row, name_rows_from, plain_ids
from l2g2g.graphs.read_features import stack_columns

EDGES, NODES = "edges.parquet", "nodes.parquet"
_BYTES_AT_ONCE = 1 << 24


def is_table_folder(path: Path) -> bool:
    """Whether an edge table and a node table lie here."""
    return (path / EDGES).exists() and (path / NODES).exists()


@dataclass(frozen=True, eq=False)
class NodeRows:
    """A node table, read in batches.

    Attributes:
        file: The file, or the parts of a folder.
        num_features: Numbers of each node; 0 where there are none.
        has_integer_ids: Whether ids are integers; otherwise they are text.
        memory_limit: Bytes that a batch may take.
    """

    file: ParquetTable
    num_features: int
    has_integer_ids: bool
    memory_limit: int | None = None

    @property
    def source_name(self) -> str:
        """What errors call it."""
        return str(self.file.path)

    @property
    def shape(self) -> tuple[int, int]:
        """(num_nodes, num_features)."""
        return self.file.num_rows, self.num_features

    def id_batches(self) -> Iterator[pa.ChunkedArray]:
        """Ids in the order of the nodes, integers or text, none of them missing; the numbers are checked."""
        kind = pa.int64() if self.has_integer_ids else pa.large_string()
        for first, table in self._tables():
            nodes = table.column("node").cast(pa.int64(), safe=False).fill_null(-1).to_numpy()
            expected = np.arange(first, first + table.num_rows)
            if not np.array_equal(nodes, expected):
                row = int(np.argmax(nodes != expected))
                raise InputError(
                    f"{self.source_name}: row {first + row + 1}: node {table.column('node')[row].as_py()} and not "
                    f"{first + row}; write the nodes in the order of their numbers, each number from 0 once"
                )
            ids = plain_ids(table.column("id"), self.source_name, name_rows_from(name_row, first))
            if self.has_integer_ids and (not pa.types.is_int64(ids.type) or pc.min(ids).as_py() < 0):
                raise InputError(
                    f"{self.source_name}: ids below 0 or beyond 64 bits; use integers from 0 or text as ids"
                )
            yield ids.cast(kind)

    def batches(self) -> Iterator[np.ndarray]:
        """(num_rows, num_features) float32 features in the order of the nodes, finite."""
        for first, table in self._tables():
            yield _features(table, self.source_name, first, self.num_features)

    def _tables(self) -> Iterator[tuple[int, pa.Table]]:
        rows_at_once = max(1, _BYTES_AT_ONCE * self.file.num_rows // max(1, self.file.num_bytes))
        first = 0
        for table in self.file.batches(rows_at_once, self.memory_limit):
            yield first, table
            first += table.num_rows


def _features(table: pa.Table, source_name: str, first: int = 0, num_features: int | None = None) -> np.ndarray:
    """(num_rows, num_features) float32 of the list column. first: rows before this table."""
    row_name = name_rows_from(name_row, first)
    return stack_columns(
        [table.column("features")], table.num_rows, ["features"], source_name, row_name, first, num_features
    )


def open_node_table(folder: Path, memory_limit: int | None = None) -> NodeRows:
    """Open the node table of a folder; its columns are checked."""
    file = open_parquet(folder / NODES)
    types = dict(zip(file.schema.names, file.schema.types, strict=True))
    kinds = {name: plain_type(kind) for name, kind in types.items()}
    wanted = "node (integers from 0), id (integers or text) and perhaps features (lists of numbers)"
    if not {"node", "id"} <= set(kinds) <= {"node", "id", "features"} or len(kinds) < len(file.schema.names):
        raise InputError(f"{file.path}: its columns are {', '.join(file.schema.names)}; it needs {wanted}")
    has_text = is_text(kinds["id"])
    fits = pa.types.is_integer(kinds["node"]) and (has_text or pa.types.is_integer(kinds["id"]))
    if not fits or not is_list(kinds.get("features", pa.list_(pa.float32()))):
        shown = ", ".join(f"{name} {kind}" for name, kind in kinds.items())
        raise InputError(f"{file.path}: its columns are {shown}; it needs {wanted}")
    if file.num_rows == 0:
        raise InputError(f"{file.path}: no rows; it needs one row per node")
    width = 0
    if "features" in kinds:
        width = _features(next(file.batches(1, memory_limit)), str(file.path)).shape[1]
    return NodeRows(file, width, not has_text, memory_limit)
