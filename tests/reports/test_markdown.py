"""Markdown: every block, and nothing from data that would be more than text."""

from l2g2g.reports.charts import Chart
from l2g2g.reports.page import Code, DataTable, Document, Entry, Picture, Section
from l2g2g.reports.tables import render_markdown


def test_words_stand_left_and_figures_right():
    table = DataTable("", ["a", "b", "c", "d"], [], num_labels=2, num_notes=1)
    assert [table.is_words(column) for column in range(4)] == [True, True, False, True]
    assert "| --- | --- | --: | --- |" in render_markdown(Document("", [Section("s", "", [table])]), "")


def test_columns_of_dashes_are_left_out_and_words_stay():
    rows = [["x", "–", "1", Entry("–"), "–"], ["y", Entry("–"), "–", "–", "–"]]
    table = DataTable("", ["a", "b", "c", "d", "e"], rows, num_notes=1)
    assert table.trimmed().columns == ["a", "c", "e"]
    assert table.trimmed().rows == [["x", "1", "–"], ["y", "–", "–"]]
    assert DataTable("", ["a", "b"], []).trimmed().columns == ["a", "b"]


def test_all_figures_are_counted():
    chart, picture = Chart("one", "", []), Picture("two", "")
    document = Document("", [Section("s", "", ["words", chart]), Section("t", "", [picture])])
    assert document.figures() == [chart, picture]
    assert document.charts() == [chart]


def test_all_blocks():
    table = DataTable(
        "Scores.", ["name", "AUC"], [["a|b", Entry("91.2", best=True, better=True)], ["<i>", Entry("3", better=True)]]
    )
    blocks = ["words *here*", table, Chart("one", "A chart.", []), Picture("two", "A picture."), Code("l2g2g x")]
    text = render_markdown(Document("Title", [Section("s", "First", blocks)]), "pictures")
    assert text == (
        "# Title\n\n## First\n\nwords \\*here\\*\n\n"
        "Scores.\n\n| name | AUC |\n| --- | --: |\n| a\\|b | <u>**91.2**</u> |\n| \\<i\\> | <u>3</u> |\n\n"
        "![A chart.](pictures/one.svg)\n\n![A picture.](pictures/two.svg)\n\n"
        "<!-- not run: what was run for this report -->\n```bash\nl2g2g x\n```\n"
    )
