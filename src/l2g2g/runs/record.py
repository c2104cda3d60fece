"""Record: what is read from a finished training: vectors, scores, curves, patches, edges."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.evaluation.separation import Separation, read_separation
from l2g2g.graphs.adjacency import BACK, FORTH
from l2g2g.graphs.array_folder import decode_text
from l2g2g.graphs.feature_columns import FeatureColumns
from l2g2g.graphs.graph import Cleaning, Graph
from l2g2g.graphs.node_columns import read_embedding_table, read_node_columns
from l2g2g.graphs.node_ids import as_node_ids, find_rows
from l2g2g.graphs.store import read_columns
from l2g2g.methods import METHODS
from l2g2g.models.decoders import read_decoder
from l2g2g.models.decoders.base import Decoder
from l2g2g.runs.artefact import Artefact, list_trainings, open_artefact
from l2g2g.training.state import History, read_history

_FIGURES = ("auc", "ap", "best_auc", "epochs", "peak_memory_bytes")
_FARTHEST = 1e30
_LARGEST = 1e15  # whose square float32 can hold
_BY_NODE = {"degrees": "degrees", "home": "first_patch", "labels": "labels", "residuals": "residuals"}


def read_vector_record(path: Path, training: str | None = None) -> RunRecord:
    """A record of an embedding file, of which nothing is known but its vectors and other columns."""
    if training is not None:
        raise InputError(f"{path}: is an embedding file; --training names a training of a run directory")
    table = read_embedding_table(path)
    num_nodes = len(table.vectors)
    is_numbered = np.array_equal(table.ids, np.arange(num_nodes))
    return RunRecord(
        name=path.name,
        row={},
        settings={},
        graph=GraphFacts(path.name, num_nodes, 0, 0),
        history=History(),
        patches=PatchFacts([num_nodes]),
        separation=None,
        vectors=table.vectors,
        node_ids=None if is_numbered else table.ids,
        columns=table.columns,
    )


def with_table(record: RunRecord, path: Path) -> tuple[RunRecord, int]:
    """The record with the columns of a table of nodes, and how many nodes have a row in it.

    A column replaces one of the same title.
    """
    table, ids = read_node_columns(path), _ids_of(record)
    return replace(record, columns=record.columns | table.by_node(ids)), table.num_matched(ids)


def with_edges(record: RunRecord, graph: Graph) -> RunRecord:
    """The record with the edges and degrees of a graph that has the same nodes, or some of them."""
    ids = np.arange(graph.num_nodes) if graph.node_ids is None else graph.node_ids
    rows = find_rows(ids, _ids_of(record))
    if (rows < 0).all():
        raise InputError(f"{graph.name}: none of its nodes is in {record.graph.name}; give the graph that was embedded")
    arcs = graph.adjacency
    sources = rows[np.repeat(np.arange(graph.num_nodes), np.diff(arcs.indptr))]
    targets = rows[arcs.indices]
    kept = (sources >= 0) & (sources < targets)
    size = (record.num_nodes, record.num_nodes)
    edges = sp.csr_array((np.ones(int(kept.sum()), bool), (sources[kept], targets[kept])), shape=size)
    edges.sum_duplicates()
    edges.sort_indices()
    degrees = np.bincount(edges.indices, minlength=record.num_nodes) + np.diff(edges.indptr)
    facts = replace(record.graph, num_edges=edges.nnz)
    return replace(record, edges=edges, degrees=degrees.astype(np.int32), graph=facts)


def _ids_of(record: RunRecord) -> np.ndarray:
    return np.arange(record.num_nodes) if record.node_ids is None else record.node_ids


@dataclass(frozen=True)
class GraphFacts:
    """What the graph was, and cleaning: what was changed on the way in."""

    name: str
    num_nodes: int
    num_edges: int
    num_features: int
    weighted: bool = False
    directed: bool = False
    cleaning: Cleaning = field(default_factory=Cleaning)


@dataclass(frozen=True)
class PatchFacts:
    """The patch graph.

    Attributes:
        sizes: (num_patches,) nodes of each patch.
        pairs: (num_pairs, 2) joined patches, and overlaps: (num_pairs,) nodes they share.
        pair_residuals: (num_pairs,) root mean square distance of the two copies of a shared node, after alignment.
        patch_residuals: (num_patches,) the same against the mean of all copies. Both may be empty: not measured.
        before, after: over all pairs, before alignment and after it.
        num_joined: Joins between patches with no edge between them.
        final_pass: Whether the final vectors come from a pass over the whole graph and not from the patches.
    """

    sizes: list[int]
    pairs: list[list[int]] = field(default_factory=list)
    overlaps: list[int] = field(default_factory=list)
    pair_residuals: list[float] = field(default_factory=list)
    patch_residuals: list[float] = field(default_factory=list)
    before: float = 0.0
    after: float = 0.0
    num_joined: int = 0
    final_pass: bool = False


def read_graph_facts(values: dict[str, Any]) -> GraphFacts:
    """From plain values; anything else raises KeyError, TypeError or ValueError."""
    return GraphFacts(
        name=str(values["name"]),
        num_nodes=int(values["num_nodes"]),
        num_edges=int(values["num_edges"]),
        num_features=int(values["num_features"]),
        weighted=bool(values["weighted"]),
        directed=bool(values["directed"]),
        cleaning=Cleaning(**{name: int(count) for name, count in values["cleaning"].items()}),
    )


def read_patch_facts(values: dict[str, Any]) -> PatchFacts:
    """From plain values; anything else raises KeyError, TypeError or ValueError."""
    sizes, overlaps = ([int(size) for size in values[name]] for name in ("sizes", "overlaps"))
    pairs = [[int(first), int(second)] for first, second in values["pairs"]]
    by_pair, by_patch = ([finite(value) for value in values[name]] for name in ("pair_residuals", "patch_residuals"))
    fits = len(pairs) == len(overlaps) and len(by_pair) in (0, len(pairs)) and len(by_patch) in (0, len(sizes))
    if not fits or min(sizes) < 1:
        raise ValueError("a patch graph whose parts do not fit")
    if any(not 0 <= patch < len(sizes) for pair in pairs for patch in pair):
        raise ValueError("a pair of patches that are not there")
    before, after = finite(values["before"]), finite(values["after"])
    num_joined, final_pass = int(values["num_joined"]), bool(values["final_pass"])
    return PatchFacts(sizes, pairs, overlaps, by_pair, by_patch, before, after, num_joined, final_pass)


def read_row(values: dict[str, Any]) -> dict[str, Any]:
    """A JSON line in which the figures that a page shows are figures."""
    row = dict(values)
    for name in _FIGURES:
        if row.get(name) is not None:
            row[name] = finite(row[name])
    if row.get("chosen") is not None:
        scores = row["chosen"].get("validation_auc") or {}
        known = {str(name): finite(score) for name, score in scores.items() if score is not None}
        row["chosen"] = {**row["chosen"], "validation_auc": known}
    if "seconds" in row:
        row["seconds"] = {str(stage): finite(seconds) for stage, seconds in row["seconds"].items()}
    return row


def finite(value: Any) -> float | int:
    """A figure; ValueError where it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < _FARTHEST:
        raise ValueError(f"{value!r} is no figure")
    return value


