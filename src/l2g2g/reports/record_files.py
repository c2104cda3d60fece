"""Record files: a RunRecord on disk, complete or not there at all, and checked before it is used. No pickle."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from safetensors import SafetensorError

from l2g2g.errors import InputError, ResourceError
from l2g2g.evaluation.separation import read_separation
from l2g2g.graphs.graph import Cleaning
from l2g2g.graphs.node_ids import as_node_ids
from l2g2g.reports.partners import load_decoder
from l2g2g.reports.record import GraphFacts, PatchFacts, RunRecord
from l2g2g.reports.streamed_files import describe, write_arrays, write_names
from l2g2g.training.state import read_history

FORMAT = "l2g2g record 1"
_RECORD, _NAMES, _ARRAYS = "record.json", "names.json", "arrays.safetensors"
_BY_NODE = ("degrees", "home", "labels", "residuals")
_MISTAKES = (
    *(KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError),
    RuntimeError,  # parameters of other shapes, nested beyond recursion
    SafetensorError,
)
_LARGEST = 1e15  # whose square float32 can hold
_FIGURES = ("auc", "ap", "best_auc", "epochs", "peak_memory_bytes")
_FARTHEST = 1e30
_FACTS = ("name", "row", "settings", "command", "versions")


def write_record(folder: Path, record: RunRecord) -> None:
    """Write a record to a folder of its own; one that was there before stays until the new one is complete."""
    arrays = {"vectors": record.vectors}
    arrays |= {name: getattr(record, name) for name in _BY_NODE if getattr(record, name) is not None}
    if record.edges is not None:
        arrays |= {"edges.indptr": record.edges.indptr, "edges.indices": record.edges.indices}
    arrays |= {f"decoder.{name}": value for name, value in record.decoder.items()} | record.tensors
    facts = {
        "format": FORMAT,
        **{name: getattr(record, name) for name in _FACTS},
        "graph": asdict(record.graph),
        "history": asdict(record.history),
        "patches": asdict(record.patches),
        "separation": None if record.separation is None else asdict(record.separation),
    }
    part, old = (folder.with_name(f".{folder.name}.{end}") for end in ("part", "old"))
    try:
        for leftover in (part, old):
            shutil.rmtree(leftover, ignore_errors=True)
        part.mkdir(parents=True)
        facts["files"] = {
            _NAMES: write_names(part / _NAMES, record.node_ids, record.classes),
            _ARRAYS: write_arrays(part / _ARRAYS, arrays),
        }
        (part / _RECORD).write_text(json.dumps(facts, indent=1), encoding="utf-8")
        if folder.exists():
            folder.rename(old)
        part.rename(folder)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ResourceError(f"{folder}: cannot be written ({reason}); free some space, then --resume") from error
    finally:
        for leftover in (part, old):
            shutil.rmtree(leftover, ignore_errors=True)


def read_record(folder: Path) -> RunRecord:
    """Read and check what `write_record` wrote. Raises InputError where anything does not fit."""
    from safetensors.numpy import load

    facts = _read_facts(folder)
    with _explaining(folder):
        contents = {name: (folder / name).read_bytes() for name in (_NAMES, _ARRAYS)}
        for name, content in contents.items():
            if facts["files"][name] != describe(content):
                raise InputError(f"{folder / name}: is damaged (its checksum differs); run it again")
        record = _assemble(facts, json.loads(contents[_NAMES]), load(contents[_ARRAYS]))
        load_decoder(record)  # refuses what does not fit
        return record


def read_row(folder: Path) -> dict[str, Any]:
    """The JSON line of a record, without its arrays."""
    with _explaining(folder):
        return _row(_read_facts(folder)["row"])


def _read_facts(folder: Path) -> dict[str, Any]:
    with _explaining(folder):
        facts = json.loads((folder / _RECORD).read_bytes())
        if facts["format"] != FORMAT:
            raise InputError(f"{folder}: written as '{facts['format']}', this version reads '{FORMAT}'")
        return dict(facts)


@contextmanager
def _explaining(folder: Path) -> Iterator[None]:
    """Turn whatever a damaged or foreign record does into one line."""
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError as error:
        raise InputError(f"{error.filename}: is missing; finish the run with --resume, or run it again") from error
    except _MISTAKES as error:
        raise InputError(f"{folder}: is no record of a run ({type(error).__name__}: {error}); run it again") from error


def _assemble(facts: dict[str, Any], names: dict[str, Any], arrays: dict[str, np.ndarray]) -> RunRecord:
    vectors = _vectors(arrays.pop("vectors"))
    num_nodes = len(vectors)
    by_node = {name: _by_node(arrays.pop(name), num_nodes, name) for name in _BY_NODE if name in arrays}
    decoder = {name.removeprefix("decoder."): arrays.pop(name) for name in list(arrays) if name.startswith("decoder.")}
    has_edges = "edges.indptr" in arrays
    edges = _edges(arrays.pop("edges.indptr"), arrays.pop("edges.indices"), num_nodes) if has_edges else None
    ids = None if names["ids"] is None else as_node_ids(list(names["ids"]), "names")
    classes = None if names["classes"] is None else [str(name) for name in names["classes"]]
    if ids is not None and len(ids) != num_nodes:
        raise ValueError(f"{len(ids)} ids of {num_nodes} nodes")
    if (classes is None) != ("labels" not in by_node):
        raise ValueError("labels without names of their classes")
    if classes is not None and not 0 <= by_node["labels"].min() <= by_node["labels"].max() < len(classes):
        raise ValueError("a label without a class")
    separation = facts["separation"]
    return RunRecord(
        name=str(facts["name"]),
        row=_row(facts["row"]),
        settings={**facts["settings"], "seed": int(facts["settings"].get("seed", 0))},
        graph=_graph(facts["graph"]),
        history=read_history(facts["history"]),
        patches=_patches(facts["patches"]),
        separation=None if separation is None else read_separation(separation),
        vectors=vectors,
        node_ids=ids,
        classes=classes,
        **by_node,
        edges=edges,
        decoder=decoder,
        tensors=arrays,
        command=str(facts["command"]),
        versions={str(name): str(version) for name, version in facts["versions"].items()},
    )


def _row(values: dict[str, Any]) -> dict[str, Any]:
    """A JSON line in which the figures that a page shows are figures."""
    row = dict(values)
    for name in _FIGURES:
        if row.get(name) is not None:
            row[name] = _finite(row[name])
    if "seconds" in row:
        row["seconds"] = {str(stage): _finite(seconds) for stage, seconds in row["seconds"].items()}
    return row


def _finite(value: Any) -> float | int:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < _FARTHEST:
        raise ValueError(f"{value!r} is no figure")
    return value


def _vectors(array: np.ndarray) -> np.ndarray:
    if array.ndim != 2 or array.dtype != np.float32 or 0 in array.shape or not (np.abs(array) < _LARGEST).all():
        raise ValueError(f"vectors of shape {array.shape} and type {array.dtype}")
    return array


def _by_node(array: np.ndarray, num_nodes: int, name: str) -> np.ndarray:
    if array.shape != (num_nodes,) or array.dtype.kind not in "if" or not np.isfinite(array).all():
        raise ValueError(f"{name} of shape {array.shape} and type {array.dtype}")
    return array


def _edges(indptr: np.ndarray, indices: np.ndarray, num_nodes: int) -> sp.csr_array:
    """The upper triangle, if that is what the arrays hold; compiled code would read beyond any others."""
    if any(part.dtype not in (np.int32, np.int64) or part.ndim != 1 for part in (indptr, indices)):
        raise ValueError(f"edges of type {indptr.dtype} and {indices.dtype}")
    if len(indptr) != num_nodes + 1 or indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
        raise ValueError("rows of edges that do not fit")
    rows = np.repeat(np.arange(num_nodes, dtype=np.int64), np.diff(indptr))
    places = rows * num_nodes + indices
    if (indices <= rows).any() or (indices >= num_nodes).any() or (np.diff(places) <= 0).any():
        raise ValueError("edges that are not in order")
    return sp.csr_array((np.ones(len(indices), bool), indices, indptr), shape=(num_nodes, num_nodes))


def _graph(values: dict[str, Any]) -> GraphFacts:
    cleaning = values["cleaning"]
    cleaned = None if cleaning is None else Cleaning(**{name: int(count) for name, count in cleaning.items()})
    return GraphFacts(
        name=str(values["name"]),
        num_nodes=int(values["num_nodes"]),
        num_edges=_count(values["num_edges"]),
        num_features=_count(values["num_features"]),
        weighted=bool(values["weighted"]),
        directed=bool(values["directed"]),
        cleaning=cleaned,
    )


def _count(value: Any) -> int | None:
    return None if value is None else int(value)


def _patches(values: dict[str, Any]) -> PatchFacts:
    sizes, overlaps = ([int(size) for size in values[name]] for name in ("sizes", "overlaps"))
    pairs = [[int(first), int(second)] for first, second in values["pairs"]]
    by_pair, by_patch = ([_finite(value) for value in values[name]] for name in ("pair_residuals", "patch_residuals"))
    fits = len(pairs) == len(overlaps) and len(by_pair) in (0, len(pairs)) and len(by_patch) in (0, len(sizes))
    if not fits or min(sizes) < 1:
        raise ValueError("a patch graph whose parts do not fit")
    if any(not 0 <= patch < len(sizes) for pair in pairs for patch in pair):
        raise ValueError("a pair of patches that are not there")
    before, after = _finite(values["before"]), _finite(values["after"])
    num_joined, final_pass = int(values["num_joined"]), bool(values["final_pass"])
    return PatchFacts(sizes, pairs, overlaps, by_pair, by_patch, before, after, num_joined, final_pass)
