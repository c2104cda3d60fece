"""The paper's claims: one table of sentences and the rules that judge them, and its section of the report."""

from __future__ import annotations

import math
from functools import partial

from l2g2g.paper import ablation, performance
from l2g2g.paper import measurements as measure
from l2g2g.paper.measurements import is_huge, is_small
from l2g2g.paper.results import SCORES, SIZES, datasets_in, pick
from l2g2g.paper.verdicts import ALL, ALMOST_ALL, ANY, METHODS, NAMED, ONE, Claim, Evidence, Graphs, Test
from l2g2g.reports.page import Block, DataTable, Entry

TITLE = "Claims"


# --- tests of one value ---------------------------------------------------------------------------------


def _below(limit: float) -> Test:
    return Test(f"below {limit:g}", lambda value: float(value) < limit)


def _at_most(limit: float) -> Test:
    return Test(f"at most {limit:g}", lambda value: float(value) <= limit)


def _above(limit: float, unit: str = "") -> Test:
    return Test(f"above {limit:g}{unit}", lambda value: float(value) > limit)


def _at_least(limit: float) -> Test:
    return Test(f"at least {limit:g}", lambda value: float(value) >= limit)


def _is_positive(words: str) -> Test:
    """Test a difference; words: what a positive one means."""
    return Test(words, lambda value: float(value) > 0)


_CLEARLY_ABOVE_0 = Test("clearly above 0", lambda gap: gap.mean > 2 * gap.error)
_WITHIN_5_PERCENT = Test("within 5 % of the printed number", lambda difference: abs(float(difference)) <= 0.05)
_CLEAR_EFFECT = _is_positive(
    "a clear gain: more than 0.2 points and two standard errors, and no graph the other way, in the ablation of the "
    f"paper's variant (preset default with the paper's choice of {len(ablation.FACTORS)} factors, {ablation.EPOCHS} "
    "epochs, held-out links)"
)
_NOT_TESTED = Test("–", bool)

# --- graphs: medium are those between the two lines of Table 3 --------------------------------------------

_SMALL = Graphs("graphs below 100,000 nodes", is_small)
_MEDIUM_AND_LARGE = Graphs("graphs of 100,000 nodes or more", lambda row: not is_small(row))
_HUGE = Graphs("graphs of a million edges or more", is_huge)


def _named(*names: str) -> Graphs:
    return Graphs(" and ".join(names), lambda row: row["cell"]["dataset"] in names)


_TWO_SMALLER = _named("cora-ml", "sbm-small")
_LARGER = Graphs("graphs but cora-ml and sbm-small", lambda row: not _TWO_SMALLER.includes(row))
_DENSE, _YELP = _named("sbm-large-dense"), _named("yelp", "yelp-like")

# --- quantities used more than once -----------------------------------------------------------------------

_MINUS_GAE = partial(measure.score_gap, others=("gae",))
_MINUS_FASTGAE = partial(measure.score_gap, others=("fastgae",))
_MINUS_GAE_L2G = partial(measure.score_gap, others=("gae+l2g",))
_MINUS_FAST = partial(measure.score_gap, others=("fastgae", "gae+l2g"))
_MINUS_ALL = partial(measure.score_gap, others=("gae", "fastgae", "gae+l2g"))
_TIMES_GAE = partial(measure.epoch_ratio, other="gae")
_REDDIT = ", ".join(
    f"{score.upper()} {own['reddit']['l2g2g'][0] - own['reddit']['gae'][0]:+.2f}" for score, own in SCORES.items()
)
_MINUS_GAE_ON_REDDIT = partial(
    _MINUS_GAE,
    missing=f"no scores of reddit, and a stand-in does not count; as printed L2G2G minus GAE: {_REDDIT}",
)