@dataclass(frozen=True, eq=False)
class RunRecord:
    """A finished training as it is kept.

    Attributes:
        name: Of the training in its run: embed, or METHOD-seed-S.
        row: The JSON line that the command printed.
        settings: All settings as they were used.
        vectors: (num_nodes, dim) float32.
        node_ids: (num_nodes,) integers or text; None where a node is its row number.
        classes: Names of the classes; None where there are no labels.
        labels: (num_nodes,) int32 class of each node, -1 where it is not known; None where there are no labels.
        degrees: (num_nodes,) int32.
        home: (num_nodes,) int32, the first patch that holds each node.
        residuals: (num_nodes,) float32, how far the patches disagree about a node; None for one patch.
        edges: (num_nodes, num_nodes) upper triangle of the adjacency as CSR pattern; None where they were too many.
        columns: (num_nodes,) what a table tells about nodes, by title, as in `graphs.node_columns`.
        decoder: Parameters of the decoder by name; empty for inner products.
        command: What was typed, without the folders of the machine.
        versions: Of Python and the packages.
    """

    name: str
    row: dict[str, Any]
    settings: dict[str, Any]
    graph: GraphFacts
    history: History
    patches: PatchFacts
    separation: Separation | None
    vectors: np.ndarray
    degrees: np.ndarray | None = None
    home: np.ndarray | None = None
    node_ids: np.ndarray | None = None
    classes: list[str] | None = None
    labels: np.ndarray | None = None
    residuals: np.ndarray | None = None
    edges: sp.csr_array | None = None
    columns: dict[str, np.ndarray] = field(default_factory=dict)
    decoder: dict[str, np.ndarray] = field(default_factory=dict)
    command: str = ""
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def num_nodes(self) -> int:
        """Number of vectors."""
        return len(self.vectors)

    @property
    def is_run(self) -> bool:
        """Whether this was trained here; otherwise it is a file of vectors, of whatever origin."""
        return bool(self.settings)

    @property
    def is_spectral(self) -> bool:
        """Whether validation preferred eigenvectors of the graph to what was trained in patches."""
        return (self.row.get("chosen") or {}).get("vectors") == "spectral"

    @property
    def has_patches(self) -> bool:
        """Whether the vectors were learned in several patches."""
        return len(self.patches.sizes) > 1 and not self.is_spectral

    @property
    def is_aligned(self) -> bool:
        """Whether patches were moved into one frame: rotated, translated or scaled."""
        method = METHODS.get(str(self.settings.get("method")))
        if method is None or not self.has_patches or method.alignment == "never":
            return False
        shares = self.settings.get("share_encoder")
        moves_by_default = not (method.share_encoder if shares is None else shares)
        given = [self.settings.get(name) for name in ("rotate", "translate")]
        return bool(self.settings.get("scale")) or any(moves_by_default if one is None else one for one in given)

    def label_texts(self) -> np.ndarray | None:
        """(num_nodes,) labels as text in an object array, empty where a class is not known; None without labels."""
        if self.labels is None or self.classes is None:
            return None
        return np.array([*self.classes, ""], dtype=object)[self.labels]  # -1 is the last one

    @property
    def decoder_kind(self) -> str:
        """How pairs are scored: a name in `models.decoders.DECODERS`."""
        return str(self.settings.get("decoder", "inner"))

    def make_decoder(self) -> Decoder:
        """What scores pairs. KeyError, RuntimeError or ValueError where its parameters do not fit."""
        if not all(np.isfinite(value).all() for value in self.decoder.values()):
            raise ValueError("parameters of the decoder that are not finite")
        return read_decoder(self.decoder_kind, self.decoder, self.vectors.shape[1])

    def names(self) -> list[str] | None:
        """Ids as text; None where a node is its row number."""
        return None if self.node_ids is None else [str(node) for node in self.node_ids.tolist()]


