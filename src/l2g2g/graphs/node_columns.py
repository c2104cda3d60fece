"""Tables about nodes: columns of numbers or text, and embeddings, matched to nodes by their ids."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from l2g2g.errors import InputError
from l2g2g.graphs.archives import check_unpacked_size, load_arrays, reading
from l2g2g.graphs.arrow_tables import ARROW_ENDINGS, is_list, is_text, open_parquet, read_arrow, unpacked
from l2g2g.graphs.column_roles import INDEX_TITLES
from l2g2g.graphs.node_ids import check_unique, find_rows, id_column, integers_or_text, quoted
from l2g2g.graphs.read_features import read_lists, read_vector_file
from l2g2g.graphs.text_tables import NUMBER, is_number, is_text_file, open_text_table, trimmed
from l2g2g.graphs.write import EMBEDDING_ENDINGS, PARTS, ids_path

TABLE_ENDINGS = (".csv", ".tsv", ".txt", ".parquet", *ARROW_ENDINGS)
ID_TITLES = ("id", "ids", "node", "nodes", "node_id", "nodeid", "name", "index", *INDEX_TITLES)
_NO_NUMBER = ("", "na", "n/a", "nan", "null", "none")  # among numbers: a value that is missing
_VECTOR_TITLES = ("embedding", "embeddings", "vector", "vectors", "emb", "features")
# dim_0, x12, emb.3, 7: the columns of a vector; a number that stands for a year or an age is called otherwise.
_DIMENSION = re.compile(r"^(dim|dimension|d|x|z|v|e|emb|embedding|vec|vector|pc|f|feature|component)?[ ._-]?[0-9]+$")


@dataclass(frozen=True, eq=False)
class NodeColumns:
    """Columns of a table about nodes.

    Attributes:
        ids: (num_rows,) integers or text, each once.
        columns: (num_rows,) float64, NaN where a number is missing; or text in an object array, empty where missing.
        source_name: What errors call the table.
    """

    ids: np.ndarray
    columns: dict[str, np.ndarray]
    source_name: str

    def by_node(self, node_ids: np.ndarray) -> dict[str, np.ndarray]:
        """(num_nodes,) every column in the order of node_ids, missing where a node has no row.

        Raises:
            InputError: No node has a row.
        """
        rows = find_rows(node_ids, self.ids)
        if (rows < 0).all():
            own, other = (quoted(ids[:1].tolist()[0]) for ids in (self.ids, node_ids))
            raise InputError(
                f"{self.source_name}: none of its ids is a node: it has {own}, and nodes are named like {other}; "
                f"the column called id, or else the first, must hold ids"
            )
        return {title: _rows_of(column, rows) for title, column in self.columns.items()}

    def num_matched(self, node_ids: np.ndarray) -> int:
        """How many of these nodes have a row."""
        return int((find_rows(node_ids, self.ids) >= 0).sum())


def _rows_of(column: np.ndarray, rows: np.ndarray) -> np.ndarray:
    missing = np.nan if column.dtype.kind == "f" else ""
    found = column[np.maximum(rows, 0)]
    found[rows < 0] = missing
    return found


def read_node_columns(path: Path) -> NodeColumns:
    """Read a table with an id column: the one called id (or node, name, …), otherwise the first."""
    if not path.is_file():
        raise InputError(f"{path}: no such table of nodes")
    if path.suffix.lower() not in (".parquet", *ARROW_ENDINGS) and not is_text_file(path):
        raise InputError(f"{path}: unknown ending of a table of nodes; use one of {', '.join(TABLE_ENDINGS)}")
    table = read_table(path)
    place = find_id_column(table.column_names) or 0
    if table.num_columns < 2:
        raise InputError(f"{path}: only {table.num_columns} column; it needs an id column and others beside it")
    if table.num_rows == 0:
        raise InputError(f"{path}: no rows; it needs one row per node")
    ids = read_id_column(table.column(place), path)
    others = [number for number in range(table.num_columns) if number != place]
    columns = {table.column_names[number]: read_values(table.column(number)) for number in others}
    return NodeColumns(ids, {title: values for title, values in columns.items() if values is not None}, str(path))


def read_table(path: Path) -> pa.Table:
    """All columns of a file: text as text, anything else as it is stored; titles are made distinct."""
    check_unpacked_size(path)
    if path.is_dir() or path.suffix.lower() == ".parquet":
        table = open_parquet(path).read(None)
    elif path.suffix.lower() in ARROW_ENDINGS:
        table = read_arrow(path)
    else:
        text = open_text_table(path, keep=True)
        has_titles = names_columns(text.first_row)
        titles = [f"column {number}" for number in range(1, text.num_columns + 1)]
        blocks = text.texts(skip_first=has_titles)
        table = pa.concat_tables([pa.Table.from_arrays(columns, names=titles) for columns in blocks])
        if has_titles:
            table = table.rename_columns(list(text.first_row))
    return table.rename_columns(_distinct(table.column_names))


def names_columns(first_row: list[str]) -> bool:
    """Whether the first line of a text table holds titles: no cell is a number, or the first is called like an id."""
    return first_row[0].lower() in ID_TITLES or not any(is_number(cell) for cell in first_row)


def find_id_column(titles: list[str]) -> int | None:
    """The column whose title says that it holds ids, by the most usual title; None where none does."""
    lower = [title.strip().lower() for title in titles]
    return next((lower.index(title) for title in ID_TITLES if title in lower), None)


def read_id_column(column: pa.ChunkedArray, path: Path) -> np.ndarray:
    """(num_rows,) ids as int64 or text, each once; in a text file all are integers or all are text."""
    if is_text_file(path):
        column = integers_or_text(trimmed(column))
    ids = id_column(column, str(path))
    check_unique(ids, str(path))
    return ids


def read_values(column: pa.ChunkedArray) -> np.ndarray | None:
    """(num_rows,) float64 with NaN, or text in an object array; None for what is neither, as lists."""
    column = unpacked(column)
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return _numbers(column)
    if pa.types.is_boolean(kind) or pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
        column = column.cast(pa.string())
    elif pa.types.is_null(kind):
        return np.full(len(column), "", dtype=object)
    elif not is_text(kind):
        return None
    text = trimmed(column.cast(pa.string()).fill_null(""))
    is_number_text = pc.match_substring_regex(text, NUMBER)
    is_missing = pc.is_in(pc.utf8_lower(text), value_set=pa.array(_NO_NUMBER))
    if pc.any(is_number_text).as_py() and pc.all(pc.or_(is_number_text, is_missing)).as_py():
        return _numbers(pc.if_else(is_missing, pa.scalar(None, pa.string()), text))
    return np.array(text.to_pylist(), dtype=object)


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    values = np.array(pc.cast(column, pa.float64(), safe=False).to_numpy(), np.float64)
    values[~np.isfinite(values)] = np.nan
    return values


def _distinct(titles: list[str]) -> list[str]:
    """Titles of which no two are equal: later ones get a number."""
    found: list[str] = []
    for place, title in enumerate(titles, 1):
        found.append(title if title not in found else f"{title} (column {place})")
    return found


@dataclass(frozen=True, eq=False)
class EmbeddingTable:
    """An embedding file.

    Attributes:
        ids: (num_nodes,) integers or text, each once.
        vectors: (num_nodes, dim) float32.
        columns: (num_nodes,) every other column, as in `NodeColumns`.
    """

    ids: np.ndarray
    vectors: np.ndarray
    columns: dict[str, np.ndarray] = field(default_factory=dict)


def read_embedding(path: str | Path) -> tuple[np.ndarray, np.ndarray]:
    """Read an embedding written by `write_embedding`, or any other file as `read_embedding_table` does.

    Returns:
        (num_nodes,) ids, integers or text, and (num_nodes, dim) float32 vectors.
    """
    table = read_embedding_table(Path(path))
    return table.ids, table.vectors


def is_embedding(path: Path) -> bool:
    """Whether a path is a file, or a folder of Parquet parts, as `write_parts` and Spark call them."""
    return path.is_file() or (path.is_dir() and any(path.glob(PARTS)))


def read_embedding_table(path: Path) -> EmbeddingTable:
    """Read a file of vectors, ours or not.

    `.parquet`, also a folder of parts, and `.arrow`: the vector is the list column, or all columns called like dim_0 or
    12, or else all numbers.
    `.csv`, `.tsv`, `.txt`: likewise, with or without titles; also word2vec and GloVe text. `.npy`: one row per node.
    Ids are in the column called id (or node, name, …), otherwise in the first where it holds text or integers;
    without one a node is its row number. All other columns are kept.
    """
    if not is_embedding(path):
        raise InputError(f"{path}: no such embedding file")
    if path.is_dir():
        return _split(read_table(path), path)
    check_unpacked_size(path)
    ending = path.suffix.lower()
    if ending == ".npy":
        return EmbeddingTable(*_read_npy(path))
    if ending == ".txt" and _is_word2vec(path):
        return EmbeddingTable(*_read_word2vec(path))
    if ending in (".parquet", *ARROW_ENDINGS):
        return _split(read_table(path), path)
    if not is_text_file(path):
        raise InputError(f"{path}: unknown ending of an embedding; use one of {', '.join(EMBEDDING_ENDINGS)}")
    if _is_plain(path):
        table = read_vector_file(path)
        assert table.ids is not None
        return EmbeddingTable(table.ids, np.asarray(table.vectors, dtype=np.float32))
    return _split(read_table(path), path)


def _is_plain(path: Path) -> bool:
    """Whether a text table is an id column and numbers after it, which is read without a detour."""
    first_row = open_text_table(path, keep=False).first_row
    if not names_columns(first_row):
        return not is_number(first_row[0]) or first_row[0].strip().isdigit()
    dimensions = [_DIMENSION.match(title.strip().lower()) is not None for title in first_row]
    return find_id_column(first_row) == 0 and all(dimensions[1:])


def _split(table: pa.Table, path: Path) -> EmbeddingTable:
    """Tell the vector of a table from its ids and other columns."""
    if table.num_rows == 0:
        raise InputError(f"{path}: no rows; it needs one row per node")
    titles = table.column_names
    by_title = find_id_column(titles)
    vectors, used = _vector_columns(table, by_title, path)
    place = by_title
    if place is None and 0 not in used and _may_be_ids(table.column(0)):
        place = 0
    ids = np.arange(table.num_rows) if place is None else read_id_column(table.column(place), path)
    others = [number for number in range(table.num_columns) if number not in used and number != place]
    columns = {titles[number]: read_values(table.column(number)) for number in others}
    return EmbeddingTable(ids, vectors, {title: each for title, each in columns.items() if each is not None})


def _vector_columns(table: pa.Table, id_place: int | None, path: Path) -> tuple[np.ndarray, set[int]]:
    """(num_nodes, dim) vectors of a table, and the places of their columns."""
    titles = [title.strip().lower() for title in table.column_names]
    lists = [place for place in range(table.num_columns) if is_list(table.column(place).type)]
    if len(lists) > 1:
        lists = [place for place in lists if titles[place] in _VECTOR_TITLES]
        if len(lists) != 1:
            raise InputError(f"{path}: several columns hold lists; keep one, or call the vectors embedding")
    if lists:
        return _finite(read_lists(table.column(lists[0]), str(path), table.column_names[lists[0]]), path), set(lists)
    numbers = {}
    for place in range(table.num_columns):
        if place != id_place:
            values = read_values(table.column(place))
            if values is not None and values.dtype.kind == "f":
                numbers[place] = values
    named = [place for place in numbers if _DIMENSION.match(titles[place])]
    if not named and id_place is None and 0 in numbers and len(numbers) > 1 and _may_be_ids(table.column(0)):
        numbers.pop(0)
    chosen = named or list(numbers)
    if not chosen:
        raise InputError(f"{path}: no column holds vectors; give a list column, or one number column per dimension")
    return _finite(np.column_stack([numbers[place] for place in chosen]), path), set(chosen)


def _may_be_ids(column: pa.ChunkedArray) -> bool:
    """Whether a column can hold ids: text, or integers of which none repeats."""
    kind = column.type
    if is_text(kind):
        values = read_values(column)
        if values is None or values.dtype.kind == "O":
            return True
        return bool((values == np.floor(values)).all()) and len(np.unique(values)) == len(values)
    return pa.types.is_integer(kind) and pc.count_distinct(column).as_py() == len(column)


def _read_npy(path: Path) -> tuple[np.ndarray, np.ndarray]:
    array = next(iter(load_arrays(path).values()))
    if array.ndim != 2 or array.dtype.kind not in "iuf":
        raise InputError(f"{path}: holds {array.dtype} of shape {array.shape}; it needs numbers, one row per node")
    vectors = _finite(array, path)
    names = ids_path(path)
    if not names.is_file():
        return np.arange(len(vectors)), vectors
    with reading(names):
        lines = names.read_text(encoding="utf-8").split("\n")
    lines = lines[:-1] if lines[-1] == "" else lines
    if len(lines) != len(array):
        raise InputError(f"{names}: {len(lines):,} ids but {len(array):,} vectors in {path}; they must be equal")
    ids = _as_integers(np.array(lines, dtype=object))
    check_unique(ids, str(names))
    return ids, vectors


def _finite(array: np.ndarray, path: Path) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        vectors = np.asarray(array, dtype=np.float32)
    wrong = ~np.isfinite(vectors).all(axis=1)
    if wrong.any():
        raise InputError(f"{path}: row {int(np.argmax(wrong))} holds a number that is not finite; correct it")
    return vectors


def _is_word2vec(path: Path) -> bool:
    with reading(path), path.open("rb") as file:
        cells = file.readline(100).split()
    return len(cells) == 2 and all(cell.isdigit() for cell in cells)


def _read_word2vec(path: Path) -> tuple[np.ndarray, np.ndarray]:
    with reading(path), path.open("rb") as stream:
        num_nodes, dim = (int(cell) for cell in stream.readline().split())
        place = stream.tell()
        num_cells = stream.readline().rstrip().count(b" ")
        if num_cells != dim:
            raise InputError(f"{path}: the first line promises {dim:,} numbers a row but line 2 has {num_cells:,}")
        stream.seek(place)
        names = ["id", *(f"dim_{index}" for index in range(dim))]
        table = pcsv.read_csv(
            stream,
            read_options=pcsv.ReadOptions(column_names=names),
            parse_options=pcsv.ParseOptions(delimiter=" ", quote_char=False),
            convert_options=pcsv.ConvertOptions(
                column_types={"id": pa.string(), **dict.fromkeys(names[1:], pa.float32())}, null_values=[]
            ),
        )
    if table.num_rows != num_nodes:
        raise InputError(f"{path}: the first line promises {num_nodes:,} rows but there are {table.num_rows:,}")
    ids = _as_integers(table.column("id").to_numpy())
    check_unique(ids, str(path))
    return ids, _finite(np.column_stack([table.column(name).to_numpy() for name in names[1:]]), path)


def _as_integers(ids: np.ndarray) -> np.ndarray:
    """Ids that were read as text, as integers where all of them are."""
    return np.asarray(integers_or_text(pa.array(ids, pa.string())).to_numpy(zero_copy_only=False))
