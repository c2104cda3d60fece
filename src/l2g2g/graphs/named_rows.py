"""Named rows: feature rows with ids, in any order, are matched to the nodes and written in the order of these."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from l2g2g.errors import InputError
from l2g2g.graphs.array_writer import FolderWriter
from l2g2g.graphs.node_ids import as_text, quoted, refuse_negative
from l2g2g.graphs.numbering import IntegerNumbers, TextNumbers
from l2g2g.graphs.read_features import NamedFeatures
from l2g2g.graphs.scratch import ScratchFile
from l2g2g.graphs.vector_table import check_distinct

Numbers = IntegerNumbers | TextNumbers


def match_features(
    features: NamedFeatures,
    numbers: Numbers,
    rows: RowSorter,
    graph_name: str,
    *,
    may_add: bool,
    labels: LabelsByNode | None = None,
) -> Numbers:
    """Hand all feature rows to rows, under their node numbers. Returns the numbers, with those of new nodes.

    labels: takes the labels of the rows, where they have some.
    may_add: whether an id that is no node of the graph becomes an isolated node; otherwise it is refused.
    """
    known = numbers.num_ids
    matched = _in_text(numbers) if isinstance(numbers, IntegerNumbers) and not features.has_integer_ids else numbers
    row_of_node: np.ndarray = np.full(known, -1, np.int64)
    num_rows = 0
    for table in features.tables():
        assert table.ids is not None
        check_distinct(table.ids, features.source_name, table.row_name)
        if isinstance(matched, IntegerNumbers) and (table.ids < 0).any():
            if not may_add:
                _refuse_stranger(features, table.ids[int(np.argmax(table.ids < 0))], known, graph_name)
            refuse_negative(table.ids, features.source_name, table.row_name)
        found = _number(matched, table.ids)
        if matched.num_ids > len(row_of_node):
            if not may_add:
                _refuse_stranger(features, table.ids[int(np.argmax(found >= known))], known, graph_name)
            more = np.full(max(matched.num_ids, 3 * len(row_of_node) // 2) - len(row_of_node), -1, np.int64)
            row_of_node = np.concatenate([row_of_node, more])
        again = row_of_node[found] >= 0
        if again.any():
            second = int(np.argmax(again))
            first = features.row_name(int(row_of_node[found[second]]))
            raise InputError(
                f"{features.source_name}: node {quoted(table.ids[second])} is in {first} and again in "
                f"{features.row_name(num_rows + second)}; keep one row per node"
            )
        row_of_node[found] = num_rows + np.arange(len(found))
        rows.add(found, table.vectors)
        if table.labels is not None and labels is not None:
            labels.add(found, table.labels)
        num_rows += len(found)
    missing = row_of_node[: matched.num_ids] < 0
    fill = None if features.columns is None else features.columns.fill
    if fill is not None:
        rows.fill(np.flatnonzero(missing), fill)
    elif missing.any() and features.num_features:
        node = int(np.argmax(missing))
        raise InputError(
            f"{features.source_name}: {num_rows:,} feature rows but {matched.num_ids:,} nodes in {graph_name}: no row "
            f"for node {quoted(matched.ids[node])} and {int(missing.sum()) - 1:,} others; add a row for each node, "
            f"or choose --missing"
        )
    return matched if matched.num_ids > known else numbers


def _refuse_stranger(features: NamedFeatures, stranger: object, known: int, graph_name: str) -> None:
    num_rows = sum(len(table.vectors) for table in features.tables())
    raise InputError(
        f"{features.source_name}: {num_rows:,} feature rows but {known:,} nodes in {graph_name}: "
        f"{quoted(stranger)} is no node of the graph; drop that row or correct the id"
    )


def _number(numbers: Numbers, ids: np.ndarray) -> np.ndarray:
    if isinstance(numbers, IntegerNumbers):
        return numbers.number(ids)
    return numbers.number((as_text(ids) if ids.dtype.kind == "i" else ids).tolist())[0]


def _in_text(numbers: IntegerNumbers) -> TextNumbers:
    """The same numbers for the same ids as text."""
    texts = TextNumbers()
    for low in range(0, numbers.num_ids, 1 << 16):
        texts.number([str(number) for number in numbers.ids[low : low + (1 << 16)].tolist()])
    return texts


class LabelsByNode:
    """Collects the labels of numbered rows: a number for each node, and the distinct labels.

    Example:
        >>> labels = LabelsByNode()
        >>> labels.add(np.array([2, 0]), np.array(["b", "a"], object))
        >>> labels.by_node(4).tolist()
        ['a', '', 'b', '']
    """

    def __init__(self) -> None:
        self._codes: np.ndarray = np.empty(0, np.int32)
        self._distinct: dict[int | str, int] = {}

    def add(self, numbers: np.ndarray, labels: np.ndarray) -> None:
        """Take (num_rows,) labels with their node numbers."""
        largest = int(numbers.max(initial=-1))
        if largest >= len(self._codes):
            more = np.full(max(largest + 1, 3 * len(self._codes) // 2) - len(self._codes), -1, np.int32)
            self._codes = np.concatenate([self._codes, more])
        known = self._distinct
        self._codes[numbers] = [known.setdefault(label, len(known)) for label in labels.tolist()]

    def by_node(self, num_nodes: int) -> np.ndarray | None:
        """(num_nodes,) labels, -1 or an empty text for a node without one; None where no rows had labels."""
        if not self._distinct:
            return None
        is_text = isinstance(next(iter(self._distinct)), str)
        names = np.array([*self._distinct, "" if is_text else -1], object if is_text else np.int64)
        codes = np.full(num_nodes, -1, np.int32)
        codes[: len(self._codes)] = self._codes[:num_nodes]
        return names[codes]


class RowSorter:
    """Collects numbered feature rows, then writes them in order: a bucket sort, as in `edge_sort`.

    folder: where it may keep files while it works. memory_bytes: what a bucket may take.
    """

    def __init__(self, folder: Path, num_features: int, memory_bytes: int) -> None:
        self._folder, self._num_features = folder, num_features
        self._rows_per_bucket = max(1024, memory_bytes // (12 * num_features + 8))
        self._buckets: dict[int, tuple[ScratchFile, ScratchFile]] = {}

    def add(self, numbers: np.ndarray, rows: np.ndarray) -> None:
        """Take (num_rows, num_features) rows with their node numbers."""
        if self._num_features == 0:
            return
        bucket_of = numbers // self._rows_per_bucket
        for bucket in np.unique(bucket_of).tolist():
            if bucket not in self._buckets:
                names = (f"row-numbers-{bucket}", f"rows-{bucket}")
                self._buckets[bucket] = (ScratchFile(self._folder / names[0]), ScratchFile(self._folder / names[1]))
            inside = bucket_of == bucket
            number_file, row_file = self._buckets[bucket]
            number_file.write(numbers[inside].astype(np.int64))
            row_file.write(rows[inside].astype(np.float32, copy=False))

    def fill(self, numbers: np.ndarray, row: np.ndarray) -> None:
        """Give nodes that have no row the same one."""
        for low in range(0, len(numbers), 1 << 12):
            part = numbers[low : low + (1 << 12)]
            self.add(part, np.broadcast_to(row, (len(part), len(row))))

    def write_rows(self, writer: FolderWriter, dtype: np.dtype) -> None:
        """Write all rows in the order of their numbers; every number up to the largest has one."""
        if self._num_features == 0:
            return
        features = writer.array("features", dtype, (self._num_features,))
        for bucket in sorted(self._buckets):
            number_file, row_file = self._buckets[bucket]
            places = number_file.take(np.int64) - bucket * self._rows_per_bucket
            rows = row_file.take(np.float32).reshape(-1, self._num_features)
            ordered = np.empty_like(rows)
            ordered[places] = rows
            features.append(ordered)
