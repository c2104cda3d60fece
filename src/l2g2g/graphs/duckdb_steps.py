"""Steps on tables of DuckDB: within a memory limit, on the disk of a store, and kept for the next attempt.

A step is one transaction. What an interrupted preparation has finished stays in FOLDER/.prepare until it is resumed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from l2g2g.errors import InputError, ResourceError

if TYPE_CHECKING:
    import duckdb

_LEAST_PER_THREAD = 250_000_000  # bytes, twice what DuckDB's manual advises: two threads ran out of 254 MB
_ROWS_AT_ONCE = 1 << 18
_ROW_GROUP_BYTES = 1 << 25
_ROW_GROUP_STEP, _LARGEST_ROW_GROUP = 2048, 122_880
# What DuckDB's messages say that went wrong with a file, as the system calls it.
_REMEDIES = {
    "no space left": "free some space or give another folder",
    "quota exceeded": "free some space or give another folder",
    "file too large": "raise the limit of file sizes (ulimit -f) or give another folder",
    "too many open files": "raise the limit of open files (ulimit -n)",
    "permission denied": "allow reading and writing there, or give another folder",
    "read-only file system": "give another folder",
    "lock on file": "another process uses it: wait until it has ended",
    "no such file": "it was there before: put it back and start again",
    "no files found": "it was there before: put it back and start again",
}
_OTHER_REMEDY = "the disk or the file may be damaged: start again, or give another folder"


class StepDatabase:
    """Tables of one preparation, and which of its steps are done."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection

    def run(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of a query, or of none."""
        return self._connection.execute(query, list(values)).fetchall()

    def number(self, query: str) -> int:
        """The one number that a query gives."""
        return int(self.run(query)[0][0] or 0)

    def counts_none(self, query: str) -> bool:
        """Whether a query over files gives 0; False where DuckDB cannot read them."""
        import duckdb

        try:
            return self._connection.cursor().execute(query).fetchall() == [(0,)]
        except duckdb.OutOfMemoryException:
            raise
        except duckdb.Error:
            return False

    def insert(self, table: str, rows: pa.Table) -> None:
        """Add rows at the end of a table."""
        self._connection.register("batch", rows)
        self._connection.execute(f"INSERT INTO {table} SELECT * FROM batch")
        self._connection.unregister("batch")

    def stream(self, query: str) -> Iterator[pa.RecordBatch]:
        """The rows of a query, some at a time."""
        for batch in self._connection.sql(query).to_arrow_reader(_ROWS_AT_ONCE):
            if batch.num_rows:
                yield batch

    def is_done(self, name: str) -> bool:
        """Whether a step was finished before."""
        return bool(self.run("SELECT 1 FROM steps WHERE name = ?", name))

    def step(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What a step says about its tables, which are made unless they are there already.

        Within the step that fills a table its rowid does not begin at 0.
        """
        import duckdb

        done = self.run("SELECT facts FROM steps WHERE name = ?", name)
        if done:
            return dict(json.loads(done[0][0]))
        self._connection.execute("BEGIN")
        try:
            facts = make()
            self.run("INSERT INTO steps VALUES (?, ?)", name, json.dumps(facts))
        except BaseException:
            with suppress(duckdb.Error):  # ended by the error already
                self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")
        pa.default_memory_pool().release_unused()  # of batches; DuckDB has an allocator of its own
        return facts


@contextmanager
def open_database(directory: Path, made_of: dict[str, Any], memory: int, num_features: int) -> Iterator[StepDatabase]:
    """The tables of a preparation, those of an interrupted one of the same files. They stay where it may be resumed."""
    import duckdb

    folder, made = directory / ".prepare", json.dumps(made_of, sort_keys=True)
    connection = None
    try:
        for attempt in (1, 2):
            connection = _connect(folder, memory)
            try:
                place = str(folder / "tables.duckdb").replace("'", "''")
                connection.execute(f"ATTACH '{place}' AS work (ROW_GROUP_SIZE {_row_group(num_features)})")
                connection.execute("USE work")
                connection.execute("CREATE TABLE IF NOT EXISTS steps (name VARCHAR, facts VARCHAR)")
                found = connection.execute("SELECT facts FROM steps WHERE name = 'source'").fetchall()
                if not found:
                    connection.execute("INSERT INTO steps VALUES ('source', ?)", [made])
                if not found or found[0][0] == made:
                    break
            except duckdb.Error as error:  # damaged, or of another version
                if attempt == 2 or _find_remedy(error) is not None:  # on a full disk what is done already stays
                    raise
            connection.close()
            shutil.rmtree(folder)  # of other files
        assert connection is not None
        yield StepDatabase(connection)
    except duckdb.OutOfMemoryException as error:
        what, remedy = f"the {memory / 1e6:,.0f} MB that DuckDB may use", "allow more memory"
        if "max_temp_directory_size" in str(error):
            what, remedy = "the space that is left on this disk", "free some space or give another folder"
        raise ResourceError(f"{directory}: preparing the graph needs more than {what}; {remedy}") from error
    except duckdb.Error as error:
        reason = (str(error).splitlines() or ["DuckDB failed"])[0]
        if _find_remedy(error) is not None or isinstance(error, duckdb.IOException):
            raise ResourceError(f"{directory}: {reason}; {_find_remedy(error) or _OTHER_REMEDY}") from error
        if isinstance(error, duckdb.ProgrammingError) and not isinstance(error, duckdb.InvalidInputException):
            raise  # a query of ours is wrong
        _remove(connection, folder)
        name = made_of.get("graph", {}).get("name", directory)
        raise InputError(f"{name}: DuckDB cannot read it ({reason!r}); it may be damaged: write it again") from error
    except InputError:
        _remove(connection, folder)  # the files must change before another attempt
        raise
    else:
        _remove(connection, folder)
    finally:
        if connection is not None:
            connection.close()


def _find_remedy(error: duckdb.Error) -> str | None:
    """What helps against an error of the system, which DuckDB reports by several types, a failed commit among them."""
    return next((remedy for cause, remedy in _REMEDIES.items() if cause in str(error).lower()), None)


def _connect(folder: Path, memory: int) -> duckdb.DuckDBPyConnection:
    import duckdb

    folder.mkdir(parents=True, exist_ok=True)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = max(1, min(cores, memory // _LEAST_PER_THREAD))
    settings: dict[str, Any] = {
        "memory_limit": f"{memory}B",
        "threads": threads,
        "temp_directory": str(folder / "spilled"),
        "allocator_background_threads": True,  # what is freed goes back to the system: the limit is that of the process
        "allocator_flush_threshold": "16MB",
        "allocator_bulk_deallocation_flush_threshold": "64MB",
        "preserve_insertion_order": True,  # rowid is the place of a row in the input
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "python_enable_replacements": False,
    }
    return duckdb.connect(":memory:", config=settings)


def _row_group(num_features: int) -> int:
    """Rows that DuckDB compresses at once: fewer where they are wide."""
    rows = _ROW_GROUP_BYTES // max(1, 4 * num_features) // _ROW_GROUP_STEP * _ROW_GROUP_STEP
    return max(_ROW_GROUP_STEP, min(_LARGEST_ROW_GROUP, rows))


def _remove(connection: duckdb.DuckDBPyConnection | None, folder: Path) -> None:
    if connection is not None:
        connection.close()
    shutil.rmtree(folder, ignore_errors=True)
