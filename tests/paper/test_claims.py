"""The table of claims: every sentence once, judged by its rule."""

from l2g2g.paper import claims
from l2g2g.paper.claims import CLAIMS
from l2g2g.paper.results import SIZES
from l2g2g.paper.verdicts import Evidence


def test_without_lines_only_what_the_paper_prints_is_judged():
    found = {claim.text: claim.judge(Evidence({})) for claim in CLAIMS}
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
        assert line[1].text == claim.judge(Evidence(rows)).verdict
        assert line[3] == claim.rule != ""
        assert line[4] == claim.where != ""
    missing = ", ".join(name for name in SIZES if name != "cora-ml")
    assert f"without scores here: {missing}." in words


def test_an_edge_count_is_compared_with_the_model_that_the_paper_states(judge):
    found = judge("The block models", "datasets", [])
    assert "sbm-large-sparse 544,950 against 99,231" in found.evidence
    assert "true for 2 of 4" in found.evidence


def test_edges_of_real_graphs_are_counted_once(judge):
    def row(name, num_edges):
        return {"key": name, "cell": {"dataset": name}, "num_edges": num_edges}

    words = "M of Table 2"
    once = [row("cora-ml", SIZES["cora-ml"].num_edges // 2), row("sbm-large", 1)]
    assert judge(words, "datasets", once).verdict == "does not hold"
    assert judge(words, "datasets", [row("cora-ml", SIZES["cora-ml"].num_edges)]).verdict == "holds"
    assert judge(words, "datasets", once[1:]).verdict == "not measured"  # a block model is none
