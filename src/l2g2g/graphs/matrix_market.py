"""Matrix Market files (`.mtx`, also `.gz`) as adjacency matrices.

Read here and not by SciPy, whose parser ends the process on some damaged files.
"""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from l2g2g.errors import InputError, first_line
from l2g2g.graphs.archives import check_unpacked_size, open_bytes, reading
from l2g2g.graphs.checks import check_num_nodes
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.read_npz import graph_from_adjacency
from l2g2g.graphs.table_options import AS_FOUND, TableOptions

_LEAST_BYTES = 4  # of an entry in the file: row and column, each a digit and a blank
_MOST_HEADER = 1 << 16
_FIELDS, _SYMMETRIES = ("real", "double", "integer", "pattern"), ("general", "symmetric")


def read_matrix_graph(
    path: Path, *, directed: bool = False, tables: TableOptions = AS_FOUND, memory_limit: int | None = None
) -> Graph:
    """The graph whose adjacency matrix a file holds."""
    tables.refuse_for_edges(str(path))
    return graph_from_adjacency(read_matrix_market(path, memory_limit), source=str(path), directed=directed)


def read_matrix_market(path: Path, memory_limit: int | None = None) -> sp.coo_array:
    """(num_rows, num_columns) the matrix; entries of a pattern are 1, of a symmetric one both halves are there."""
    check_unpacked_size(path, memory_limit)
    with open_bytes(path) as stream:
        content = stream.read()
    header = _read_header(content, path)
    if header.num_entries * _LEAST_BYTES > len(content) + _LEAST_BYTES:
        raise InputError(
            f"{path}: cannot hold the {header.num_entries:,} entries that its header tells of; write it again"
        )
    check_num_nodes(max(header.num_rows, header.num_columns), header.num_entries, str(path))
    with reading(path):
        numbers = _read_numbers(content[header.end :], header, path)
    rows, columns, values = _entries(numbers, header)
    outside = (rows < 0) | (rows >= header.num_rows) | (columns < 0) | (columns >= header.num_columns)
    if outside.any():
        number = int(np.argmax(outside)) + 1
        raise InputError(f"{path}: entry {number} lies outside the matrix that its header tells of; write it again")
    if header.symmetry == "symmetric":
        mirrored = rows != columns
        rows, columns = np.append(rows, columns[mirrored]), np.append(columns, rows[mirrored])
        values = np.append(values, values[mirrored])
    return sp.coo_array((values, (rows, columns)), shape=(header.num_rows, header.num_columns))


@dataclass(frozen=True)
class _Header:
    """What the first lines say. end: bytes of them."""

    field: str
    symmetry: str
    num_rows: int
    num_columns: int
    num_entries: int
    end: int


def _read_header(content: bytes, path: Path) -> _Header:
    lines = content[:_MOST_HEADER].split(b"\n")
    words = lines[0].decode("latin-1").lower().split()
    if len(words) != 5 or words[0] != "%%matrixmarket" or words[1] != "matrix":
        raise InputError(f"{path}: does not begin with %%MatrixMarket matrix; it is no Matrix Market file")
    layout, field, symmetry = words[2:]
    if field == "complex":
        raise InputError(f"{path}: holds complex numbers; weights must be real")
    if layout == "array":
        raise InputError(f"{path}: holds a dense matrix (array); write a sparse one (coordinate)")
    if field not in _FIELDS or symmetry not in _SYMMETRIES:
        raise InputError(
            f"{path}: holds a {symmetry} matrix of {field}; needed: general or symmetric, of real, integer or pattern"
        )
    sizes: list[str] = []
    end = len(lines[0]) + 1
    for line in lines[1:]:
        end += len(line) + 1
        if line.strip() and not line.startswith(b"%"):
            sizes = line.decode("latin-1").split()
            break
    if layout != "coordinate" or len(sizes) != 3:
        raise InputError(f"{path}: its header does not say how large the matrix is; write it again")
    if not all(size.isascii() and size.isdecimal() and len(size) < 12 for size in sizes):
        raise InputError(f"{path}: its header gives the sizes {' '.join(sizes)[:80]}; write it again")
    num_rows, num_columns, num_entries = map(int, sizes)
    return _Header(field, symmetry, num_rows, num_columns, num_entries, min(end, len(content)))


def _read_numbers(body: bytes, header: _Header, path: Path) -> np.ndarray:
    """(num_entries, numbers of an entry) float64."""
    expected = 2 if header.field == "pattern" else 3
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of a matrix without entries
            numbers = np.loadtxt(io.BytesIO(body), np.float64, comments="%", encoding="latin-1", ndmin=2)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{path}: is no Matrix Market file ({first_line(error)}); write it again") from error
    if numbers.size == 0:
        numbers = np.empty((0, expected))
    if numbers.shape != (header.num_entries, expected):
        raise InputError(
            f"{path}: has {len(numbers):,} entries of {numbers.shape[1]} numbers where its header tells of "
            f"{header.num_entries:,} of {expected}; write it again"
        )
    return numbers


def _entries(numbers: np.ndarray, header: _Header) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(rows, columns, values) of a list of entries, which counts from 1; what is no whole number lies outside."""
    places = np.where(np.isfinite(numbers[:, :2]), numbers[:, :2], 0.0)
    places = np.where(places == np.floor(places), np.clip(places, 0, 2**40), 0.0)
    rows, columns = (places.astype(np.int64) - 1).T
    values = np.ones(len(numbers)) if header.field == "pattern" else numbers[:, 2]
    return rows, columns, values
