"""The table of data sets: both counts, and a reason for every difference."""

from l2g2g.paper import datasets_table
from l2g2g.paper.cells import GraphCell, run_cell
from l2g2g.paper.results import SIZES
from l2g2g.paper.study import Choice


def present(**counts):
    rows = [
        {"cell": {"dataset": name}, "num_nodes": 1, "num_edges": count, "num_features": 1}
        for name, count in counts.items()
    ]
    return datasets_table.present(rows, quick=False)


def lines(**counts):
    return {row[0]: row for row in present(**counts)[0].rows}


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


def test_a_difference_that_rounds_to_nothing_has_no_sign():
    (line,) = lines(**{"sbm-large": SIZES["sbm-large"].num_edges - 1}).values()
    assert line[-1] == "0.00 %: another draw of the same model."


def test_only_what_is_missing_is_said_to_be_missing():
    everything = dict.fromkeys(SIZES, 1)
    assert len(present(**everything)) == 1
    _, words = present(**{name: 1 for name in everything if name != "yelp"}, **{"reddit-like": 1})
    assert words == "Not counted here: yelp (read from their published files)."
    _, words = present(**{name: 1 for name in everything if name not in ("cora", "reddit")}, **{"reddit-like": 1})
    assert "cora, reddit (read from their published files)." in words
    assert "reddit-like is a generated stand-in of the size of reddit" in words
    assert "yelp" not in words
    _, words = present(cora=1, reddit=1, yelp=1, **{"cora-ml": 1})
    assert words.endswith("sbm-large-dense (generated).")
    failed = {"cell": {"dataset": "cora"}, "error": "no such file"}
    assert "cora" in datasets_table.present([failed], quick=False)[1]


def test_a_graph_is_counted(planted):
    (cell, *_) = datasets_table.plan(Choice(("tiny",)))
    assert cell == GraphCell("tiny")
    line = run_cell(cell, {"tiny": planted}.__getitem__)
    assert (line["num_nodes"], line["num_edges"], line["num_features"]) == (120, planted.num_edges, 4)
    assert cell.is_answered_by(line)
    assert not GraphCell("other").is_answered_by(line)
    assert "error" in run_cell(GraphCell("other"), {}.__getitem__)