# fmt: off
# Sentence, place in the paper, study; the quantity, the test of one value, how many values must pass, which graphs.
CLAIMS = [
    Claim("L2G2G outperforms both FastGAE and GAE+L2G on most experiments (AUC).", "Table 3", "performance",
          _MINUS_FAST, _CLEARLY_ABOVE_0),
    Claim("L2G2G outperforms both FastGAE and GAE+L2G on most experiments (AP).", "Table 3", "performance",
          partial(_MINUS_FAST, score="ap"), _CLEARLY_ABOVE_0),
    Claim("L2G2G performs better than the baseline models across most settings.", "Ablation study", "performance",
          _MINUS_ALL, _CLEARLY_ABOVE_0),
    Claim("L2G2G outperforms FastGAE.", "Conclusion", "performance",
          _MINUS_FASTGAE, _CLEARLY_ABOVE_0),
    Claim("L2G2G outperforms GAE+L2G.", "Abstract, conclusion", "performance",
          _MINUS_GAE_L2G, _CLEARLY_ABOVE_0),
    Claim("L2G2G boosts GAE+L2G especially on medium-scale data sets.", "Introduction", "performance",
          measure.gain_by_scale, _is_positive("largest on the medium graphs, those of 100,000 nodes"), ONE),
    Claim("L2G2G and GAE are very close on the medium and large data sets.", "Experiments", "performance",
          _MINUS_GAE, _at_least(-1), ALL, _MEDIUM_AND_LARGE),
    Claim("FastGAE, in contrast, is not close to GAE there.", "Experiments", "performance",
          partial(_MINUS_GAE, ours="fastgae"), _below(-1), graphs=_MEDIUM_AND_LARGE),
    Claim("L2G2G outperforms GAE when the data set is large and dense: SBM-Large-Dense.",
          "Abstract, experiments", "performance",
          _MINUS_GAE, _CLEARLY_ABOVE_0, NAMED, _DENSE),
    Claim("L2G2G outperforms GAE when the data set is large and dense: Reddit.", "Abstract, experiments", "performance",
          _MINUS_GAE_ON_REDDIT, _CLEARLY_ABOVE_0, NAMED, _named("reddit")),
    Claim("On SBM-Large-Dense the same, with the cut that keeps the most edges inside patches.",
          "not in the paper", "cuts",
          measure.gap_with_best_cut, _CLEARLY_ABOVE_0, NAMED, _DENSE),
    Claim("With that cut, L2G2G and GAE are very close on the medium and large data sets.", "not in the paper", "cuts",
          measure.gap_with_best_cut, _at_least(-1), ALL, _MEDIUM_AND_LARGE),
    Claim("With more patches the accuracy of L2G2G decreases less than that of GAE+L2G.", "Ablation study", "patches",
          measure.change_by_patches, _is_positive("above that of GAE+L2G")),
    Claim("L2G2G is not as sensitive to the number of patches as GAE+L2G.", "Conclusion", "patches",
          measure.range_by_patches, _is_positive("nearer to 0 than that of GAE+L2G")),
    Claim("Aligning the patches while training makes L2G2G more accurate.", "Abstract, ablation study", "ablation",
          measure.rotation_effect, _CLEAR_EFFECT, ONE),
    Claim("Losses between patches would improve accuracy.", "Future work", "ablation",
          measure.all_pairs_effect, _CLEAR_EFFECT, ONE),
    Claim("The additional cost of losses between patches is limited.", "Future work", "ablation",
          measure.all_pairs_cost, _at_most(1.5)),
    Claim("L2G2G and GAE+L2G train at nearly the same speed on small and large data sets.",
          "Experiments", "training-time",
          partial(measure.epoch_ratio, other="gae+l2g"), Test("between 1/2 and 2", lambda ratio: 0.5 < ratio < 2), ALL),
    Claim("The gap of L2G2G to GAE+L2G in time increases for large data sets.", "Experiments", "training-time",
          measure.epoch_gap_by_size,
          _is_positive("above 0, and above that of the others, on the graphs of a million edges or more"), ONE),
    Claim("L2G2G is not much slower than FastGAE.", "Experiments", "training-time",
          partial(measure.epoch_ratio, other="fastgae"), _below(2), ALL),
    Claim("L2G2G is faster than GAE in almost all cases.", "Experiments", "training-time",
          _TIMES_GAE, _below(1), ALMOST_ALL, _LARGER),
    Claim("On the two smaller data sets it is not.", "Experiments", "training-time",
          _TIMES_GAE, _at_least(1), NAMED, _TWO_SMALLER),
    Claim("An epoch of L2G2G takes around a tenth of GAE's on the larger graphs.", "Experiments", "training-time",
          _TIMES_GAE, _at_most(0.15), graphs=_HUGE),
    Claim("The faster methods are at least an order of magnitude faster than GAE.", "Figure 2", "training-time",
          measure.median_epoch_ratios, _at_most(0.1), METHODS),
    Claim("The training time of L2G2G increases with the number of patches.", "Ablation study", "patch-time",
          measure.time_by_patches, _above(1)),
    Claim("On a CPU it decreases with the number of patches on the smaller data set (Cora).",
          "Ablation study", "patch-time",
          measure.time_by_patches, _below(1), graphs=_SMALL),
    Claim("On a GPU it increases moderately, as that of GAE+L2G does.", "Ablation study", "patch-time",
          measure.needs_gpu, _NOT_TESTED, ONE),
    Claim("Moving memory between CPU and GPU slows training down.", "Ablation study, future work", "patch-time",
          measure.needs_gpu, _NOT_TESTED, ONE),
    Claim("From 2 to 30 patches the gap of L2G2G to GAE+L2G in time hardly changes on a small data set (Cora).",
          "Ablation study", "patch-time",
          partial(measure.time_gap_by_patches, value=lambda few, many, epoch: abs(many - few) / epoch),
          Test("a change below 20 % of GAE+L2G's epoch with the fewest patches", lambda change: float(change) < 0.2),
          graphs=_SMALL),
    Claim("From 2 to 30 patches that gap becomes smaller on a large data set (Yelp).", "Ablation study", "patch-time",
          partial(measure.time_gap_by_patches, value=lambda few, many, epoch: abs(few) - abs(many)),
          _is_positive("nearer to 0 with the most patches than with the fewest"), NAMED, _YELP),
    Claim("Overlapping patches can be much larger than N / k.", "Ablation study", "patch-time",
          measure.largest_patch, _above(2), ANY),
    Claim("All four sparse implementations are linear in N.", "Table 1", "complexity",
          measure.sparse_exponents,
          Test("at most 1 after subtracting two standard errors", lambda fit: fit.mean - 2 * fit.error <= 1), METHODS),
    Claim("The decoder of GAE scales as N² when it decodes all pairs.", "Preliminaries, Table 1", "complexity",
          measure.decoder_exponent,
          Test("within two standard errors of 2, which are at most 0.5",
               lambda fit: abs(fit.mean - 2) <= 2 * fit.error), ONE),
    Claim("In the general case more patches reduce the cost of the decoders.", "Complexity analysis", "complexity",
          measure.decoder_ratio, Test("shorter than GAE's", lambda ratio: float(ratio) < 1), METHODS),
    Claim("With more patches the gap of L2G2G to GAE+L2G in time grows linearly.", "Complexity analysis", "complexity",
          measure.gap_line,
          Test("a rising line explains 90 % of the variance or more, and the last gap is above 0",
               lambda explained: float(explained) >= 0.9), ONE),
    Claim("GAEs store very large matrices in the decoding step: all pairs.", "Experiments", "training-time",
          measure.score_matrix, _above(32, " GB, the memory of the largest V100,")),
    Claim("GAEs suffer from memory issues: with sampled pairs, as in the PyTorch column.",
          "Experiments", "training-time",
          measure.peak_memory, Test("out of memory", math.isinf), ANY),
    Claim("The AUC table holds AUC.", "Table 3", "",
          measure.equal_columns, _below(1), METHODS),
    Claim("The block models have the stated parameters and Table 2's edges.", "Table 2", "",
          measure.stated_edges, _WITHIN_5_PERCENT, ALL),
    Claim("M of Table 2 is the number of undirected edges of the real graphs.", "Notations, Table 2", "datasets",
          measure.counted_edges, _WITHIN_5_PERCENT, ALL),
]
# fmt: on


