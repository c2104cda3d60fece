"""Charts: files that show what was asked for, and the same every time."""

import re

import pytest

from l2g2g.reports.charts import Chart, Panel, Series, around, count_labels, draw_chart, log_ticks

pytestmark = pytest.mark.slow  # of matplotlib


@pytest.fixture
def chart():
    lines = [
        Series("first", [1, 2, 4], [1, 2, 3], around([1, 2, 3], [0.1, 0.2, 0.1])),
        Series("second", [1, 2], [2, 1], colour=1),
    ]
    dots = [
        Series("first", [0, 1], [3, 4], [(2, 4), (3, 6)], joined=False),
        Series("hollow", [0], [5], joined=False, hollow=True),
    ]
    panels = [Panel("growth", lines, "n", "seconds", "log", "log"), Panel("words", dots, "", "%", ticks=["aa", "bb"])]
    return Chart("both", "Two panels.", panels)


def test_svg_and_png_of_every_panel(chart, tmp_path):
    svg, png = draw_chart(chart, tmp_path)
    text = svg.read_text()
    for word in ("growth", "words", "first", "second", "hollow", "aa", "bb", "seconds"):
        assert f">{word}<" in text
    assert png.stat().st_size > 5000
    before = svg.read_bytes()
    draw_chart(chart, tmp_path)
    assert svg.read_bytes() == before


@pytest.mark.parametrize("panels", [[], [Panel("empty", [Series("s", [], [], [])], "x", "y")]])
def test_a_chart_without_data_says_so(panels, tmp_path):
    svg, _ = draw_chart(Chart("none", "Nothing.", panels), tmp_path)
    text = svg.read_text()
    assert "no results yet" in text
    assert ">empty<" not in text
    assert "xtick" not in text


def test_what_has_no_points_is_left_out(tmp_path):
    full, empty = Series("here", [1, 2], [3, 4]), Series("missing", [], [], [])
    panels = [Panel("filled", [full, empty], "x", "y"), Panel("hollow", [empty], "x", "y")]
    text = draw_chart(Chart("some", "", panels), tmp_path)[0].read_text()
    assert ">filled<" in text
    assert ">here<" in text
    assert ">hollow<" not in text
    assert ">missing<" not in text
    alone = draw_chart(Chart("alone", "", panels[:1]), tmp_path)[0].read_text()
    assert text.count('<g id="axes_') == alone.count('<g id="axes_') == 1


def tick_labels(chart, folder, axis):
    """Texts below or beside the axes of a chart with one panel."""
    text = draw_chart(chart, folder)[0].read_text()
    return re.findall(rf'<g id="{axis}tick_.*?>([^<>\s][^<>]*)</text>', text, re.DOTALL)


def test_counts_have_a_tick_each_and_are_written_alike(tmp_path):
    counts = Panel("", [Series("s", [2, 5, 10], [1, 2, 3])], "", "", counts=True)
    assert tick_labels(Chart("counts", "", [counts]), tmp_path, "x") == ["2", "5", "10"]
    large = Panel("", [Series("s", [64_000, 128_000], [1, 2])], "", "", "log", counts=True)
    assert tick_labels(Chart("large", "", [large]), tmp_path, "x") == ["64 k", "128 k"]
    assert count_labels([999_000, 1_280_000]) == ["999 k", "1,280 k"]
    assert count_labels([500, 16_000]) == ["500", "16,000"]


@pytest.mark.parametrize(("low", "high"), [(0.009, 0.013), (0.012, 0.05), (0.02, 0.5), (1, 1.01), (1e-4, 2000)])
def test_a_logarithmic_axis_has_enough_ticks_and_not_too_many(low, high, tmp_path):
    ticks = log_ticks(low, high)
    assert 4 <= len(ticks) <= 9
    assert all(low <= tick <= high for tick in ticks)
    panel = Panel("", [Series("s", [1, 2], [low, high])], "", "", yscale="log")
    assert len(tick_labels(Chart("log", "", [panel]), tmp_path, "y")) >= 4


def test_the_legend_keeps_the_order_of_the_series(tmp_path):
    bars = Series("bars", [0], [1], [(0, 2)], joined=False)
    text = draw_chart(Chart("order", "", [Panel("", [bars, Series("line", [0], [1])], "", "")]), tmp_path)[
        0
    ].read_text()
    assert text.index(">bars<") < text.index(">line<")