def read_record(artefact: Artefact) -> RunRecord:
    """What an artefact tells those who look at it. Raises InputError where anything does not fit."""
    with artefact.explained():
        values, arrays = artefact.values, artefact.arrays
        vectors = read_vectors(artefact)
        num_nodes = len(vectors)
        by_node: dict[str, Any] = {
            name: _by_node(arrays[place], num_nodes, name) for name, place in _BY_NODE.items() if place in arrays
        }
        classes = None if values["classes"] is None else [str(name) for name in values["classes"]]
        if (classes is None) != ("labels" not in by_node):
            raise ValueError("labels without names of their classes")
        if classes is not None and not -1 <= by_node["labels"].min() <= by_node["labels"].max() < len(classes):
            raise ValueError("a label without a class")
        separation = values["separation"]
        record = RunRecord(
            name=str(values["name"]),
            row=read_row(values["row"]),
            settings={**values["config"], "seed": int(values["config"].get("seed", 0))},
            graph=read_graph_facts(values["graph"]),
            history=read_history(values["history"]),
            patches=read_patch_facts(values["patches"]),
            separation=None if separation is None else read_separation(separation),
            vectors=vectors,
            node_ids=read_ids(artefact),
            classes=classes,
            degrees=by_node.get("degrees"),
            home=by_node.get("home"),
            labels=by_node.get("labels"),
            residuals=by_node.get("residuals"),
            edges=read_edges(artefact),
            decoder={name: value.float().numpy() for name, value in artefact.weights_of("model.decoder").items()},
            command=str(values["command"]),
            versions={str(name): str(version) for name, version in values["versions"].items()},
        )
        record.make_decoder()  # refuses what does not fit
        return record


def list_rows(directory: Path) -> list[dict[str, Any]]:
    """The JSON lines of all trainings of a directory, each with its name."""
    rows = []
    for name in list_trainings(directory):
        artefact = open_artefact(directory, name)
        with artefact.explained():
            rows.append({"name": name, **read_row(artefact.values["row"])})
    return rows


