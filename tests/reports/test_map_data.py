"""What the page carries for its map: few bits that say the same, and no letter that ends a script."""

import base64
import gzip
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from l2g2g.reports import map_data
from l2g2g.reports.layout import make_columns
from l2g2g.reports.map_data import lead_columns, make_map, quantise_places, quantise_vectors


def contents(data):
    """Blocks by name, unpacked as the page does it."""
    found = {}
    pattern = r'<script type="text/plain" id="block-([a-z-]+)" data-kind="(\w+)">([A-Za-z0-9+/=]*)</script>'
    for name, kind, text in re.findall(pattern, data.render()):
        raw = gzip.decompress(base64.b64decode(text))
        found[name] = json.loads(raw) if kind == "json" else np.frombuffer(raw, kind)
    return found


@pytest.fixture
def places(record):
    return {"pca": record.vectors[:, :2]}


def test_places_keep_their_proportions():
    points, view = quantise_places(np.array([[0.0, 0.0], [4.0, 1.0], [2.0, -1.0]]))
    assert points.tolist() == [[0, 16384], [65535, 0], [32768, 32768]]  # y downwards
    assert points.dtype == np.uint16
    left, top, right, bottom = view
    assert left < right
    assert top < bottom
    assert quantise_places(np.zeros((3, 2)))[0].tolist() == [[0, 0]] * 3


def test_vectors_come_back_to_four_digits(record):
    stored, scales = quantise_vectors(record.vectors)
    assert stored.dtype == np.int16
    assert np.abs(stored * scales - record.vectors).max() <= 0.51 * scales.max()


def test_leading_columns_keep_inner_products(record):
    flat = record.vectors.copy()
    flat[:, 4:] = 0
    kept = lead_columns(flat, 4)
    assert kept.shape == (40, 4)
    assert np.allclose(kept @ kept.T, flat @ flat.T, atol=1e-4)


def test_lists_for_few_nodes(record, places):
    data = make_map(record, places, make_columns(record))
    found = contents(data)
    assert found["names"] == record.names()
    assert np.array_equal(found["degree"], record.degrees)
    assert found["neighbours-rows"].reshape(40, 10)[3].min() >= 0
    assert data.facts["partners"]["mode"] == "lists"
    assert [column["name"] for column in data.facts["columns"]] == ["label", "patch", "degree", "residual"]


def test_vectors_and_edges_for_many(record, places, monkeypatch):
    monkeypatch.setattr(map_data, "_MAX_NODES_FOR_LISTS", 0)
    found = contents(make_map(record, places, make_columns(record)))
    assert np.array_equal(np.cumsum(found["edge-ends"]), record.edges.indices)
    assert np.array_equal(found["edge-starts"], record.edges.indptr)
    assert found["vectors"].shape == (240,)
    monkeypatch.setattr(map_data, "_MAX_VECTOR_BYTES", 40 * 2 * 3)
    fewer = make_map(record, places, make_columns(record))
    assert contents(fewer)["vectors"].shape == (120,)
    assert fewer.facts["partners"]["note"] == "Found by the 3 leading directions of the 6 dimensions."


def test_what_cannot_be_scored_from_fewer_columns_is_said(with_decoder, places, monkeypatch):
    monkeypatch.setattr(map_data, "_MAX_NODES_FOR_LISTS", 0)
    monkeypatch.setattr(map_data, "_MAX_VECTOR_BYTES", 40 * 2 * 3)
    partners = make_map(with_decoder("product"), places, []).facts["partners"]
    assert partners["decoder"] is None
    assert "l2g2g explore" in partners["missing"]


def test_live_pages_carry_no_vectors(record, places):
    data = make_map(record, places, [], "live")
    assert data.facts["partners"] == {"mode": "live", "links": True}
    assert not [name for name in contents(data) if name.startswith(("vectors", "neighbours", "edge"))]


def test_little_is_enough(record, places):
    bare = replace(record, **dict.fromkeys(("degrees", "home", "node_ids", "classes", "labels", "residuals", "edges")))
    data = make_map(bare, places, make_columns(bare))
    assert data.facts["columns"] == []
    assert "may be known ones" in data.facts["partners"]["note"]
    assert "names" not in contents(data)


def test_nothing_from_data_begins_a_tag(record, places, hostile):
    text = make_map(record, places, make_columns(record)).render()
    assert hostile not in text
    assert not re.search(r"<(?!/?script)", text)
    facts = re.search(r'id="map-facts">(.*?)</script>', text)[1]
    assert hostile in json.loads(facts)["columns"][0]["classes"]
    assert json.loads(facts)["fileName"].replace("-", "").isalnum()
