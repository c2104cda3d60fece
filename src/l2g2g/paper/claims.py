"""Claims: what the paper says, whether it holds, and the evidence of the stored lines."""

from __future__ import annotations

from l2g2g.paper import accuracy_claims, growth_claims, patch_claims, performance, printed_claims, time_claims
from l2g2g.paper.evidence import Evidence
from l2g2g.paper.paper_numbers import SIZES
from l2g2g.paper.results import datasets_in, pick
from l2g2g.reports.document import Block, DataTable, Entry

TITLE = "Claims"
CLAIMS = [
    *accuracy_claims.CLAIMS,
    *patch_claims.CLAIMS,
    *time_claims.CLAIMS,
    *growth_claims.CLAIMS,
    *printed_claims.CLAIMS,
]


def present(evidence: Evidence) -> list[Block]:
    """One line for each claim."""
    entries: list[list[str | Entry]] = []
    for claim in CLAIMS:
        finding = claim.check(evidence)
        entries.append([claim.text, Entry(finding.verdict, best=True), finding.evidence, claim.rule, claim.place])
    scored = datasets_in(pick(evidence.of("performance"), options=performance.options_of(evidence.quick)))
    missing = ", ".join(name for name in SIZES if name not in scored)
    return [
        "Each claim of the paper in one line: the verdict, what was measured here, and the rule by which the verdict "
        "follows. L2G2G, GAE, FastGAE and GAE+L2G are the paper preset. Scores are compared on the seeds that all "
        "compared methods have, under the paper's protocol (paper) and on held-out links (heldout); differences are in "
        "points, ± their standard error, and one is clearly above 0 where it is more than two of them (one seed has "
        "no error: more than 0). Stand-ins never count for accuracy, and other graphs that the paper does not have "
        "only in the ablation; for time and memory stand-ins count, because only the size matters there. The paper's "
        "times are those of a V100, these of the processor named at the end. The paper's graphs without scores here: "
        f"{missing or 'none'}.",
        DataTable("The paper's claims.", ["claim", "verdict", "evidence", "rule", "where"], entries, num_labels=5),
    ]