def present(evidence: Evidence) -> list[Block]:
    """Return the explanation and the table of claims."""
    entries: list[list[str | Entry]] = []
    for claim in CLAIMS:
        finding = claim.judge(evidence)
        entries.append([claim.text, Entry(finding.verdict, best=True), finding.evidence, claim.rule, claim.where])
    scored = datasets_in(pick(evidence.of("performance"), options=performance.options_of(evidence.quick)))
    missing = ", ".join(name for name in SIZES if name not in scored)
    return [
        "Each claim of the paper in one line: the verdict, what was measured here, and the rule that the measured "
        "values must satisfy. L2G2G, GAE, FastGAE and GAE+L2G use the paper preset. Scores are compared on the seeds "
        "that all compared methods have, under the paper's protocol (paper) and on held-out links (heldout). "
        "Differences are in points, ± their standard error; a difference is clearly above 0 if it is more than two "
        "standard errors (with one seed, which has no error: more than 0). For accuracy only the paper's graphs count: "
        "stand-ins are shown, and other graphs appear only in the ablation. For time and memory stand-ins count, "
        "because only the size matters. “True for 3 of 5” counts the graphs or methods that pass. The paper's times "
        "are from a V100, these from the processor named at the end. The paper's graphs without scores here: "
        f"{missing or 'none'}.",
        DataTable("The paper's claims.", ["claim", "verdict", "evidence", "rule", "where"], entries, num_labels=5),
    ]
