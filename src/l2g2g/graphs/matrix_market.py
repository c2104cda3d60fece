"""Matrix Market files (`.mtx`, also `.gz`) as adjacency matrices, read by SciPy."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import scipy.sparse as sp

from l2g2g.errors import InputError, ResourceError
from l2g2g.graphs.archives import check_unpacked_size, open_bytes, reading
from l2g2g.graphs.checks import check_num_nodes
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.read_npz import graph_from_adjacency
from l2g2g.graphs.table_options import AS_FOUND, TableOptions

_LEAST_BYTES = 2  # of an entry of a dense matrix in the file: a digit and a blank
_LEAST_SPARSE_BYTES = 4  # of an entry of a sparse one: row and column, each a digit and a blank
_MOST_HEADER = 1 << 16


def read_matrix_graph(
    path: Path, *, directed: bool = False, tables: TableOptions = AS_FOUND, memory_limit: int | None = None
) -> Graph:
    """The graph whose adjacency matrix a file holds."""
    tables.refuse_for_edges(str(path))
    return graph_from_adjacency(read_matrix_market(path, memory_limit), source=str(path), directed=directed)


def read_matrix_market(path: Path, memory_limit: int | None = None) -> sp.coo_array:
    """(num_rows, num_columns) the matrix; entries of a pattern are 1, of a symmetric one both halves are there."""
    import scipy.io

    check_unpacked_size(path, memory_limit)
    with open_bytes(path) as stream:
        content = stream.read()
    num_entries, layout, kind = _read_header(content, path)
    # SciPy allocates what the header says before it reads on.
    width = _LEAST_BYTES if layout == "array" else _LEAST_SPARSE_BYTES
    if num_entries * width > len(content) + width:
        raise InputError(f"{path}: cannot hold the {num_entries:,} entries that its header tells of; write it again")
    if kind == "complex":
        raise InputError(f"{path}: holds complex numbers; weights must be real")
    with reading(path):
        try:
            found: Any = scipy.io.mmread(io.BytesIO(content), spmatrix=False)
        except ResourceError:
            raise
        except Exception as error:  # of its parser, of many kinds
            if isinstance(error, MemoryError):
                raise
            raise InputError(f"{path}: is no Matrix Market file ({_first_line(error)}); write it again") from error
    matrix = sp.coo_array(found)
    check_num_nodes(max(matrix.shape), matrix.nnz, str(path))
    return matrix


def _read_header(content: bytes, path: Path) -> tuple[int, str, str]:
    """(number of entries, coordinate or array, field) that the first lines say."""
    lines = content[:_MOST_HEADER].decode("latin-1").splitlines()
    words = lines[0].lower().split() if lines else []
    if len(words) != 5 or words[0] != "%%matrixmarket" or words[1] != "matrix":
        raise InputError(f"{path}: does not begin with %%MatrixMarket matrix; it is no Matrix Market file")
    layout, kind, symmetry = words[2:]
    sizes = next((line.split() for line in lines[1:] if line.strip() and not line.startswith("%")), [])
    if layout not in ("coordinate", "array") or len(sizes) != (3 if layout == "coordinate" else 2):
        raise InputError(f"{path}: its header does not say how large the matrix is; write it again")
    if not all(size.isascii() and size.isdecimal() and len(size) < 12 for size in sizes):
        raise InputError(f"{path}: its header gives the sizes {' '.join(sizes)[:80]}; write it again")
    rows, columns = int(sizes[0]), int(sizes[1])
    if layout == "coordinate":
        return int(sizes[2]), layout, kind
    return rows * columns // (1 if symmetry == "general" else 2), layout, kind


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:120]
