"""The table of data sets: both counts, and a reason for every difference."""

from l2g2g.reproduce import datasets_table
from l2g2g.reproduce.cells import GraphCell, run_cell
from l2g2g.reproduce.study import Choice


def lines(**counts):
    rows = [
        {"cell": {"dataset": name}, "num_nodes": 1, "num_edges": count, "num_features": 1}
        for name, count in counts.items()
    ]
    table, *_ = datasets_table.present(rows, quick=False)
    return {row[0]: row for row in table.rows}


def test_differences_are_explained_by_the_counts():
    found = lines(**{"cora-ml": 8158, "sbm-small": 14_776, "sbm-large": 1_494_000, "cora": 5, "mine": 3})
    assert found["cora-ml"][3:5] == ["16,316", "8,158"]
    assert found["cora-ml"][-1] == "The paper counts both directions of every edge."
    assert "stated" in found["sbm-small"][-1]
    assert "another draw" in found["sbm-large"][-1]
    assert found["cora"][-1] == "Unexplained."
    assert found["mine"][-1] == "not in the paper"


def test_stand_ins_are_called_stand_ins():
    assert lines(**{"yelp-like": 6_977_409})["yelp-like"][-1].startswith("Stand-in of the size of yelp")


def test_a_graph_is_counted(planted):
    (cell, *_) = datasets_table.plan(Choice(("tiny",)))
    assert cell == GraphCell("tiny")
    line = run_cell(cell, {"tiny": planted}.__getitem__)
    assert (line["num_nodes"], line["num_edges"], line["num_features"]) == (120, planted.num_edges, 4)
    assert cell.is_answered_by(line)
    assert not GraphCell("other").is_answered_by(line)
    assert "error" in run_cell(GraphCell("other"), {}.__getitem__)
