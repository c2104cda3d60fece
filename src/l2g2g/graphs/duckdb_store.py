"""Preparation by DuckDB: edge lists and features larger than memory become a store, joined and sorted on disk.

The readers hand over checked batches; DuckDB numbers the ids, joins and sorts within its memory limit. Its tables lie
beside the store until that is complete: an interrupted preparation goes on after its last finished step.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.graphs.adjacency import BACK, FORTH, Cleaning
from l2g2g.graphs.archives import is_parquet
from l2g2g.graphs.array_writer import FolderWriter, locked_for_writing, write_folder
from l2g2g.graphs.arrow_tables import open_parquet
from l2g2g.graphs.checks import check_num_nodes
from l2g2g.graphs.column_roles import PLACEHOLDERS, find_roles, log_placeholders
from l2g2g.graphs.duckdb_steps import StepDatabase, open_database
from l2g2g.graphs.formats import AS_FOUND, TableOptions
from l2g2g.graphs.node_ids import NEGATIVE, RowName, name_row, quoted
from l2g2g.graphs.node_tables import EDGES, NodeRows, is_table_folder, open_node_table
from l2g2g.graphs.read import refuse_for_tables
from l2g2g.graphs.read_edges import EdgeBatches, NumberedEdges, open_npy_edges, open_parquet_edges, open_text_edges
from l2g2g.graphs.read_features import NamedFeatures, NumberedFeatures, VectorTable, open_features
from l2g2g.graphs.store import GRAPH_FOLDER, KIND, StoredGraph, open_graph, store_values

Measure = Callable[[str], AbstractContextManager[Any]]
Progress = Callable[[str, int, int], None]
"""Told the name of a step, how many rows of it are done, and of how many (0 where that is not known)."""
OpenFeatures = NumberedFeatures | NodeRows | NamedFeatures | None
# Of the memory that may be used, one batch of a file may take the first part, and DuckDB's tables the second, once
# copies of batches and what allocators keep are taken off; of little memory they get the third.
_BATCH_SHARE, _DUCKDB_SHARE, _LEAST_DUCKDB_SHARE = 0.1, 0.6, 0.3
_RESERVED = 300_000_000
# Of DuckDB's memory that the rows of one sort may take, with several copies of each: its sort of 200 million keys did
# not go on from disk within twice what the keys take.
_SORT_SHARE, _SORT_COPIES, _VECTOR_COPIES = 0.5, 4, 2
_SAMPLED_ROWS = 20_000  # from which ranges of about equal size are found
_MOST_NODES = 2**31 - 1
_BEHIND = 1 << 62  # places of feature rows follow those of all edges


def silent(step: str, done: int, total: int) -> None:
    """Tell nobody about the progress."""


def has_duckdb() -> bool:
    """Whether the extra `scale` is installed."""
    return find_spec("duckdb") is not None


def write_large_store(
    path: Path,
    directory: Path,
    features: Path | None = None,
    *,
    memory_bytes: int,
    name: str,
    made_of: dict[str, Any],
    directed: bool = False,
    tables: TableOptions = AS_FOUND,
    measure: Measure = nullcontext,
    progress: Progress = silent,
) -> StoredGraph:
    """Write an edge list of any size as a store; other arguments as of `store_writer.write_store`.

    made_of: what the store is made of, by which an interrupted preparation is known again.
    """
    batch_bytes = int(_BATCH_SHARE * memory_bytes)
    duckdb_bytes = int(max(_LEAST_DUCKDB_SHARE * memory_bytes, _DUCKDB_SHARE * (memory_bytes - _RESERVED)))
    with locked_for_writing(directory):
        opened: OpenFeatures = None
        with measure("read"):
            if is_table_folder(path):
                refuse_for_tables(path, features, tables)
                opened = open_node_table(path, batch_bytes)
            elif features is None:
                tables.refuse_for_features(str(path))
            else:
                opened = open_features(features, batch_bytes, tables)
        num_features = opened.num_features if isinstance(opened, NamedFeatures) else 0
        with (
            open_database(directory, made_of, duckdb_bytes, num_features) as database,
            write_folder(directory / GRAPH_FOLDER, KIND) as writer,
        ):
            edges = path / EDGES if isinstance(opened, NodeRows) else path
            sort_bytes = int(_SORT_SHARE * duckdb_bytes)
            job = _Preparation(database, edges, name, opened, directed, tables, batch_bytes, sort_bytes, progress)
            writer.values = {**job.write(writer, measure), "name": name, "source": made_of}
    return open_graph(directory)


@dataclass(frozen=True)
class _Preparation:
    """One store that is being written.

    Attributes:
        path: Of the edges.
        batch_bytes: What a batch of a file may take.
        sort_bytes: What one sort of rows may take.
    """

    database: StepDatabase
    path: Path
    name: str
    features: OpenFeatures
    directed: bool
    tables: TableOptions
    batch_bytes: int
    sort_bytes: int
    progress: Progress

    def write(self, writer: FolderWriter, measure: Measure) -> dict[str, Any]:
        """Write all arrays; returns what the manifest says of them."""
        step, features = self.database.step, self.features
        named = features if isinstance(features, NamedFeatures) else None
        if named is not None:
            with measure("features"):
                self._load_features(named)
        with measure("read"):
            facts = step("edges", self._load_edges)
        with measure("number"):
            facts |= step("nodes", partial(self._number, facts, named))
            num_pairs = step("pairs", partial(self._make_pairs, facts))["num_pairs"]
            if facts.get("of_features") and num_pairs < facts["num_rows"]:
                facts |= step("all nodes", partial(self._collect_nodes, facts, named))
                step("all pairs", partial(self._make_pairs, facts))
            if named is not None:
                step("rows", partial(self._match, facts, named))
        if isinstance(features, NodeRows):
            self._refuse_repeated("nodes", features.source_name, name_row)
        elif facts["ids"] == "VARCHAR":
            names = ", ".join(f"'{name}'" for name in PLACEHOLDERS)
            found = self.database.run(f"SELECT id FROM nodes WHERE id IN ({names})")
            log_placeholders(self.path, [name for (name,) in found])
        with measure("sort"):
            merged = self._write_edges(writer, facts)
        with measure("features"):
            if facts["ids"] is not None:
                writer.save_names("ids", self._column(f"SELECT CAST(id AS {facts['ids']}) FROM nodes ORDER BY rowid"))
            num_features = self._write_features(writer, facts["num_nodes"])
        return store_values(
            num_nodes=facts["num_nodes"],
            num_edges=merged.num_entries // 2,
            num_features=num_features,
            weighted=facts["weighted"],
            cleaning=merged.cleaning(facts["num_rows"], directed=self.directed),
            num_arcs=merged.num_distinct if self.directed else None,
            columns=None if named is None else named.columns,
        )

    def _load_features(self, features: NamedFeatures) -> None:
        """Table features: id, vector and label of every row. DuckDB holds an open step in memory: one per batch."""
        if self.database.is_done("features"):
            return
        done = 0
        for number, table in enumerate(features.tables()):
            assert table.ids is not None
            self.database.step(f"features {number}", partial(self._add_features, features, table, make=number == 0))
            done += len(table.ids)
            self.progress("reading features", done, 0)
        self.database.step("features", dict)

    def _add_features(self, features: NamedFeatures, table: VectorTable, *, make: bool) -> dict[str, Any]:
        """make: whether the table is not there yet."""
        columns = {"id": pa.array(table.ids)}
        kinds = {"id": "BIGINT" if features.has_integer_ids else "VARCHAR"}
        if features.num_features:
            values = pa.array(np.asarray(table.vectors, np.float32).ravel())
            columns["vector"] = pa.FixedSizeListArray.from_arrays(values, features.num_features)
            kinds["vector"] = f"FLOAT[{features.num_features}]"
        if table.labels is not None:
            columns["label"] = pa.array(table.labels)
            kinds["label"] = "BIGINT" if table.labels.dtype.kind in "iu" else "VARCHAR"
        if make:
            self.database.run(f"CREATE TABLE features ({', '.join(f'{name} {kind}' for name, kind in kinds.items())})")
        self.database.insert("features", pa.table(columns))
        return {}

    def _load_nodes(self, nodes: NodeRows) -> str:
        """Table nodes from a node table; returns the type of its ids."""
        kind = "BIGINT" if nodes.has_integer_ids else "VARCHAR"
        self.database.run(f"CREATE TABLE nodes (id {kind})")
        for ids in nodes.id_batches():
            self.database.insert("nodes", pa.table({"id": ids}))
        return kind

    def _refuse_repeated(self, table: str, source_name: str, row_name: RowName) -> None:
        repeated = f"SELECT id, min(rowid) AS first FROM {table} GROUP BY id HAVING count(*) > 1"
        if self.database.number(f"SELECT count(*) FROM ({repeated})"):
            node, first, second = self.database.run(
                f"SELECT f.id, r.first, f.rowid FROM {table} f JOIN ({repeated}) r ON f.id = r.id "
                f"WHERE f.rowid > r.first ORDER BY f.rowid LIMIT 1"
            )[0]
            raise InputError(
                f"{source_name}: node {quoted(node)} is in {row_name(first)} and again in {row_name(second)}; "
                f"keep one row per node"
            )

    def _open_edges(self) -> EdgeBatches | NumberedEdges:
        if self.path.suffix.lower() == ".npy":
            self.tables.refuse_for_edges(str(self.path))
            num_nodes = self.features.shape[0] if isinstance(self.features, NumberedFeatures) else None
            return open_npy_edges(self.path, num_nodes)
        if is_parquet(self.path):
            return open_parquet_edges(self.path, self.batch_bytes, options=self.tables)
        known: Iterable[np.ndarray] = ()
        if isinstance(self.features, NamedFeatures):
            known = (ids.to_numpy(False) for ids in self._column("SELECT id FROM features"))
        return open_text_edges(self.path, known, options=self.tables)

    def _load_edges(self) -> dict[str, Any]:
        """View given: source, target and place of every row, ids or node numbers, and perhaps its weight."""
        edges, num_nodes = self._open_edges(), None
        if isinstance(edges, NumberedEdges):
            num_nodes = edges.num_nodes or self._count_nodes(edges)
        elif isinstance(self.features, NumberedFeatures | NodeRows):
            num_nodes = self.features.shape[0]
        has_integers = isinstance(edges, NumberedEdges) or edges.has_integer_ids
        facts = {"weighted": edges.weighted, "integers": has_integers, "num_nodes": num_nodes}
        facts["numbered"] = num_nodes is not None
        kind = "INTEGER" if num_nodes is not None else "BIGINT" if has_integers else "VARCHAR"
        rows = self._parquet_rows(kind, num_nodes) if is_parquet(self.path) else None
        if rows is not None:
            self.database.run(f"CREATE VIEW given AS {rows}")
            return {**facts, "num_rows": edges.num_edges}
        weight = ", weight FLOAT" if edges.weighted else ""
        self.database.run(f"CREATE TABLE arcs (source {kind}, target {kind}{weight})")
        self.database.run("CREATE VIEW given AS SELECT *, rowid AS place FROM arcs")
        num_rows = 0
        for columns in self._edge_columns(edges):
            batch = pa.table(dict(zip(("source", "target", "weight"), columns, strict=False)))
            self.database.insert("arcs", batch)
            num_rows += batch.num_rows
            self.progress("reading edges", num_rows, edges.num_edges)
        return {**facts, "num_rows": num_rows}

    def _parquet_rows(self, kind: str, num_nodes: int | None) -> str | None:
        """The query by which DuckDB reads Parquet files itself; None where it must not: then batches tell the reason.

        Columns must have the type of the ids as they are, and no row may be one that the reader refuses.
        """
        file = open_parquet(self.path)
        places = find_roles(file.schema.names, self.tables, str(self.path), titled=True).places
        is_text, titles = kind == "VARCHAR", [title.lower() for title in file.schema.names]
        fits = pa.types.is_string if is_text else pa.types.is_integer
        kinds = [file.schema.types[place] for place in places]
        kinds = [each.value_type if pa.types.is_dictionary(each) else each for each in kinds]
        if not all(fits(each) and not pa.types.is_uint64(each) for each in kinds[:2]) or len(set(titles)) < len(titles):
            return None
        if not all(pa.types.is_floating(each) or pa.types.is_integer(each) for each in kinds[2:]):
            return None
        columns = ['"' + file.schema.names[place].replace('"', '""') + '"' for place in places]
        wrong = [f"{column} IS NULL" for column in columns]
        wrong += [f"{column} = ''" if is_text else f"{column} < 0" for column in columns[:2]]
        wrong += [f"{column} >= {num_nodes}" for column in columns[:2] if num_nodes is not None]
        wrong += [
            f"coalesce(NOT (isfinite(TRY_CAST({column} AS FLOAT)) AND TRY_CAST({column} AS FLOAT) > 0), true)"
            for column in columns[2:]
        ]
        parts = ", ".join("'" + str(part.absolute()).replace("'", "''") + "'" for part in file.parts)
        source = f"read_parquet([{parts}], hive_partitioning = false)"
        self.progress("checking edges", 0, file.num_rows)
        if not self.database.counts_none(f"SELECT count(*) FROM {source} WHERE {' OR '.join(wrong)}"):
            return None
        titled = zip(columns, ("source", "target", "weight"), (kind, kind, "FLOAT"), strict=False)
        chosen = ", ".join(f"CAST({column} AS {each}) AS {title}" for column, title, each in titled)
        return f"SELECT {chosen}, (CAST(file_index AS BIGINT) << 40) + file_row_number AS place FROM {source}"

    def _edge_columns(self, edges: EdgeBatches | NumberedEdges) -> Iterator[list[Any]]:
        """Sources, targets and perhaps weights, batch by batch."""
        if isinstance(edges, NumberedEdges):
            yield from (list(ends) for ends in edges.batches())
            return
        for table in edges.tables():
            ends: tuple[Any, Any] = table.sources, table.targets
            if isinstance(self.features, NumberedFeatures | NodeRows):
                ends = table.as_node_numbers(self.features.shape[0], self.features.source_name)
            yield [*ends, *([] if table.weights is None else [table.weights])]

    def _count_nodes(self, edges: NumberedEdges) -> int:
        largest = edges.largest_node()
        check_num_nodes(largest + 1, edges.num_edges, str(self.path))
        return self._check_count(largest + 1)

    def _check_count(self, num_nodes: int) -> int:
        if num_nodes > _MOST_NODES:
            raise InputError(f"{self.path}: {num_nodes:,} nodes; a store holds no more than {_MOST_NODES:,}")
        return num_nodes

    def _number(self, facts: dict[str, Any], features: NamedFeatures | None) -> dict[str, Any]:
        """Table nodes: the id of every node, whose number is its place. Numbers that are given get none of their own.

        Nodes of a file are in the order of first appearance, those that only features name last; nodes of a folder
        of parts are in the order of their ids, so that they do not depend on the order of the parts.
        """
        run = self.database.run
        self.progress("numbering nodes", 0, 0)
        if features is not None:
            self._refuse_repeated("features", features.source_name, features.row_name)
        match = self._matched_type(facts, features)
        if isinstance(self.features, NodeRows):
            return {"match": match, "ids": self._load_nodes(self.features)}
        if facts["numbered"]:
            if features is not None:
                run(f"CREATE TABLE nodes AS SELECT CAST(range AS {match}) AS id FROM range({facts['num_nodes']})")
            return {"match": match, "ids": None}
        if features is not None and match == "BIGINT":
            self._refuse_negative(features)
        if features is not None and self.path.is_dir() and facts["integers"] == features.has_integer_ids:
            # Every node has a feature row, as a rule; the ids of the edges, which are many more, are not collected.
            run("CREATE TABLE nodes AS SELECT id FROM features ORDER BY id")
            num_nodes = self._check_count(self.database.number("SELECT count(*) FROM nodes"))
            return {"match": match, "ids": match, "num_nodes": num_nodes, "of_features": True}
        return self._collect_nodes({**facts, "match": match}, features)

    def _collect_nodes(self, facts: dict[str, Any], features: NamedFeatures | None) -> dict[str, Any]:
        """Table nodes from the ids of edges and features; tables that were made of the features alone leave."""
        run, match = self.database.run, facts["match"]
        if facts.get("of_features"):
            run("DROP TABLE pairs")
            run("DROP TABLE nodes")
        ends = [
            f"SELECT CAST(source AS {match}) AS id, 2 * place AS place FROM given",
            f"SELECT CAST(target AS {match}), 2 * place + 1 FROM given",
        ]
        if features is not None:
            ends.append(f"SELECT CAST(id AS {match}), {_BEHIND} + rowid FROM features")
        run(f"CREATE TEMP TABLE found AS SELECT id, min(place) AS place FROM ({' UNION ALL '.join(ends)}) GROUP BY id")
        num_nodes = self._check_count(self.database.number("SELECT count(*) FROM found"))
        num_new = self.database.number(f"SELECT count(*) FROM found WHERE place >= {_BEHIND}")
        ids = "BIGINT" if facts["integers"] and not num_new else match
        order = f"CAST(id AS {ids})" if self.path.is_dir() else "place"
        run(f"CREATE TABLE nodes AS SELECT id FROM found ORDER BY {order}")
        run("DROP TABLE found")
        return {"match": match, "ids": ids, "num_nodes": num_nodes}

    def _matched_type(self, facts: dict[str, Any], features: NamedFeatures | None) -> str:
        """The type in which ids of edges and of features are compared: text unless both are integers."""
        both = facts["integers"] and (features is None or features.has_integer_ids)
        return "BIGINT" if both else "VARCHAR"

    def _refuse_negative(self, features: NamedFeatures) -> None:
        found = self.database.run("SELECT rowid, id FROM features WHERE id < 0 ORDER BY rowid LIMIT 1")
        if found:
            row, node = found[0]
            raise InputError(f"{features.source_name}: {features.row_name(row)}: node {node} {NEGATIVE}")

    def _match(self, facts: dict[str, Any], features: NamedFeatures) -> dict[str, Any]:
        """Table feature_nodes: the node of every feature row, in the order of the rows."""
        run, number = self.database.run, self.database.number
        run(
            f"CREATE TABLE feature_nodes AS SELECT CAST(n.rowid AS INTEGER) AS node FROM features f "
            f"LEFT JOIN nodes n ON n.id = CAST(f.id AS {facts['match']}) ORDER BY f.rowid"
        )
        num_rows = number("SELECT count(*) FROM features")
        strangers = run(
            "SELECT f.id FROM features f POSITIONAL JOIN feature_nodes WHERE node IS NULL ORDER BY f.rowid LIMIT 1"
        )
        if strangers:
            raise InputError(
                f"{features.source_name}: {num_rows:,} feature rows but {facts['num_nodes']:,} nodes in {self.name}: "
                f"{quoted(strangers[0][0])} is no node of the graph; drop that row or correct the id"
            )
        has_fill = features.columns is not None and features.columns.fill is not None
        num_missing = facts["num_nodes"] - num_rows
        if num_missing and features.num_features and not has_fill:
            alone = "SELECT id FROM nodes n ANTI JOIN feature_nodes f ON f.node = n.rowid ORDER BY n.rowid LIMIT 1"
            node = run(alone)[0][0]
            graph_name = self.path if facts["ids"] is not None else self.name
            node = int(node) if facts["ids"] != "VARCHAR" else node
            raise InputError(
                f"{features.source_name}: {num_rows:,} feature rows but {facts['num_nodes']:,} nodes in {graph_name}: "
                f"no row for node {quoted(node)} and {num_missing - 1:,} others; add a row for each node, "
                f"or choose --missing"
            )
        return {}

    def _make_pairs(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Table pairs: the numbers u and v of every row, and its weight and place where weights are to be added up."""
        more = ", weight, place" if facts["weighted"] else ""
        self.progress("joining node numbers to edges", 0, 0)
        if facts["numbered"]:
            self.database.run(f"CREATE VIEW pairs AS SELECT source AS u, target AS v{more} FROM given")
            return {"num_pairs": facts["num_rows"]}
        match = facts["match"]
        self.database.run(
            f"CREATE TABLE pairs AS SELECT CAST(s.rowid AS INTEGER) AS u, CAST(t.rowid AS INTEGER) AS v{more} "
            f"FROM given g JOIN nodes s ON s.id = CAST(g.source AS {match}) "
            f"JOIN nodes t ON t.id = CAST(g.target AS {match})"
        )
        return {"num_pairs": self.database.number("SELECT count(*) FROM pairs")}

    def _write_edges(self, writer: FolderWriter, facts: dict[str, Any]) -> MergedRows:
        """Sort both directions of every edge and write them as the rows of the adjacency matrix."""
        weighted = facts["weighted"]
        merged = MergedRows(writer, facts["num_nodes"], weighted=weighted, directed=self.directed)
        merged.num_self_loops = self.database.number("SELECT count(*) FROM pairs WHERE u = v")
        total = 2 * (facts["num_rows"] - merged.num_self_loops)
        if total == 0:
            raise InputError(
                f"{self.path}: all {facts['num_rows']:,} edges are self-loops; give edges between two nodes"
            )
        more, order = (", weight, place", "key, place") if weighted else ("", "key")
        one_way = (
            "SELECT (CAST({row} AS BIGINT) << 32) | (CAST({column} AS BIGINT) << 1) | {turned} AS key{more} "
            "FROM pairs WHERE u <> v AND {row} >= {low} AND {row} < {high}"
        )
        done = 0
        self.progress("sorting edges", 0, total)
        for low, high in self._node_ranges(facts["num_nodes"], total, 24 if weighted else 8):
            chosen = {"low": low, "high": high, "more": more}
            forth = one_way.format(row="u", column="v", turned=0, **chosen)
            back = one_way.format(row="v", column="u", turned=1, **chosen)
            keys = f"SELECT key{', weight' if weighted else ''} FROM ({forth} UNION ALL {back}) ORDER BY {order}"
            for batch in self.database.stream(keys):
                merged.add(batch.column(0).to_numpy(), batch.column(1).to_numpy() if weighted else None)
                done += batch.num_rows
                self.progress("sorting edges", done, total)
        if done != total:
            raise InputError(
                f"{self.path}: {done // 2:,} edges between two nodes were read, and {total // 2:,} are expected; "
                f"the file is damaged: write it again"
            )
        merged.finish()
        if self.directed and merged.num_distinct == merged.num_entries:
            raise InputError(f"{self.name}: every edge is given in both directions; there is no direction to learn")
        return merged

    def _node_ranges(self, num_nodes: int, num_rows: int, row_bytes: int) -> list[tuple[int, int]]:
        """Ranges of nodes whose rows of the adjacency matrix are sorted at once: as many as the memory holds."""
        num_ranges = -(-num_rows * row_bytes * _SORT_COPIES // self.sort_bytes)
        if num_ranges == 1:
            return [(0, num_nodes)]
        sample = self.database.run(
            f"SELECT u, v FROM pairs USING SAMPLE reservoir({_SAMPLED_ROWS} ROWS) REPEATABLE (0)"
        )
        bounds = np.quantile(np.array(sample), np.arange(1, num_ranges) / num_ranges, method="higher")
        ends = [0, *np.unique(bounds[(bounds > 0) & (bounds < num_nodes)]).tolist(), num_nodes]
        return list(itertools.pairwise(ends))

    def _column(self, query: str) -> Iterator[pa.Array]:
        """The first column of a query, some rows at a time."""
        return (batch.column(0) for batch in self.database.stream(query))

    def _write_features(self, writer: FolderWriter, num_nodes: int) -> int:
        """Features and labels in the order of the nodes; returns how many features there are."""
        features = self.features
        if features is None:
            return 0
        if isinstance(features, NumberedFeatures | NodeRows):
            if features.shape[1]:
                _write_numbered(writer, features)
            return features.shape[1]
        columns = {row[0] for row in self.database.run("SELECT column_name FROM (DESCRIBE features)")}
        rows = "features POSITIONAL JOIN feature_nodes"
        if "label" in columns:
            unknown = "-1" if "BIGINT" in str(self.database.run("SELECT typeof(label) FROM features LIMIT 1")) else "''"
            query = (
                f"SELECT coalesce(l.label, {unknown}) FROM range({num_nodes}) r "
                f"LEFT JOIN (SELECT node, label FROM {rows}) l ON l.node = r.range ORDER BY r.range"
            )
            writer.save_names("labels", self._column(query))
        if features.num_features == 0:
            return 0
        dense = writer.array("features", np.float32, (features.num_features,))
        fill = None if features.columns is None else features.columns.fill
        # Every range reads all rows, so it should have many.
        at_once = max(1, self.sort_bytes // (_VECTOR_COPIES * 4 * (features.num_features + 2)))
        for low in range(0, num_nodes, at_once):
            chosen = f"SELECT node, vector FROM {rows} WHERE node >= {low} AND node < {low + at_once} ORDER BY node"
            for batch in self.database.stream(chosen):
                nodes, vectors = batch.column(0).to_numpy(), batch.column(1).flatten().to_numpy(False)
                block = vectors.reshape(len(nodes), -1)
                if fill is not None:
                    block = _spread(nodes - dense.num_rows, block, fill)
                dense.append(block)
                self.progress("writing features", dense.num_rows, num_nodes)
        if dense.num_rows < num_nodes:
            assert fill is not None
            dense.append(np.broadcast_to(fill.astype(np.float32), (num_nodes - dense.num_rows, len(fill))))
        return features.num_features


def _spread(places: np.ndarray, rows: np.ndarray, fill: np.ndarray) -> np.ndarray:
    """(last place + 1, num_columns) these rows at their places, and the same row at all others."""
    block = np.repeat(fill.astype(np.float32)[None], int(places[-1]) + 1, axis=0)
    block[places] = rows
    return block


def _write_numbered(writer: FolderWriter, features: NumberedFeatures | NodeRows) -> None:
    """Copy rows that are in order already."""
    if isinstance(features, NodeRows) or not features.sparse:
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


class MergedRows:
    """Writes indptr, indices and perhaps weights and directions, each entry once, and counts what is merged.

    Both directions of every arc come as keys in ascending order: row << 32 | column << 1 | whether the direction is
    not the one that was given. Weights of equal keys come in the order of the input and are added up one by one.
    """

    def __init__(self, writer: FolderWriter, num_nodes: int, *, weighted: bool, directed: bool) -> None:
        self.num_entries = self.num_distinct = self.num_self_loops = 0
        self._degrees: np.ndarray = np.zeros(num_nodes, np.int64)
        self._indptr, self._indices = writer.array("indptr", np.int64), writer.array("indices", np.int32)
        self._weights = writer.array("weights", np.float32) if weighted else None
        self._directions = writer.array("directions", np.uint8) if directed else None
        self._arc_weights = writer.array("arc_weights", np.float32) if directed and weighted else None
        self._keys, self._values = np.empty(0, np.int64), np.empty(0, np.float32)

    def add(self, keys: np.ndarray, values: np.ndarray | None) -> None:
        """Take (num_keys,) keys that follow those before, with their weights."""
        keys = np.concatenate([self._keys, keys])
        values = self._values if values is None else np.concatenate([self._values, values])
        # The last entry may go on in the next piece.
        end = int(np.searchsorted(keys, keys[-1] >> 1 << 1))
        self._write(keys[:end], values[:end])
        self._keys, self._values = keys[end:], values[end:]

    def finish(self) -> None:
        """Write the last entry and where rows begin."""
        self._write(self._keys, self._values)
        self._indptr.append(np.concatenate([np.zeros(1, np.int64), np.cumsum(self._degrees)]))

    def cleaning(self, num_rows: int, *, directed: bool) -> Cleaning:
        """What was changed on the way; directions that are kept are not counted as joined."""
        num_edges = self.num_entries // 2
        return Cleaning(
            num_arcs_read=num_rows,
            num_self_loops=self.num_self_loops,
            num_duplicates=num_rows - self.num_self_loops - self.num_distinct,
            num_reversed=0 if directed else self.num_distinct - num_edges,
            num_isolated=int((self._degrees == 0).sum()),
        )

    def _write(self, keys: np.ndarray, values: np.ndarray) -> None:
        if len(keys) == 0:
            return
        is_first = np.ones(len(keys), bool)
        np.not_equal(keys[1:] >> 1, keys[:-1] >> 1, out=is_first[1:])
        firsts = keys[is_first]
        rows = firsts >> 32
        self._degrees[rows[0] : rows[-1] + 1] += np.bincount(rows - rows[0])
        self._indices.append((firsts >> 1 & 0x7FFFFFFF).astype(np.int32))
        self.num_entries += len(firsts)
        self.num_distinct += len(firsts) - int(np.count_nonzero(firsts & 1))  # the given direction comes first
        if self._directions is not None:
            given = np.where(keys & 1, BACK, FORTH).astype(np.uint8)
            self._directions.append(np.bitwise_or.reduceat(given, np.flatnonzero(is_first)))
        if self._weights is not None:
            sums = np.zeros((len(firsts), 2), np.float32)  # of the given direction and of the other
            np.add.at(sums.reshape(-1), 2 * (np.cumsum(is_first) - 1) + (keys & 1), values)
            self._weights.append(sums.max(axis=1))
            if self._arc_weights is not None:
                self._arc_weights.append(np.ascontiguousarray(sums[:, 0]))
