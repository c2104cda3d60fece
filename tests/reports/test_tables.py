"""Tables: means and deviations over seeds, a dash where nothing was measured."""

import io

import pytest
from rich.console import Console

from l2g2g.reports.tables import render_directions, render_measures


def printed(table):
    console = Console(width=200, file=io.StringIO())
    console.print(table)
    return console.file.getvalue()


@pytest.fixture
def rows():
    shared = {"dataset": "net", "hits@1": 0.1, "hits@10": 0.5, "hits@50": 0.75, "probe_macro_f1": None}
    return [
        {**shared, "method": "gae", "mrr": 0.25, "probe_accuracy": None},
        {**shared, "method": "gae", "mrr": 0.35, "probe_accuracy": None},
        {**shared, "method": "l2g2g", "mrr": 0.5, "probe_accuracy": 0.875},
    ]


def test_measures_in_percent(rows):
    lines = [[cell.strip() for cell in line.split("│")] for line in printed(render_measures(rows)).splitlines()]
    cells = {line[1]: line[2:] for line in lines if len(line) > 2}
    assert cells["gae"][:2] == ["30.00 ± 7.07", "10.00 ± 0.00"]
    assert cells["gae"][4:6] == ["–", "–"]
    assert cells["l2g2g"][:6] == ["50.00", "10.00", "50.00", "75.00", "87.50", "–"]


def test_directions_in_percent():
    rows = [{"dataset": "net", "method": "gae", "auc_joined": 0.9, "auc_direction": 0.75}]
    text = printed(render_directions(rows))
    assert "90.00" in text
    assert "75.00" in text
