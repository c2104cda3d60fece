"""Places of nodes are computed once and kept in the run, and are computed again where they would be wrong."""

import numpy as np
import pytest

from l2g2g.reports import layout
from l2g2g.reports.layout import open_layout


@pytest.fixture
def calls(monkeypatch):
    """Projections that were computed, and not read."""
    found = []

    def project(vectors, how, seed=0):
        found.append(how)
        return vectors[:, :2].copy()

    monkeypatch.setattr(layout, "project", project)
    return found


def test_places_are_kept_in_the_run(record, tmp_path, calls):
    first = open_layout(record, tmp_path)
    assert not first.is_cached("tsne")
    places = first.places("tsne")
    assert first.is_cached("tsne")
    again = open_layout(record, tmp_path).places("tsne")
    assert np.array_equal(again, places)
    assert calls == ["tsne"]
    first.places("pca")
    assert len(list((tmp_path / "maps").iterdir())) == 1  # PCA costs less than a file


def test_other_vectors_have_other_places(record, tmp_path, calls):
    open_layout(record, tmp_path).places("tsne")
    moved = layout.Layout(record.vectors + 1, 0, record.name, tmp_path / "maps")
    assert not moved.is_cached("tsne")
    moved.places("tsne")
    assert calls == ["tsne", "tsne"]
    assert len(list((tmp_path / "maps").iterdir())) == 1  # the old ones are of no use


def test_damage_and_places_that_cannot_be_written(record, tmp_path, calls):
    opened = open_layout(record, tmp_path)
    opened.places("tsne")
    (kept,) = (tmp_path / "maps").iterdir()
    kept.write_bytes(b"\x93NUMPY damaged")
    assert not opened.is_cached("tsne")
    np.save(kept, np.full((40, 2), np.nan, np.float32))
    assert not opened.is_cached("tsne")
    (tmp_path / "file").write_text("")
    unwritable = open_layout(record, tmp_path / "file")
    assert unwritable.places("tsne").shape == (40, 2)
    assert open_layout(record, None).places("tsne").shape == (40, 2)  # of a file of vectors nothing is kept
