"""Charts as SVG: well formed, escaped, and with everything at its place."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from l2g2g.reports.figures import Curve, draw_curves, draw_histograms, draw_patch_graph, lay_out, nice_ticks


def parse(text):
    return ET.fromstring(text)


def test_curves_rise_to_the_left_and_fall_to_the_bottom(hostile):
    figure = parse(draw_curves([Curve(hostile, [1, 2, 3], [9, 5, 1])], "epoch", hostile, hostile, marked=2))
    (line,) = figure.iter("polyline")
    points = [tuple(map(float, pair.split(","))) for pair in line.get("points").split()]
    assert points == sorted(points)
    assert [y for _, y in points] == sorted(y for _, y in points)
    (mark,) = [line for line in figure.iter("line") if line.get("class") == "mark"]
    assert float(mark.get("x1")) == points[1][0]
    assert figure.find("figcaption").text == hostile


@pytest.mark.parametrize(("x", "y"), [([1], [2]), ([1, 2], [0.5, 0.5]), ([5, 6], [1e-9, 1e9])])
def test_curves_of_one_point_or_one_value(x, y):
    text = draw_curves([Curve("a", x, y)], "x", "y", "c")
    assert "nan" not in text
    parse(text)


def test_histograms_are_shares_of_their_own_pairs():
    figure = parse(draw_histograms([0.0, 1.0, 2.0], [("a", [1, 3], 0), ("b", [300, 100], 1)], "score", "caption"))
    first, second = figure.iter("polygon")
    heights = [[float(pair.split(",")[1]) for pair in shape.get("points").split()] for shape in (first, second)]
    assert min(heights[0]) == min(heights[1])  # three quarters each
    assert [key.get("class") for key in figure.iter("span")] == ["key c0", "key c1"]


def test_the_patch_graph_names_what_it_shows():
    figure = parse(draw_patch_graph([10, 40], [[0, 1]], [7], [0.5], "two patches"))
    titles = [title.text for title in figure.iter("title")]
    assert titles == ["patches 0 and 1 share 7 nodes, residual 0.5", "patch 0: 10 nodes", "patch 1: 40 nodes"]
    small, large = (float(disc.get("r")) for disc in figure.iter("circle"))
    assert large > small
    unknown = draw_patch_graph([10, 40], [[0, 1]], [7], [], "c")
    assert "residual" not in unknown


def test_joined_nodes_lie_closer():
    pairs = np.array([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]])
    places = lay_out(6, pairs)
    assert places.min() == 0
    assert places.max() == pytest.approx(1)
    distances = np.linalg.norm(places[:, None] - places[None], axis=2)
    assert distances[pairs[:, 0], pairs[:, 1]].mean() < 0.7 * distances[0, 3:].mean()
    assert np.array_equal(lay_out(6, pairs), places)
    assert np.isfinite(lay_out(3, np.empty((0, 2), int))).all()


def test_ticks_are_round_and_inside():
    assert nice_ticks(0, 1) == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert nice_ticks(-3, 12) == [0.0, 5.0, 10.0]
    assert all(0.91 <= tick <= 0.95 and re.fullmatch(r"0\.9\d", f"{tick:g}") for tick in nice_ticks(0.91, 0.95))
