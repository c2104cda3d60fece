"""Tables of one vector per row, with or without an id."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from l2g2g.errors import InputError
from l2g2g.graphs.arrow_types import is_list, is_numeric
from l2g2g.graphs.feature_columns import FeatureColumns
from l2g2g.graphs.graph import Features
from l2g2g.graphs.node_ids import RowName, find_rows, name_row, quoted

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class VectorTable:
    """One vector per row, with or without an id.

    Attributes:
        vectors: (num_rows, num_columns), dense or sparse.
        ids: (num_rows,) integers or text, each once; None where a row is a node number.
        source_name: What errors call the table.
        row_name: From a row number to what errors call that row ("line 7").
        spared: Ids that need no row; None where all do.
        labels: (num_rows,) class of each row, integers or text; None without labels.
        columns: What the columns of the table became, where they were not all plain numbers.
        fill: (num_columns,) the row of a node that has none; None where such a node is refused.
    """

    vectors: Features
    ids: np.ndarray | None
    source_name: str
    row_name: RowName = name_row
    spared: np.ndarray | None = None
    labels: np.ndarray | None = None
    columns: FeatureColumns | None = None
    fill: np.ndarray | None = None

    def by_node(self, node_ids: np.ndarray, graph_name: str) -> np.ndarray:
        """(num_nodes, num_columns) vectors in the order of node_ids; every node needs a row but those spared one."""
        assert self.ids is not None
        assert isinstance(self.vectors, np.ndarray)
        rows = find_rows(node_ids, self.ids)
        if self.spared is not None:
            spared = (rows < 0) & (find_rows(node_ids, self.spared) >= 0)
            if spared.any():
                found = np.zeros((len(node_ids), self.vectors.shape[1]), self.vectors.dtype)
                found[~spared] = replace(self, spared=None).by_node(node_ids[~spared], graph_name)
                return found
        if self.fill is not None and (rows < 0).any():
            return np.where((rows < 0)[:, None], self.fill, self.vectors[rows])
        if (rows < 0).any():
            missing = node_ids[int(np.argmax(rows < 0))]
            raise InputError(
                f"{self.source_name}: {len(self.ids):,} feature rows but {len(node_ids):,} nodes in {graph_name}: "
                f"no row for node {quoted(missing)} and {int((rows < 0).sum()) - 1:,} others; add a row for each node, "
                f"or choose --missing"
            )
        return self.vectors[rows]

    def labels_by_node(self, node_ids: np.ndarray) -> np.ndarray | None:
        """(num_nodes,) labels in the order of node_ids, -1 or an empty text for a node without a row."""
        if self.labels is None:
            return None
        assert self.ids is not None
        rows = find_rows(node_ids, self.ids)
        unknown = -1 if self.labels.dtype.kind == "i" else ""
        return np.where(rows < 0, unknown, self.labels[rows])

    def ids_beyond(self, node_ids: np.ndarray) -> np.ndarray:
        """The ids that are none of node_ids, in the order of their rows."""
        assert self.ids is not None
        return self.ids[find_rows(self.ids, node_ids) < 0]


def check_shape(num_columns: int, num_rows: int, source_name: str) -> None:
    """Refuse a table that cannot be one of ids and vectors."""
    if num_columns < 2:
        raise InputError(f"{source_name}: only {num_columns} column; it needs an id column and numbers after it")
    if num_rows == 0:
        raise InputError(f"{source_name}: no rows; it needs one row per node")


def stack_columns(
    columns: list[pa.ChunkedArray],
    num_rows: int,
    titles: list[str] | None,
    source_name: str,
    row_name: RowName,
    first_row: int = 0,
    num_features: int | None = None,
) -> np.ndarray:
    """(num_rows, num_features) float32 of one list column, or of one number column per dimension, all finite.

    first_row: how many rows came before. num_features: how many numbers these have; None for the first.
    """
    if not columns:
        return np.empty((num_rows, 0), np.float32)
    names = titles or [f"column {place + 2}" for place in range(len(columns))]
    if is_list(columns[0].type):
        if len(columns) > 1:
            raise InputError(f"{source_name}: {len(columns) + 1} columns; keep the id and one list column")
        vectors, titles = read_lists(columns[0], source_name, names[0], first_row, num_features), None
    else:
        each = zip(columns, names, strict=True)
        vectors = np.column_stack([_numbers(column, source_name, name) for column, name in each])
    check_finite(vectors, source_name, row_name, titles, first_row)
    return vectors


def read_lists(
    column: pa.ChunkedArray, source_name: str, title: str, first_row: int = 0, num_features: int | None = None
) -> np.ndarray:
    """(num_rows, num_features) float32 from a column of lists of one length. Others as in `stack_columns`."""
    import pyarrow.compute as pc

    lists = column.combine_chunks()
    lengths = pc.list_value_length(lists).fill_null(-1).to_numpy(zero_copy_only=False)
    wanted = lengths[0] if num_features is None else num_features
    if (lengths != wanted).any() or wanted < 1:
        row = int(np.argmax(lengths != wanted))
        raise InputError(
            f"{source_name}: row {first_row + row + 1} has {lengths[row]} numbers, row 1 has {wanted}; "
            f"all must be equally long"
        )
    values = pc.list_flatten(lists)
    return _numbers(values, source_name, title).reshape(len(lengths), -1)


def _numbers(column: pa.Array | pa.ChunkedArray, source_name: str, title: str) -> np.ndarray:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not is_numeric(column.type):
        raise InputError(f"{source_name}: column {title!r} holds {column.type}; features must be numbers")
    values = pc.cast(column, pa.float32(), safe=False)
    return np.asarray(values.to_numpy(zero_copy_only=False) if isinstance(values, pa.Array) else values.to_numpy())


def check_finite(
    vectors: np.ndarray, source_name: str, row_name: RowName, titles: list[str] | None, first_row: int = 0
) -> None:
    """Refuse NaN and Inf; name the row. first_row: how many rows came before."""
    finite = np.isfinite(vectors)
    if finite.all():
        return
    row, column = (int(index) for index in np.argwhere(~finite)[0])
    title = repr(titles[column]) if titles else column
    raise InputError(
        f"{source_name}: {row_name(row)}: feature row {first_row + row}, column {title} is {vectors[row, column]}; "
        f"replace NaN and Inf by numbers"
    )
