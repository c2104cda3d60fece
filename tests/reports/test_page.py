"""The page as text: self-contained and escaped. In a browser: tests/paper/test_report.py."""

import re

import pytest

from l2g2g.reports.page import DataTable, Document, Entry, Picture, Section, render_page, render_table


@pytest.fixture
def page(tmp_path):
    (tmp_path / "plot.svg").write_text("<svg xmlns='http://www.w3.org/2000/svg'/>")
    table = DataTable("A & B", ["<b>"], [[Entry("<i>", best=True, better=True)]])
    return render_page(Document("T", [Section("s", "S", ["a < b", table, Picture("plot", '"quoted"')])]), tmp_path)


def test_everything_from_data_is_escaped(page):
    assert "a &lt; b" in page
    assert '<button type="button">&lt;b&gt;</button>' in page
    assert '<span class="better"><b>&lt;i&gt;</b></span>' in page
    assert 'alt="&quot;quoted&quot;"' in page


def test_nothing_is_fetched(page):
    assert re.findall(r"(?:src|href)=\"(?!#|data:)[^\"]*\"", page) == []
    assert "@import" not in page
    assert "url(" not in page
    policy = re.search(r"Content-Security-Policy\" content=\"([^\"]*)\"", page)[1]
    assert policy.startswith("default-src 'none';")
    assert "script-src 'sha256-" in policy


def test_columns_have_the_room_that_their_words_need():
    text = render_table(DataTable("", ["a", "b", "c", "d"], [["cora", "x" * 40, "1.5", "x" * 70]], 2, 1))
    assert re.findall(r'<td(?: class="([^"]*)")?>', text) == ["label name stays", "label phrase", "", "label prose"]
    assert "data-label" not in text


def test_rows_of_long_words_name_their_columns():
    text = render_table(DataTable("", ["<claim>", "verdict"], [["x" * 70, "holds"]], 2))
    assert 'class="wide stacked"' in text
    assert re.findall(r'data-label="([^"]*)"', text) == ["&lt;claim&gt;", "verdict"]
    assert "stacked" not in render_table(DataTable("", ["claim", "verdict"], [["short", "holds"]], 2))


def test_it_is_for_phones_and_paper_too(page):
    assert 'name="viewport"' in page
    assert "@media print" in page
