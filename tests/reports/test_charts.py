"""Charts: files that show what was asked for, and the same every time."""

import pytest

from l2g2g.reports.charts import Chart, Panel, Series, draw_chart


@pytest.fixture
def chart():
    lines = [Series("first", [1, 2, 4], [1, 2, 3], [0.1, 0.2, 0.1]), Series("second", [1, 2], [2, 1], colour=1)]
    dots = [
        Series("first", [0, 1], [3, 4], [1, 1], joined=False),
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


def test_a_chart_without_data_says_so(tmp_path):
    svg, _ = draw_chart(Chart("none", "Nothing.", []), tmp_path)
    assert "nothing finished yet" in svg.read_text()