def read_vectors(artefact: Artefact) -> np.ndarray:
    """(num_nodes, dim) float32 the published vectors."""
    with artefact.explained():
        array = artefact.arrays["vectors"]
        num_nodes = int(artefact.values["graph"]["num_nodes"])
        if len(array) != num_nodes:
            raise ValueError(f"{len(array)} vectors of {num_nodes} nodes")
        if array.ndim != 2 or array.dtype != np.float32 or 0 in array.shape or not (np.abs(array) < _LARGEST).all():
            raise ValueError(f"vectors of shape {array.shape} and type {array.dtype}")
        return array


def read_ids(artefact: Artefact) -> np.ndarray | None:
    """(num_nodes,) ids; None where a node is its row number."""
    with artefact.explained():
        arrays, num_nodes = artefact.arrays, int(artefact.values["graph"]["num_nodes"])
        if "ids" in arrays:
            ids = arrays["ids"]
            if ids.dtype.kind not in "iu":
                raise ValueError(f"ids of type {ids.dtype}")
        elif "ids_offsets" in arrays:
            offsets, content = arrays["ids_offsets"], arrays["ids_bytes"]
            if offsets.dtype != np.int64 or (np.diff(offsets) < 0).any() or offsets[-1] != len(content):
                raise ValueError("ids that do not fit their text")
            ids = as_node_ids(decode_text(content, offsets).tolist(), artefact.where)
        else:
            return None
        if ids.shape != (num_nodes,):
            raise ValueError(f"{len(ids)} ids of {num_nodes} nodes")
        return ids


def read_columns_of(artefact: Artefact) -> FeatureColumns | None:
    """What the columns of the feature table of the training became, where they were not all plain numbers."""
    with artefact.explained():
        return read_columns(artefact.values, int(artefact.values["graph"]["num_features"]))


def read_edges(artefact: Artefact) -> sp.csr_array | None:
    """The upper triangle of the adjacency as CSR pattern, if that is what the arrays hold; None where none are kept.

    Compiled code would read beyond any others.
    """
    with artefact.explained():
        if "edges_indptr" not in artefact.arrays:
            return None
        indptr, indices = artefact.arrays["edges_indptr"], artefact.arrays["edges_indices"]
        num_nodes = int(artefact.values["graph"]["num_nodes"])
        if any(part.dtype not in (np.int32, np.int64) or part.ndim != 1 for part in (indptr, indices)):
            raise ValueError(f"edges of type {indptr.dtype} and {indices.dtype}")
        if len(indptr) != num_nodes + 1 or indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
            raise ValueError("rows of edges that do not fit")
        rows = np.repeat(np.arange(num_nodes, dtype=np.int64), np.diff(indptr))
        places = rows * num_nodes + indices
        if (indices <= rows).any() or (indices >= num_nodes).any() or (np.diff(places) <= 0).any():
            raise ValueError("edges that are not in order")
        return sp.csr_array((np.ones(len(indices), bool), indices, indptr), shape=(num_nodes, num_nodes))


def read_training_history(artefact: Artefact) -> History:
    """How training went."""
    with artefact.explained():
        return read_history(artefact.values["history"])


def read_known_pairs(artefact: Artefact, *, directed: bool) -> sp.csr_array | None:
    """(num_nodes, num_nodes) CSR pattern of the edges in both directions, or of the arcs; None where none are kept.

    directed: the arcs are wanted, of a graph that was read as directed.
    """
    upper = read_edges(artefact)
    if upper is None:
        return None
    with artefact.explained():
        forth = back = np.ones(upper.nnz, bool)
        if directed:
            directions = artefact.arrays["edge_directions"]
            if directions.shape != forth.shape or directions.dtype != np.uint8:
                raise ValueError("directions that do not fit the edges")
            forth, back = (directions & FORTH) > 0, (directions & BACK) > 0
        rows = np.repeat(np.arange(upper.shape[0]), np.diff(upper.indptr))
        ends = [(rows[forth], upper.indices[forth]), (upper.indices[back], rows[back])]
        sources, targets = (np.concatenate(side) for side in zip(*ends, strict=True))
        known = sp.csr_array((np.ones(len(sources), np.int8), (sources, targets)), shape=upper.shape)
        known.sort_indices()
        return known


def _by_node(array: np.ndarray, num_nodes: int, name: str) -> np.ndarray:
    if array.shape != (num_nodes,) or array.dtype.kind not in "if" or not np.isfinite(array).all():
        raise ValueError(f"{name} of shape {array.shape} and type {array.dtype}")
    return array
