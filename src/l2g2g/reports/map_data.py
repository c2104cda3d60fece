"""Map data: what the page of a run carries for its map, in few bits, compressed, and as text that ends no script."""

from __future__ import annotations

import base64
import gzip
import json
import re
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from l2g2g.reports.partners import SHORTLIST, Partners
from l2g2g.runs.record import RunRecord

Answers = Literal["inside", "live"]
_LARGEST = 65535
_MOST_FOR_LISTS = 20_000  # nodes whose partners are found beforehand
_MOST_VECTOR_BYTES = 40_000_000
# The first view leaves this share of the nodes outside on each side, and more where a few lie very far away: beyond so
# many times the width of the middle half.
_OUTSIDE, _LONG_TAIL = 0.004, 4
_LINKS_NEED_MORE = "The page cannot hold the vectors that links are scored by; l2g2g explore shows them."
_LINKS_NEED_SERVER = "The page cannot score links by this decoder; l2g2g explore shows them."
_EDGES_UNKNOWN = "The edges of so large a graph were not kept with the run, so links may be known ones."
_NETWORK_NOTE = f"The learned decoder ranks the {SHORTLIST} nodes of the largest inner product."


@dataclass(frozen=True, eq=False)
class Block:
    """One array, or plain values, for the page. kind: type of the numbers, or json."""

    name: str
    kind: str
    content: bytes

    def render(self) -> str:
        """As an element that no browser runs. Base64 has no letter that could end it."""
        packed = base64.b64encode(gzip.compress(self.content, 6, mtime=0)).decode()
        return f'<script type="text/plain" id="block-{self.name}" data-kind="{self.kind}">{packed}</script>'


@dataclass(frozen=True, eq=False)
class MapData:
    """facts: small values the script reads first. blocks: the arrays."""

    facts: dict[str, Any]
    blocks: list[Block]

    def render(self) -> str:
        """All elements. In the facts no letter begins a tag."""
        text = json.dumps(self.facts).replace("<", "\\u003c")
        facts = f'<script type="application/json" id="map-facts">{text}</script>'
        return facts + "".join(block.render() for block in self.blocks)


def make_map(record: RunRecord, places: np.ndarray, answers: Answers = "inside") -> MapData:
    """places: (num_nodes, 2). answers: neighbours come with the page, or live from a server."""
    points, view = quantise_places(places)
    blocks = [_array("points", points)]
    names = record.names()
    if names is not None:
        blocks.append(Block("names", "json", json.dumps(names).encode()))
    columns, values = _columns(record)
    blocks += [_array(name, array) for name, array in values.items()]
    partners: dict[str, Any] = {"mode": "live"}
    if answers == "inside":
        partners, more = _lists(record) if record.num_nodes <= _MOST_FOR_LISTS else _vectors(record)
        blocks += more
    if not record.make_decoder().has_factors:
        partners.setdefault("note", _NETWORK_NOTE)
    if record.edges is None:
        partners["note"] = _EDGES_UNKNOWN
    facts = {
        "title": record.graph.name,
        "fileName": re.sub(r"[^A-Za-z0-9_-]+", "-", record.graph.name).strip("-") or "graph",
        "numNodes": record.num_nodes,
        "view": view,
        "columns": columns,
        "partners": partners,
    }
    return MapData(facts, blocks)


def quantise_places(places: np.ndarray) -> tuple[np.ndarray, list[float]]:
    """(num_nodes, 2) uint16 with one scale for both axes, y downwards; and the view that holds nearly all of them."""
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
    """(num_nodes, dim) int16 and the (dim,) float32 by which each column is multiplied to have its numbers back."""
    scales = np.maximum(np.abs(vectors).max(axis=0), 1e-30) / 32767
    return np.round(vectors / scales).astype(np.int16), scales.astype(np.float32)


def lead_columns(vectors: np.ndarray, width: int) -> np.ndarray:
    """The (num_nodes, width) columns that keep inner products best: along the leading directions of the vectors."""
    _, directions = np.linalg.eigh((vectors.T @ vectors).astype(np.float64))
    return vectors @ directions[:, ::-1][:, :width].astype(np.float32)


def _columns(record: RunRecord) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
    """What nodes can be coloured by and are described by, and its values."""
    columns: list[dict[str, Any]] = []
    values: dict[str, np.ndarray] = {}
    if record.labels is not None:
        columns.append({"name": "label", "title": "Label", "classes": record.classes})
        values["label"] = record.labels.astype(np.int32)
    if record.home is not None and len(record.patches.sizes) > 1:
        classes = [f"patch {number}" for number in range(len(record.patches.sizes))]
        columns.append({"name": "patch", "title": "Patch", "classes": classes})
        values["patch"] = record.home.astype(np.int32)
    if record.degrees is not None:
        columns.append({"name": "degree", "title": "Degree", "logarithmic": True})
        values["degree"] = record.degrees.astype(np.int32)
    if record.residuals is not None:
        columns.append({"name": "residual", "title": "Residual", "logarithmic": False})
        values["residual"] = record.residuals.astype(np.float32)
    return columns, values


def _lists(record: RunRecord) -> tuple[dict[str, Any], list[Block]]:
    partners, rows = Partners(record), np.arange(record.num_nodes)
    blocks = []
    for kind, (nodes, values) in (("neighbours", partners.neighbours(rows)), ("links", partners.links(rows))):
        blocks += [_array(f"{kind}-rows", nodes.astype(np.int32)), _array(f"{kind}-values", values.astype(np.float32))]
    return {"mode": "lists"}, blocks


def _vectors(record: RunRecord) -> tuple[dict[str, Any], list[Block]]:
    vectors = record.vectors
    width = max(2, min(vectors.shape[1], _MOST_VECTOR_BYTES // (2 * len(vectors))))
    decoder = record.make_decoder()
    described = {"ranksPairs": not decoder.has_factors, **decoder.page_facts()}
    partners: dict[str, Any] = {"mode": "vectors", "decoder": described}
    if decoder.page_score is None:
        partners |= {"decoder": None, "missing": _LINKS_NEED_SERVER}
    blocks = []
    if width < vectors.shape[1]:
        partners["note"] = f"Found by the {width} leading directions of the {vectors.shape[1]} dimensions."
        vectors = lead_columns(vectors, width)
        if decoder.sees_rotation:  # the leading directions are rotated coordinates
            partners |= {"decoder": None, "missing": _LINKS_NEED_MORE}
    stored, scales = quantise_vectors(vectors)
    blocks += [_array("vectors", stored), _array("vector-scales", scales)]
    if record.edges is not None and partners["decoder"] is not None:
        # Steps from one number to the next are small, and so is what they are packed into.
        steps = np.diff(record.edges.indices.astype(np.int32), prepend=np.int32(0))
        blocks += [_array("edge-starts", record.edges.indptr.astype(np.int32)), _array("edge-ends", steps)]
    weights = decoder.page_weights()
    if weights is not None and partners["decoder"] is not None:
        blocks.append(_array("decoder", weights))
    return partners, blocks


def _array(name: str, array: np.ndarray) -> Block:
    return Block(name, str(array.dtype), np.ascontiguousarray(array).tobytes())
