"""Data of the map in the page of a run: places, columns and partners of nodes, encoded in script elements."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from l2g2g.neighbours.factors import ScoreFactors, factors_by, factors_of, keep_best
from l2g2g.reports.layout import MapColumn
from l2g2g.reports.projection import neighbours_kept
from l2g2g.runs.record import RunRecord

NUM_PARTNERS = 10
SHORTLIST = 256  # nodes of the largest inner product, which a learned decoder then ranks
_SCORES_AT_ONCE = 1 << 22
Answers = Literal["inside", "live"]
_LARGEST = 65535
_MAX_NODES_FOR_LISTS = 20_000  # up to this many, partners are computed in advance
_MAX_VECTOR_BYTES = 40_000_000
# The first view excludes this share of the nodes at each end, and nodes farther from the quartiles than this many
# interquartile ranges.
_OUTSIDE, _LONG_TAIL = 0.004, 4
_LINKS_NEED_MORE = "The page cannot hold the vectors that links are scored by; l2g2g explore shows them."
_LINKS_NEED_SERVER = "The page cannot score links by this decoder; l2g2g explore shows them."
_EDGES_UNKNOWN = "The edges of so large a graph were not kept with the run, so links may be known ones."
_NETWORK_NOTE = f"The learned decoder ranks the {SHORTLIST} nodes of the largest inner product."


def has_links(record: RunRecord) -> bool:
    """Whether missing links can be told: of a run, or where the edges of the graph are known."""
    return record.is_run or record.edges is not None


class Partners:
    """Neighbours and missing links of the nodes of a record, as node numbers; -1 where there are fewer than k."""

    def __init__(self, record: RunRecord) -> None:
        self.vectors, self.has_links = record.vectors, has_links(record)
        self.cosine = factors_by(record.vectors, "cosine")
        self.known = None if record.edges is None else sp.csr_array(record.edges + record.edges.T)
        self.decoder = record.make_decoder()
        self.score = factors_of(self.decoder, record.vectors)  # None for a learned decoder
        self.inner = factors_by(record.vectors, "inner")

    def neighbours(self, rows: np.ndarray, k: int = NUM_PARTNERS) -> tuple[np.ndarray, np.ndarray]:
        """(num_rows, k) nearest nodes and (num_rows, k) cosines, the nearest first."""
        return _best(self.cosine, rows, k, None)

    def links(self, rows: np.ndarray, k: int = NUM_PARTNERS) -> tuple[np.ndarray, np.ndarray]:
        """(num_rows, k) most likely partners that are not neighbours in the graph, and their probabilities."""
        if self.score is not None:
            nodes, scores = _best(self.score, rows, k, self.known)
        else:
            nodes, _ = _best(self.inner, rows, SHORTLIST, self.known)
            nodes, scores = self._rank(rows, nodes, k)
        return nodes, (0.5 * (1 + np.tanh(0.5 * scores.astype(np.float64)))).astype(np.float32)

    def _rank(self, rows: np.ndarray, nodes: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        sources, targets = np.repeat(rows, nodes.shape[1]), np.maximum(nodes, 0).ravel()
        scores = self.decoder.score(self.vectors, sources, targets).astype(np.float32).reshape(nodes.shape)
        scores = np.where(nodes >= 0, scores, -np.inf)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(nodes, order, 1), np.take_along_axis(scores, order, 1)


def _best(factors: ScoreFactors, rows: np.ndarray, k: int, known: sp.csr_array | None) -> tuple[np.ndarray, np.ndarray]:
    """The k nodes of the highest scores for each row, neither itself nor known."""
    nodes = np.full((len(rows), k), -1, np.int64)
    scores = np.full((len(rows), k), -np.inf, np.float32)
    at_once = max(1, _SCORES_AT_ONCE // factors.num_nodes)
    for low in range(0, len(rows), at_once):
        here = slice(low, low + at_once)
        block = factors.left[rows[here]] @ factors.right.T
        if known is not None:
            held = sp.csr_array(known[rows[here]])
            block[np.repeat(np.arange(len(block)), np.diff(held.indptr)), held.indices] = -np.inf
        keep_best(block, 0, rows[here], scores[here], nodes[here])
    return nodes, scores + np.float32(factors.bias)


@dataclass(frozen=True, eq=False)
class Block:
    """One array, or JSON values, for the page. kind: the dtype, or json."""

    name: str
    kind: str
    content: bytes

    def render(self) -> str:
        """A script element that browsers do not run; base64 has no character that could end it."""
        packed = base64.b64encode(gzip.compress(self.content, 6, mtime=0)).decode()
        return f'<script type="text/plain" id="block-{self.name}" data-kind="{self.kind}">{packed}</script>'


@dataclass(frozen=True, eq=False)
class MapData:
    """Everything the map needs. facts: small values; blocks: the arrays."""

    facts: dict[str, Any]
    blocks: list[Block]

    def render(self) -> str:
        """All elements; `<` is escaped in the facts."""
        text = json.dumps(self.facts).replace("<", "\\u003c")
        facts = f'<script type="application/json" id="map-facts">{text}</script>'
        return facts + "".join(block.render() for block in self.blocks)


def make_map(
    record: RunRecord,
    places: Mapping[str, np.ndarray | None],
    columns: list[MapColumn],
    answers: Answers = "inside",
) -> MapData:
    """Data of a map.

    places: (num_nodes, 2) of each projection, the one that is shown first of all first; None for one that the server
    will have later. answers: whether neighbours are in the page or come from a server.
    """
    projections: list[dict[str, Any]] = []
    blocks: list[Block] = []
    for name, coordinates in places.items():
        if coordinates is None:
            projections.append({"name": name, "view": None})
            continue
        points, view = quantise_places(coordinates)
        kept = neighbours_kept(record.vectors, coordinates)
        projections.append({"name": name, "view": view, "kept": kept})
        blocks.append(_array(f"points-{name}", points))
    names = record.names()
    if names is not None:
        blocks.append(Block("names", "json", json.dumps(names).encode()))
    for column in columns:
        values = column.values
        blocks.append(_array(column.name, values if values.dtype.kind == "f" else values.astype(np.int32)))
    partners: dict[str, Any] = {"mode": "live"}
    if answers == "inside":
        partners, more = _lists(record) if record.num_nodes <= _MAX_NODES_FOR_LISTS else _vectors(record)
        blocks += more
    partners["links"] = has_links(record)
    if partners["links"] and not record.make_decoder().has_factors:
        partners.setdefault("note", _NETWORK_NOTE)
    if partners["links"] and record.edges is None:
        partners["note"] = _EDGES_UNKNOWN
    facts = {
        "title": record.graph.name,
        "fileName": re.sub(r"[^A-Za-z0-9_-]+", "-", record.graph.name).strip("-") or "graph",
        "numNodes": record.num_nodes,
        "projections": projections,
        "columns": [column.facts() for column in columns],
        "partners": partners,
    }
    return MapData(facts, blocks)


def quantise_places(places: np.ndarray) -> tuple[np.ndarray, list[float]]:
    """(num_nodes, 2) uint16 with one scale for both axes, y downwards; and the view of nearly all of them."""
    places = np.asarray(places, dtype=np.float64) * [1, -1]
    low = places.min(axis=0)
    reach = max(float((places.max(axis=0) - low).max()), 1e-12)
    points = np.round((places - low) * (_LARGEST / reach))
    ends = np.quantile(points, [_OUTSIDE, 0.25, 0.75, 1 - _OUTSIDE], axis=0)
    reach_of_most = _LONG_TAIL * (ends[2] - ends[1])
    left, top = np.maximum(ends[0], ends[1] - reach_of_most)
    right, bottom = np.minimum(ends[3], ends[2] + reach_of_most)
    return points.astype(np.uint16), [float(value) for value in (left, top, right, bottom)]


def quantise_vectors(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(num_nodes, dim) int16, and the (dim,) float32 scale of each column."""
    scales = np.maximum(np.abs(vectors).max(axis=0), 1e-30) / 32767
    return np.round(vectors / scales).astype(np.int16), scales.astype(np.float32)


