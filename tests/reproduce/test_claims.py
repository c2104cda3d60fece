"""Claims: verdicts follow the lines, whatever they are."""

import pytest

from l2g2g.reproduce import claims, complexity, cuts, patches
from l2g2g.reproduce.claims import CLAIMS, Evidence, Finding
from l2g2g.reproduce.timing import timing_options


def verdicts(evidence):
    return {claim.text: claim.check(evidence) for claim in CLAIMS}


def check(function, rows, study):
    return function(Evidence({study: rows}))


@pytest.mark.parametrize(
    ("holds", "verdict"),
    [
        ({"paper": True, "heldout": True}, "holds"),
        ({"paper": True, "heldout": False}, "holds only under the paper's protocol"),
        ({"paper": False, "heldout": True}, "holds only on held-out links"),
        ({"paper": False, "heldout": False}, "does not hold"),
        ({"": True}, "holds"),
        ({}, "not measured"),
    ],
)
def test_verdicts(holds, verdict):
    assert Finding("", holds).verdict == verdict


def test_without_lines_nothing_is_claimed():
    found = verdicts(Evidence({}))
    assert len(found) == len(CLAIMS) >= 15
    measured = {text for text, finding in found.items() if finding.verdict != "not measured"}
    assert measured == {"The AUC table holds AUC."}  # that is about the printed table alone
    assert found["The AUC table holds AUC."].verdict == "does not hold"


def test_most_experiments_are_more_than_half_and_protocols_count_apart(make_row):
    def rows(protocol, ours):
        scores = {"gae": 0.95, "fastgae": 0.80, "gae+l2g": 0.90, "l2g2g": ours}
        return [
            make_row(dataset, name, protocol=protocol, auc=auc, num_nodes=100_000)
            for dataset in ("a", "b")
            for name, auc in scores.items()
        ]

    both = rows("paper", 0.945) + rows("heldout", 0.85)
    found = check(claims._beats_fast_methods, both, "performance")
    assert found.verdict == "holds only under the paper's protocol"
    assert found.evidence == "paper: on 2 of 2 (a, b); heldout: on 0 of 2 (none)"
    assert check(claims._beats_fastgae, both, "performance").verdict == "holds"
    close = check(claims._close_to_gae, both, "performance")
    assert close.verdict == "holds only under the paper's protocol"
    assert "a -0.50, b -0.50; heldout: a -10.00" in close.evidence
    assert check(claims._beats_gae_when_dense, both, "performance").verdict == "not measured"


def test_a_dense_graph_is_judged_by_the_cut_that_keeps_most(make_row):
    def rows(protocol, well_cut):
        found = [make_row("sbm-large-dense", "gae", protocol=protocol, auc=0.66)]
        for cut, kept, auc in (("FENNEL, 1 pass", 0.1, 0.64), ("METIS", 0.4, well_cut)):
            how = {"protocol": protocol, "options": cuts.CUTS[cut], "kept_edge_fraction": kept}
            found.append(make_row("sbm-large-dense", "l2g2g", auc=auc, **how))
        return found

    found = check(claims._beats_gae_when_dense_and_well_cut, rows("paper", 0.68) + rows("heldout", 0.65), "cuts")
    assert found.verdict == "holds only under the paper's protocol"
    assert "paper: -2.00 (10 %), +2.00 (40 %); heldout: -2.00 (10 %), -1.00 (40 %)" in found.evidence


def test_times(make_row):
    def rows(**epochs):
        options = timing_options(False)
        return [make_row("big", name.replace("l2g2g_", "l2g2g"), options=options, epoch=seconds, num_edges=10**7)
                for name, seconds in epochs.items()]  # fmt: skip

    slow = rows(gae=1.0, fastgae=0.2, l2g2g=0.9)
    assert check(claims._faster_than_gae, slow, "training-time").verdict == "holds"
    assert check(claims._ten_times_faster, slow, "training-time").verdict == "does not hold"
    assert check(claims._ten_times_faster, rows(gae=1.0, l2g2g=0.1), "training-time").verdict == "holds"
    assert check(claims._not_much_slower_than_fastgae, slow, "training-time").verdict == "does not hold"
    assert check(claims._as_fast_as_l2g, slow, "training-time").verdict == "not measured"
    assert check(claims._gae_needs_memory, slow, "training-time").verdict == "does not hold"
    failed = {"key": "x", "cell": {"dataset": "huge", "method": "gae", "preset": "paper"}, "error": "MemoryError"}
    finding = check(claims._gae_needs_memory, [*slow, failed], "training-time")
    assert finding.verdict == "holds"
    assert "failed on: huge" in finding.evidence


def test_patches(make_row):
    rows = [
        make_row("a", name, protocol="heldout", options=patches.options_of("a", count, False), auc=auc)
        for name, scores in {"l2g2g": (0.9, 0.89), "gae+l2g": (0.9, 0.85)}.items()
        for count, auc in zip((2, 10), scores, strict=True)
    ]
    found = check(claims._patches_cost_less, rows, "patches")
    assert found.verdict == "holds"
    assert "a -1.00 and -5.00" in found.evidence


def test_growth(make_row):
    (sweep,) = [sweep for sweep in complexity.sweeps(False) if sweep.name == "n"]
    for exponent, verdict in ((1.0, "holds"), (1.5, "does not hold")):
        rows = [
            make_row(point.dataset, "gae", options=timing_options(False), epoch=1e-6 * point.value**exponent)
            for point in sweep.points
        ]
        found = check(claims._linear_in_size, rows, "complexity")
        assert found.verdict == verdict
        assert f"gae {exponent:.2f}" in found.evidence


def test_block_models_that_do_not_match_are_named():
    def row(name, num_edges):
        return {"key": name, "cell": {"dataset": name}, "num_edges": num_edges}

    found = check(claims._sizes_as_stated, [row("sbm-small", 14_800), row("sbm-large", 1_494_000)], "datasets")
    assert found.verdict == "does not hold"
    assert "on: sbm-small of" in found.evidence
    assert check(claims._sizes_as_stated, [row("sbm-large", 1_494_000)], "datasets").verdict == "holds"
