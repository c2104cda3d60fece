"""The claims of the paper: one table of sentences and rules, and the section of the report with the verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from l2g2g.paper import ablation, performance
from l2g2g.paper import measurements as measure
from l2g2g.paper.results import SCORES, SIZES, Row, datasets_in, pick
from l2g2g.paper.verdicts import (
    Claim,
    Estimate,
    Evidence,
    RowFilter,
    compare_groups,
    count_true,
    every,
    not_measured,
    on_almost_all,
)
from l2g2g.reports.page import Block, DataTable, Entry

TITLE = "Claims"
_METHODS = ("gae", "fastgae", "gae+l2g", "l2g2g")
_FAST = ("fastgae", "gae+l2g")
_MEDIUM, _LARGE = 100_000, 200_000  # nodes: medium are the graphs between the two lines of Table 3
_HUGE = 1_000_000  # edges: what the paper calls larger models
_CLOSE = 1.0  # points of AUC
_TENTH, _ABOUT_A_TENTH = 0.1, 0.15
_UNCHANGED = 0.2  # of an epoch
_LIMITED = 1.5  # times
_STRAIGHT = 0.9  # of the variance
_SHARP = 0.5  # of an exponent
_SAME = 0.05  # of a number of edges
_GPU_MEMORY = 32e9  # bytes of the largest V100

# --- tests of one value ---------------------------------------------------------------------------------


def _below(limit: float) -> Callable[[Any], bool]:
    return lambda value: float(value) < limit


def _at_most(limit: float) -> Callable[[Any], bool]:
    return lambda value: float(value) <= limit


def _above(limit: float) -> Callable[[Any], bool]:
    return lambda value: float(value) > limit


def _at_least(limit: float) -> Callable[[Any], bool]:
    return lambda value: float(value) >= limit


def _clearly_above_0(gap: Estimate) -> bool:
    return gap.mean > 2 * gap.error


# --- graphs ---------------------------------------------------------------------------------------------


def _named(*names: str) -> RowFilter:
    return lambda row: row["cell"]["dataset"] in names


def _not_named(*names: str) -> RowFilter:
    return lambda row: row["cell"]["dataset"] not in names


def _is_small(row: Row) -> bool:
    return bool(row["num_nodes"] < _MEDIUM)


def _is_medium_or_large(row: Row) -> bool:
    return not _is_small(row)


def _is_huge(row: Row) -> bool:
    return bool(row["num_edges"] >= _HUGE)


def _scale(row: Row) -> str:
    return "small" if _is_small(row) else "medium" if row["num_nodes"] < _LARGE else "large"


def _size_in_edges(row: Row) -> str:
    return "large" if _is_huge(row) else "others"


def _printed_gap(dataset: str) -> str:
    """What Table 3 says of L2G2G and GAE on one graph."""
    gaps = [
        f"{score.upper()} {own[dataset]['l2g2g'][0] - own[dataset]['gae'][0]:+.2f}" for score, own in SCORES.items()
    ]
    return f"no scores of {dataset}, and a stand-in does not count; as printed L2G2G minus GAE: {', '.join(gaps)}"


# --- the table ------------------------------------------------------------------------------------------

_MOST = "on more than half of the graphs"
_COUNT = "stand-ins count: they have the size"
_NEAR_GAE = "at most one point below GAE on all graphs of 100,000 nodes or more"
_CLEAR_EFFECT = (
    "a clear difference: more than 0.2 points and two standard errors, and no graph the other way, in the ablation of "
    f"the paper's variant (preset default with the paper's choice of {len(ablation.FACTORS)} factors, "
    f"{ablation.EPOCHS} epochs, held-out links)"
)
_NO_GPU = not_measured("needs the times of a GPU; none were taken")

# fmt: off
# Sentence, place in the paper, study that has the evidence, rule in words; then the rule itself.
CLAIMS = [
    Claim("L2G2G outperforms both FastGAE and GAE+L2G on most experiments (AUC).", "Table 3", "performance",
          f"clearly above both {_MOST}", count_true(measure.score_gap, _clearly_above_0, others=_FAST)),
    Claim("L2G2G outperforms both FastGAE and GAE+L2G on most experiments (AP).", "Table 3", "performance",
          f"clearly above both {_MOST}", count_true(measure.score_gap, _clearly_above_0, others=_FAST, score="ap")),
    Claim("L2G2G performs better than the baseline models across most settings.", "Ablation study", "performance",
          f"clearly above GAE, FastGAE and GAE+L2G {_MOST}",
          count_true(measure.score_gap, _clearly_above_0, others=("gae", *_FAST))),
    Claim("L2G2G outperforms FastGAE.", "Conclusion", "performance",
          f"clearly above {_MOST}", count_true(measure.score_gap, _clearly_above_0, others=("fastgae",))),
    Claim("L2G2G outperforms GAE+L2G.", "Abstract, conclusion", "performance",
          f"clearly above {_MOST}", count_true(measure.score_gap, _clearly_above_0, others=("gae+l2g",))),
    Claim("L2G2G boosts GAE+L2G especially on medium-scale data sets.", "Introduction", "performance",
          "the mean gain is largest on the graphs between the two lines of Table 3, those of 100,000 nodes",
          compare_groups(measure.score_gap, _scale, lambda means: max(means, key=means.__getitem__) == "medium",
                         needed={"small", "medium"}, others=("gae+l2g",))),
    Claim("L2G2G and GAE are very close on the medium and large data sets.", "Experiments", "performance",
          _NEAR_GAE, count_true(measure.score_gap, _at_least(-_CLOSE), all, only=_is_medium_or_large, others=("gae",))),
    Claim("FastGAE, in contrast, is not close to GAE there.", "Experiments", "performance",
          f"more than one point below GAE {_MOST} of 100,000 nodes or more",
          count_true(measure.score_gap, _below(-_CLOSE), only=_is_medium_or_large, ours="fastgae", others=("gae",))),
    Claim("L2G2G outperforms GAE when the data set is large and dense: SBM-Large-Dense.",
          "Abstract, experiments", "performance", "clearly above on sbm-large-dense",
          count_true(measure.score_gap, _clearly_above_0, only=_named("sbm-large-dense"), others=("gae",))),
    Claim("L2G2G outperforms GAE when the data set is large and dense: Reddit.", "Abstract, experiments", "performance",
          "clearly above on reddit",
          count_true(measure.score_gap, _clearly_above_0, only=_named("reddit"), others=("gae",),
                     missing=_printed_gap("reddit"))),
    Claim("On SBM-Large-Dense the same, with the cut that keeps the most edges inside patches.",
          "not in the paper", "cuts", "clearly above with the cut, of two or more, that keeps most",
          count_true(measure.gap_with_best_cut, _clearly_above_0, all, only=_named("sbm-large-dense"))),
    Claim("With that cut, L2G2G and GAE are very close on the medium and large data sets.", "not in the paper", "cuts",
          _NEAR_GAE, count_true(measure.gap_with_best_cut, _at_least(-_CLOSE), all, only=_is_medium_or_large)),
    Claim("With more patches the accuracy of L2G2G decreases less than that of GAE+L2G.", "Ablation study", "patches",
          f"the change of mean AUC from the fewest patches to the most is above that of GAE+L2G {_MOST}",
          count_true(measure.curves_by_patches, _above(0), what="change of AUC from the fewest patches to the most",
                     summary=lambda means: means[max(means)] - means[min(means)])),
    Claim("L2G2G is not as sensitive to the number of patches as GAE+L2G.", "Conclusion", "patches",
          f"lowest minus highest mean AUC over the numbers of patches is nearer to 0 than that of GAE+L2G {_MOST}",
          count_true(measure.curves_by_patches, _above(0), what="lowest minus highest AUC over 2 to 10 patches",
                     summary=lambda means: min(means.values()) - max(means.values()))),
    Claim("Aligning the patches while training makes L2G2G more accurate.", "Abstract, ablation study", "ablation",
          _CLEAR_EFFECT,
          count_true(measure.ablation_effect, _above(0), variant=ablation.PAPER, base=measure.NO_ROTATIONS,
                     what="with rotations minus without any alignment")),
    Claim("Losses between patches would improve accuracy.", "Future work", "ablation",
          _CLEAR_EFFECT,
          count_true(measure.ablation_effect, _above(0), variant=measure.ALL_NODES, base=ablation.PAPER,
                     what="with pairs of all nodes minus pairs inside patches")),
    Claim("The additional cost of losses between patches is limited.", "Future work", "ablation",
          f"an epoch takes at most {_LIMITED} times as long {_MOST}",
          count_true(measure.ablation_epoch_ratio, _at_most(_LIMITED))),
    Claim("L2G2G and GAE+L2G train at nearly the same speed on small and large data sets.",
          "Experiments", "training-time", f"the ratio lies between 1/2 and 2 on all graphs; {_COUNT}",
          count_true(measure.epoch_ratio, lambda ratio: 0.5 < ratio < 2, all, other="gae+l2g")),
    Claim("The gap of L2G2G to GAE+L2G in time increases for large data sets.", "Experiments", "training-time",
          "the mean difference on graphs with a million edges or more is above 0 and above that on the others; "
          f"{_COUNT}",
          compare_groups(measure.epoch_difference, _size_in_edges,
                         lambda means: means["large"] > max(means["others"], 0), needed={"large", "others"})),
    Claim("L2G2G is not much slower than FastGAE.", "Experiments", "training-time",
          f"the ratio is below 2 on all graphs; {_COUNT}",
          count_true(measure.epoch_ratio, _below(2), all, other="fastgae")),
    Claim("L2G2G is faster than GAE in almost all cases.", "Experiments", "training-time",
          f"the ratio is below 1 on all graphs or all but one, without the paper's two smaller ones; {_COUNT}",
          count_true(measure.epoch_ratio, _below(1), on_almost_all, only=_not_named("cora-ml", "sbm-small"),
                     other="gae")),
    Claim("On the two smaller data sets it is not.", "Experiments", "training-time",
          "the ratio is 1 or more on cora-ml and sbm-small",
          count_true(measure.epoch_ratio, _at_least(1), all, only=_named("cora-ml", "sbm-small"), other="gae")),
    Claim("An epoch of L2G2G takes around a tenth of GAE's on the larger graphs.", "Experiments", "training-time",
          f"the ratio is at most {_ABOUT_A_TENTH} {_MOST} with a million edges or more; {_COUNT}",
          count_true(measure.epoch_ratio, _at_most(_ABOUT_A_TENTH), only=_is_huge, other="gae")),
    Claim("The faster methods are at least an order of magnitude faster than GAE.", "Figure 2", "training-time",
          f"FastGAE, GAE+L2G and L2G2G each take at most {_TENTH} of GAE's epoch {_MOST}; {_COUNT}",
          every(*(count_true(measure.epoch_ratio, _at_most(_TENTH), ours=name, other="gae") for name in _METHODS[1:]))),
    Claim("The training time of L2G2G increases with the number of patches.", "Ablation study", "patch-time",
          f"an epoch with the most patches takes longer than with the fewest {_MOST}; {_COUNT}",
          count_true(measure.time_by_patches, _above(1))),
    Claim("On a CPU it decreases with the number of patches on the smaller data set (Cora).",
          "Ablation study", "patch-time",
          f"an epoch with the most patches takes less than with the fewest {_MOST} below 100,000 nodes",
          count_true(measure.time_by_patches, _below(1), only=_is_small)),
    Claim("On a GPU it increases moderately, as that of GAE+L2G does.", "Ablation study", "patch-time",
          "–", _NO_GPU),
    Claim("Moving memory between CPU and GPU slows training down.", "Ablation study, future work", "patch-time",
          "–", _NO_GPU),
    Claim("From 2 to 30 patches the gap of L2G2G to GAE+L2G in time hardly changes on a small data set (Cora).",
          "Ablation study", "patch-time",
          f"it changes by less than {100 * _UNCHANGED:.0f} % of GAE+L2G's epoch with the fewest patches {_MOST} below "
          "100,000 nodes",
          count_true(measure.time_gap_by_patches, _below(_UNCHANGED), only=_is_small,
                     value=lambda few, many, epoch: abs(many - few) / epoch)),
    Claim("From 2 to 30 patches that gap becomes smaller on a large data set (Yelp).", "Ablation study", "patch-time",
          f"it is nearer to 0 with the most patches than with the fewest on yelp or yelp-like; {_COUNT}",
          count_true(measure.time_gap_by_patches, _below(0), only=_named("yelp", "yelp-like"),
                     value=lambda few, many, epoch: abs(many) - abs(few))),
    Claim("Overlapping patches can be much larger than N / k.", "Ablation study", "patch-time",
          f"the largest patch is above 2 N / k on one graph or more; {_COUNT}",
          count_true(measure.largest_patch, _above(2), any)),
    Claim("All four sparse implementations are linear in N.", "Table 1", "complexity",
          "the exponent minus two standard errors is at most 1 for all four methods",
          count_true(measure.exponents, lambda fit: fit.mean - 2 * fit.error <= 1, all, sweep="n", methods=_METHODS,
                     what="M / N constant")),
    Claim("The decoder of GAE scales as N² when it decodes all pairs.", "Preliminaries, Table 1", "complexity",
          f"2 lies within two standard errors of GAE's exponent, and these are at most {_SHARP}",
          count_true(measure.exponents, lambda fit: abs(fit.mean - 2) <= 2 * fit.error, sweep="pairs", methods=("gae",),
                     what="all pairs decoded", widest=_SHARP)),
    Claim("In the general case more patches reduce the cost of the decoders.", "Complexity analysis", "complexity",
          "with all pairs decoded, an epoch of GAE+L2G and of L2G2G (ten patches) is shorter than GAE's on the largest "
          "graph",
          count_true(measure.decoder_ratio, _below(1), all)),
    Claim("With more patches the gap of L2G2G to GAE+L2G in time grows linearly.", "Complexity analysis", "complexity",
          f"a line through the gaps rises and explains {100 * _STRAIGHT:.0f} % of their variance or more, and the last "
          "gap is above 0",
          count_true(measure.gap_line, _at_least(_STRAIGHT))),
    Claim("GAEs store very large matrices in the decoding step: all pairs.", "Experiments", "training-time",
          f"N² scores of {measure.SCORE_BYTES} bytes exceed {_GPU_MEMORY / 1e9:.0f} GB, the largest V100, "
          f"{_MOST}; {_COUNT}",
          count_true(measure.score_matrix, _above(_GPU_MEMORY / 1e9))),
    Claim("GAEs suffer from memory issues: with sampled pairs, as in the PyTorch column.",
          "Experiments", "training-time", f"GAE ran out of memory on one graph or more; {_COUNT}",
          count_true(measure.peak_memory, math.isinf, any)),
    Claim("The AUC table holds AUC.", "Table 3", "",
          "no column is the same in both tables", count_true(measure.equal_columns, _below(1), all)),
    Claim("The block models have the stated parameters and Table 2's edges.", "Table 2", "",
          "within 5 % on all block models",
          count_true(measure.stated_edges, lambda difference: abs(float(difference)) <= _SAME, all)),
    Claim("M of Table 2 is the number of undirected edges of the real graphs.", "Notations, Table 2", "datasets",
          "within 5 % on all real graphs",
          count_true(measure.counted_edges, lambda difference: abs(float(difference)) <= _SAME, all)),
]
# fmt: on


def present(evidence: Evidence) -> list[Block]:
    """One line for each claim."""
    entries: list[list[str | Entry]] = []
    for claim in CLAIMS:
        finding = claim.judge(evidence)
        entries.append([claim.text, Entry(finding.verdict, best=True), finding.evidence, claim.rule, claim.where])
    scored = datasets_in(pick(evidence.of("performance"), options=performance.options_of(evidence.quick)))
    missing = ", ".join(name for name in SIZES if name not in scored)
    return [
        "Each claim of the paper in one line: the verdict, what was measured here, and the rule by which the verdict "
        "follows. L2G2G, GAE, FastGAE and GAE+L2G are the paper preset. Scores are compared on the seeds that all "
        "compared methods have, under the paper's protocol (paper) and on held-out links (heldout); differences are in "
        "points, ± their standard error, and one is clearly above 0 where it is more than two of them (one seed has "
        "no error: more than 0). Stand-ins never count for accuracy, and other graphs that the paper does not have "
        "only in the ablation; for time and memory stand-ins count, because only the size matters there. “True for 3 "
        "of 5” counts the graphs or methods for which the rule is true. The paper's times are those of a V100, these "
        f"of the processor named at the end. The paper's graphs without scores here: {missing or 'none'}.",
        DataTable("The paper's claims.", ["claim", "verdict", "evidence", "rule", "where"], entries, num_labels=5),
    ]
