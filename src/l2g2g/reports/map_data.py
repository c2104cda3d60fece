"""Data of the map in the page of a run: quantised, compressed, and encoded as text in script elements."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from l2g2g.reports.explore_server import SHORTLIST, Partners, has_links
from l2g2g.reports.layout import MapColumn
from l2g2g.reports.projection import neighbours_kept
from l2g2g.runs.record import RunRecord

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
    blocks += [_array(column.name, _for_page(column.values)) for column in columns]
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


def _for_page(values: np.ndarray) -> np.ndarray:
    return values if values.dtype.kind == "f" else values.astype(np.int32)


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
