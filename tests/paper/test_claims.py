"""Claims: one line each, and verdicts that say no more than was measured."""

import pytest

from l2g2g.paper import claims
from l2g2g.paper.claims import CLAIMS
from l2g2g.paper.evidence import Evidence, Finding, on_almost_all, on_most
from l2g2g.paper.paper_numbers import SIZES


@pytest.mark.parametrize(
    ("holds", "verdict"),
    [
        ({"paper": True, "heldout": True}, "holds"),
        ({"paper": True, "heldout": False}, "holds only under the paper's protocol"),
        ({"paper": False, "heldout": True}, "holds only on held-out links"),
        ({"paper": False, "heldout": False}, "does not hold"),
        ({"paper": True}, "holds under the paper's protocol (not measured on held-out links)"),
        ({"heldout": False}, "does not hold on held-out links (not measured under the paper's protocol)"),
        ({"": True}, "holds"),
        ({"": False}, "does not hold"),
        ({}, "not measured"),
    ],
)
def test_verdicts(holds, verdict):
    assert Finding("", holds).verdict == verdict
    assert Finding("", word="no clear difference").verdict == "no clear difference"


def test_most_is_more_than_half_and_almost_all_is_all_but_one():
    assert [on_most([True] * yes + [False] * (4 - yes)) for yes in range(5)] == [False, False, False, True, True]
    assert [on_almost_all([True] * yes + [False] * (4 - yes)) for yes in range(5)] == [False] * 3 + [True] * 2
    assert not on_almost_all([False])
    assert not on_almost_all([True, False])


def test_without_lines_only_what_the_paper_prints_is_judged():
    found = {claim.text: claim.check(Evidence({})) for claim in CLAIMS}
    assert len(found) == len(CLAIMS)  # none twice
    measured = {text: finding for text, finding in found.items() if finding.verdict != "not measured"}
    assert set(measured) == {
        "The AUC table holds AUC.",
        "The block models have the stated parameters and Table 2's edges.",
    }
    assert {finding.verdict for finding in measured.values()} == {"does not hold"}
    assert all(finding.evidence for finding in found.values())


def test_the_verdict_stands_beside_the_claim_and_its_rule_is_shown(make_row):
    rows = {"performance": [make_row("cora-ml", "gae"), make_row("cora", "gae", options={"epochs": 1})]}
    words, table = claims.present(Evidence(rows))
    assert table.columns == ["claim", "verdict", "evidence", "rule", "where"]
    for claim, line in zip(CLAIMS, table.rows, strict=True):
        assert line[0] == claim.text
        assert line[1].text == claim.check(Evidence(rows)).verdict
        assert line[3] == claim.rule != ""
        assert line[4] == claim.place != ""
    missing = ", ".join(name for name in SIZES if name != "cora-ml")
    assert f"without scores here: {missing}." in words


def test_an_edge_count_is_compared_with_the_model_that_the_paper_states(judge):
    found = judge("The block models", "datasets", [])
    assert "sbm-large-sparse 544,950 against 99,231" in found.evidence
    assert found.evidence.endswith("differ: sbm-small, sbm-large-sparse")


def test_edges_of_real_graphs_are_counted_once(judge):
    def row(name, num_edges):
        return {"key": name, "cell": {"dataset": name}, "num_edges": num_edges}

    words = "M of Table 2"
    once = [row("cora-ml", SIZES["cora-ml"].num_edges // 2), row("sbm-large", 1)]
    assert judge(words, "datasets", once).verdict == "does not hold"
    assert judge(words, "datasets", [row("cora-ml", SIZES["cora-ml"].num_edges)]).verdict == "holds"
    assert judge(words, "datasets", once[1:]).verdict == "not measured"  # a block model is none
