"""Claims about patches and accuracy: how many there are, their alignment, and losses between them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import fmean, median

from l2g2g.graphs.stand_ins import STAND_INS
from l2g2g.paper import ablation, patches
from l2g2g.paper.ablation_section import epochs_of
from l2g2g.paper.accuracy_claims import Answer, common_scores, judge_scores
from l2g2g.paper.evidence import (
    CANNOT_BE_SAID,
    NOTHING,
    Claim,
    Evidence,
    Finding,
    count_answers,
    list_values,
    on_most,
)
from l2g2g.paper.results import Row, datasets_in, epoch_seconds, pick

_LIMITED = 1.5  # times
_NO_ROTATIONS = ablation.replace(ablation.PAPER, alignment="identity")
_ALL_NODES = ablation.replace(ablation.PAPER, pairs="all nodes")


def _means_by_count(evidence: Evidence, dataset: str, protocol: str) -> dict[str, dict[int, float]]:
    """Mean AUC of both methods for every number of patches, over the seeds that all of them have."""
    rows = pick(evidence.of("patches"), dataset=dataset, protocol=protocol)
    runs: dict[str, list[Row]] = {}
    for count in patches.COUNTS:
        options = patches.options_of(dataset, count, evidence.quick)
        own = {name: pick(rows, contender=name, options=options) for name in ("l2g2g", "gae+l2g")}
        if all(own.values()):
            runs |= {f"{name} {count}": lines for name, lines in own.items()}
    scores = common_scores(runs) if runs else {}
    found: dict[str, dict[int, float]] = {"l2g2g": {}, "gae+l2g": {}}
    for place, values in scores.items():
        name, count_text = place.split()
        found[name][int(count_text)] = fmean(values)
    return found


def _change(means: dict[int, float]) -> float:
    """From the fewest patches to the most."""
    return means[max(means)] - means[min(means)]


def _steadiness(means: dict[int, float]) -> float:
    """Minus the span of the means: more is steadier."""
    return min(means.values()) - max(means.values())


def _by_patches(evidence: Evidence, title: str, measure: Callable[[dict[int, float]], float]) -> Finding:
    """Whether L2G2G is above GAE+L2G in some measure of the curve."""

    def find(protocol: str) -> dict[str, Answer]:
        found = {}
        for dataset in datasets_in(evidence.of("patches")):
            ours, theirs = _means_by_count(evidence, dataset, protocol).values()
            if len(ours) > 1:
                values = measure(ours), measure(theirs)
                found[dataset] = Answer(values[0] > values[1], f"{values[0]:+.2f} against {values[1]:+.2f}")
        return found

    return judge_scores(f"{title}, L2G2G against GAE+L2G", find)


def _effect(evidence: Evidence, variant: ablation.Variant, base: ablation.Variant, what: str) -> Finding:
    """Whether one change to the paper's corner helps; the ablation has held-out links alone."""
    rows = evidence.of("ablation")
    outcomes = ablation.collect(rows, epochs_of(evidence.quick))
    datasets = [name for name in datasets_in(rows) if name not in STAND_INS]
    effect = ablation.effect_of(outcomes[variant], outcomes[base], datasets)
    if effect is None:
        return NOTHING
    text = f"AUC {what}, in the paper's corner: {effect.mean:+.2f} ({list_values(effect.by_dataset)}): {effect.verdict}"
    if effect.verdict == "too few runs to say":
        return Finding(text, word=CANNOT_BE_SAID)
    if effect.verdict == "no clear difference":
        return Finding(text, word=effect.verdict)
    return Finding(text, {"heldout": effect.verdict == "helps"})


def _cost_of_all_nodes(evidence: Evidence) -> Finding:
    """Time of an epoch with pairs of all nodes over that with pairs inside patches."""
    rows, epochs = evidence.of("ablation"), epochs_of(evidence.quick)
    ratios = {}
    for dataset in datasets_in(rows):
        both = [
            pick(rows, dataset=dataset, options={**variant.options, "epochs": epochs})
            for variant in (_ALL_NODES, ablation.PAPER)
        ]
        if all(both):
            wide, inside = (median(map(epoch_seconds, own)) for own in both)
            ratios[dataset] = wide / inside
    answers = [ratio <= _LIMITED for ratio in ratios.values()]
    words = count_answers(answers, list_values(ratios, ".2f"))
    title = "epoch with pairs of all nodes ÷ pairs inside patches, in the paper's corner"
    return Finding(f"{title}: {words}", {"": on_most(answers)}) if ratios else NOTHING


_CORNER = (
    "a clear difference: more than 0.2 points and two standard errors, and no graph the other way, in the ablation of "
    f"the paper's corner (preset default with the paper's choice of {len(ablation.FACTORS)} factors, {ablation.EPOCHS} "
    "epochs, held-out links)"
)
CLAIMS = [
    Claim(
        "With more patches the accuracy of L2G2G decreases less than that of GAE+L2G.",
        "Ablation study",
        "the change of mean AUC from the fewest patches to the most is above that of GAE+L2G on more than half of the "
        "graphs",
        partial(_by_patches, title="change of AUC from the fewest patches to the most", measure=_change),
    ),
    Claim(
        "L2G2G is not as sensitive to the number of patches as GAE+L2G.",
        "Conclusion",
        "lowest minus highest mean AUC over the numbers of patches is nearer to 0 than that of GAE+L2G on more than "
        "half of the graphs",
        partial(_by_patches, title="lowest minus highest AUC over 2 to 10 patches", measure=_steadiness),
    ),
    Claim(
        "Aligning the patches while training makes L2G2G more accurate.",
        "Abstract, ablation study",
        _CORNER,
        partial(_effect, variant=ablation.PAPER, base=_NO_ROTATIONS, what="with rotations minus without any alignment"),
    ),
    Claim(
        "Losses between patches would improve accuracy.",
        "Future work",
        _CORNER,
        partial(
            _effect, variant=_ALL_NODES, base=ablation.PAPER, what="with pairs of all nodes minus pairs inside patches"
        ),
    ),
    Claim(
        "The additional cost of losses between patches is limited.",
        "Future work",
        f"an epoch takes at most {_LIMITED} times as long on more than half of the graphs",
        _cost_of_all_nodes,
    ),
]
