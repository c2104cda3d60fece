"""Dots: every label and graph is on the figure, and the same differences give the same file."""

import pytest

from l2g2g.reports.charts import DotGroup, DotRow, plot_differences

GROUPS = [
    DotGroup("first (0 = base)", [DotRow("mask: none", {"a": (-0.4, 0.1), "b": (12.0, 3.0)}), DotRow("skip: no", {})]),
    DotGroup("second", [DotRow("pairs: inside", {"b": (-30.0, 0.0)})]),
]


@pytest.mark.slow
def test_a_figure_says_what_it_shows_and_repeats_itself(tmp_path):
    paths = [tmp_path / "one.svg", tmp_path / "two.svg", tmp_path / "one.png"]
    plot_differences(GROUPS, [paths[0], paths[2]], xlabel="points", title="What matters")
    plot_differences(GROUPS, [paths[1]], xlabel="points", title="What matters")
    text = paths[0].read_text()
    for label in ("first (0 = base)", "second", "mask: none", "skip: no", "pairs: inside", "points", "What matters"):
        assert f">{label}</text>" in text
    for graph in ("a", "b"):
        assert f">{graph}</text>" in text
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert paths[2].read_bytes().startswith(b"\x89PNG")