def lead_columns(vectors: np.ndarray, width: int) -> np.ndarray:
    """(num_nodes, width) coordinates along the leading directions, which preserve inner products best."""
    _, directions = np.linalg.eigh((vectors.T @ vectors).astype(np.float64))
    return vectors @ directions[:, ::-1][:, :width].astype(np.float32)


def _lists(record: RunRecord) -> tuple[dict[str, Any], list[Block]]:
    partners, rows = Partners(record), np.arange(record.num_nodes)
    blocks = []
    found = {"neighbours": partners.neighbours(rows)} | ({"links": partners.links(rows)} if has_links(record) else {})
    for kind, (nodes, values) in found.items():
        blocks += [_array(f"{kind}-rows", nodes.astype(np.int32)), _array(f"{kind}-values", values.astype(np.float32))]
    return {"mode": "lists"}, blocks


def _vectors(record: RunRecord) -> tuple[dict[str, Any], list[Block]]:
    vectors = record.vectors
    width = max(2, min(vectors.shape[1], _MAX_VECTOR_BYTES // (2 * len(vectors))))
    decoder = record.make_decoder()
    described = {"ranksPairs": not decoder.has_factors, **decoder.page_facts()}
    partners: dict[str, Any] = {"mode": "vectors", "decoder": described}
    if not has_links(record):
        partners["decoder"] = None
    elif decoder.page_score is None:
        partners |= {"decoder": None, "missing": _LINKS_NEED_SERVER}
    blocks = []
    if width < vectors.shape[1]:
        partners["note"] = f"Found by the {width} leading directions of the {vectors.shape[1]} dimensions."
        vectors = lead_columns(vectors, width)
        if decoder.sees_rotation and partners["decoder"]:  # the leading directions are rotated coordinates
            partners |= {"decoder": None, "missing": _LINKS_NEED_MORE}
    stored, scales = quantise_vectors(vectors)
    blocks += [_array("vectors", stored), _array("vector-scales", scales)]
    if record.edges is not None and partners["decoder"] is not None:
        # Differences of consecutive numbers are small and compress well.
        steps = np.diff(record.edges.indices.astype(np.int32), prepend=np.int32(0))
        blocks += [_array("edge-starts", record.edges.indptr.astype(np.int32)), _array("edge-ends", steps)]
    weights = decoder.page_weights()
    if weights is not None and partners["decoder"] is not None:
        blocks.append(_array("decoder", weights))
    return partners, blocks


def _array(name: str, array: np.ndarray) -> Block:
    return Block(name, str(array.dtype), np.ascontiguousarray(array).tobytes())
