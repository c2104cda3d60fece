"""Claims about time: an epoch by method, by graph and by number of patches. Stand-ins count: they have the size."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import fmean, median

from l2g2g.paper import patch_time
from l2g2g.paper.contenders import CONTENDERS
from l2g2g.paper.evidence import (
    NOTHING,
    Claim,
    Enough,
    Evidence,
    Finding,
    count_answers,
    list_values,
    on_almost_all,
    on_most,
)
from l2g2g.paper.results import datasets_in, epoch_seconds, pick
from l2g2g.paper.timing import timing_options

_METHODS = ("gae", "fastgae", "gae+l2g", "l2g2g")
_SMALLER = ("cora-ml", "sbm-small")  # the paper's two smaller data sets
_YELP = ("yelp", "yelp-like")
_HUGE = 1_000_000  # edges: what the paper calls larger models
_SMALL = 100_000  # nodes: below are the graphs above the first rule of Table 3
_TENTH, _ABOUT_A_TENTH = 0.1, 0.15
_UNCHANGED = 0.2  # of an epoch


def _epochs(evidence: Evidence) -> dict[str, dict[str, float]]:
    """Seconds of an epoch by graph and contender."""
    rows = pick(evidence.of("training-time"), options=timing_options(evidence.quick))
    found = {}
    for dataset in datasets_in(rows):
        own = {name: pick(rows, dataset=dataset, contender=name) for name in _METHODS}
        found[dataset] = {name: median(map(epoch_seconds, lines)) for name, lines in own.items() if lines}
    return found


def _pairs(evidence: Evidence, ours: str, other: str) -> dict[str, tuple[float, float]]:
    """Seconds of an epoch of two methods, on graphs where both were run."""
    found = _epochs(evidence).items()
    return {dataset: (own[ours], own[other]) for dataset, own in found if {ours, other} <= set(own)}


def _is_huge(evidence: Evidence, dataset: str) -> bool:
    sizes = {row["cell"]["dataset"]: row["num_edges"] for row in pick(evidence.of("training-time"))}
    return sizes[dataset] >= _HUGE


def _is_smaller(evidence: Evidence, dataset: str) -> bool:
    return dataset in _SMALLER


def _is_other(evidence: Evidence, dataset: str) -> bool:
    return dataset not in _SMALLER


def _compare(
    evidence: Evidence,
    other: str,
    good: Callable[[float], bool],
    enough: Enough,
    chosen: Callable[[Evidence, str], bool] = lambda evidence, dataset: True,
) -> Finding:
    """Judge the time of L2G2G over that of another on chosen graphs."""
    pairs = {dataset: times for dataset, times in _pairs(evidence, "l2g2g", other).items() if chosen(evidence, dataset)}
    ratios = {dataset: ours / theirs for dataset, (ours, theirs) in pairs.items()}
    answers = [good(ratio) for ratio in ratios.values()]
    text = f"epoch of L2G2G ÷ {CONTENDERS[other].label}: {count_answers(answers, list_values(ratios, '.2f'))}"
    return Finding(text, {"": enough(answers)}) if ratios else NOTHING


def _fast_methods(evidence: Evidence) -> Finding:
    """Whether every fast method takes a tenth of GAE's time on most graphs."""
    words, enough = [], []
    for name in _METHODS[1:]:
        ratios = {dataset: ours / theirs for dataset, (ours, theirs) in _pairs(evidence, name, "gae").items()}
        if not ratios:
            return NOTHING
        answers = [ratio <= _TENTH for ratio in ratios.values()]
        words.append(f"{CONTENDERS[name].label} {count_answers(answers, list_values(ratios, '.2f'))}")
        enough.append(on_most(answers))
    return Finding(f"epoch ÷ GAE: {'; '.join(words)}", {"": all(enough)})


def _gap_on_large_graphs(evidence: Evidence) -> Finding:
    gaps = {dataset: ours - theirs for dataset, (ours, theirs) in _pairs(evidence, "l2g2g", "gae+l2g").items()}
    huge = [gap for dataset, gap in gaps.items() if _is_huge(evidence, dataset)]
    others = [gap for dataset, gap in gaps.items() if not _is_huge(evidence, dataset)]
    if not huge or not others:
        return NOTHING
    text = f"epoch of L2G2G minus GAE+L2G in seconds: {list_values(gaps, '+.4f')}"
    return Finding(text, {"": fmean(huge) > max(fmean(others), 0)})


# --- by number of patches -------------------------------------------------------------------------------


def _times(evidence: Evidence, dataset: str, name: str) -> dict[int, float]:
    found = patch_time.runs_by_count(evidence.of("patch-time"), dataset, name, evidence.quick)
    return {count: median(map(epoch_seconds, own)) for count, own in found.items()}


def _is_small(evidence: Evidence, dataset: str) -> bool:
    sizes = {row["cell"]["dataset"]: row["num_nodes"] for row in pick(evidence.of("patch-time"))}
    return sizes[dataset] < _SMALL


def _change_of_time(
    evidence: Evidence,
    good: Callable[[float], bool],
    chosen: Callable[[Evidence, str], bool] = lambda evidence, dataset: True,
) -> Finding:
    """Judge the time with the most patches over that with the fewest."""
    ratios, spans = {}, set()
    for dataset in datasets_in(evidence.of("patch-time")):
        times = _times(evidence, dataset, "l2g2g")
        if len(times) > 1 and chosen(evidence, dataset):
            ratios[dataset] = times[max(times)] / times[min(times)]
            spans.add(f"{max(times)} patches ÷ {min(times)}")
    answers = [good(ratio) for ratio in ratios.values()]
    words = count_answers(answers, list_values(ratios, ".2f"))
    return (
        Finding(f"epoch of L2G2G, {', '.join(sorted(spans))}: {words}", {"": on_most(answers)}) if ratios else NOTHING
    )


def _gap_by_patches(
    evidence: Evidence,
    good: Callable[[float, float, float], bool],
    chosen: Callable[[Evidence, str], bool],
) -> Finding:
    """Judge the gaps to GAE+L2G with the fewest and the most patches, and GAE+L2G's own time with the fewest."""
    words, answers = [], []
    for dataset in datasets_in(evidence.of("patch-time")):
        ours, theirs = (_times(evidence, dataset, name) for name in ("l2g2g", "gae+l2g"))
        counts = sorted(set(ours) & set(theirs))
        if len(counts) > 1 and chosen(evidence, dataset):
            few, many = counts[0], counts[-1]
            first, last = (ours[count] - theirs[count] for count in (few, many))
            answers.append(good(first, last, theirs[few]))
            shown = f"{1000 * first:+.1f} with {few}, {1000 * last:+.1f} with {many}"
            words.append(f"{dataset} {shown} (GAE+L2G {1000 * theirs[few]:.1f} with {few})")
    text = f"epoch of L2G2G minus GAE+L2G in ms: {'; '.join(words)}"
    return Finding(text, {"": on_most(answers)}) if answers else NOTHING


def _large_patches(evidence: Evidence) -> Finding:
    ratios = {}
    for dataset in datasets_in(evidence.of("patch-time")):
        found = patch_time.runs_by_count(evidence.of("patch-time"), dataset, "l2g2g", evidence.quick)
        sizes = [own[0]["largest_patch_nodes"] * count / own[0]["num_nodes"] for count, own in found.items()]
        if sizes:
            ratios[dataset] = max(sizes)
    text = f"largest patch ÷ (N / k), for the k where it is most: {list_values(ratios, '.1f')}"
    return Finding(text, {"": any(ratio > 2 for ratio in ratios.values())}) if ratios else NOTHING


def _needs_gpu(evidence: Evidence) -> Finding:
    return Finding("needs the times of a GPU; none were taken")


_COUNT = "stand-ins count: they have the size"
_MOST = "on more than half of the graphs"
CLAIMS = [
    Claim(
        "L2G2G and GAE+L2G train at nearly the same speed on small and large data sets.",
        "Experiments",
        f"the ratio lies between 1/2 and 2 on all graphs; {_COUNT}",
        partial(_compare, other="gae+l2g", good=lambda ratio: 0.5 < ratio < 2, enough=all),
    ),
    Claim(
        "The gap of L2G2G to GAE+L2G in time increases for large data sets.",
        "Experiments",
        f"the mean difference on graphs with a million edges or more is above 0 and above that on the others; {_COUNT}",
        _gap_on_large_graphs,
    ),
    Claim(
        "L2G2G is not much slower than FastGAE.",
        "Experiments",
        f"the ratio is below 2 on all graphs; {_COUNT}",
        partial(_compare, other="fastgae", good=lambda ratio: ratio < 2, enough=all),
    ),
    Claim(
        "L2G2G is faster than GAE in almost all cases.",
        "Experiments",
        f"the ratio is below 1 on all graphs or all but one, without the paper's two smaller ones; {_COUNT}",
        partial(_compare, other="gae", good=lambda ratio: ratio < 1, enough=on_almost_all, chosen=_is_other),
    ),
    Claim(
        "On the two smaller data sets it is not.",
        "Experiments",
        "the ratio is 1 or more on cora-ml and sbm-small",
        partial(_compare, other="gae", good=lambda ratio: ratio >= 1, enough=all, chosen=_is_smaller),
    ),
    Claim(
        "An epoch of L2G2G takes around a tenth of GAE's on the larger graphs.",
        "Experiments",
        f"the ratio is at most {_ABOUT_A_TENTH} {_MOST} with a million edges or more; {_COUNT}",
        partial(_compare, other="gae", good=lambda ratio: ratio <= _ABOUT_A_TENTH, enough=on_most, chosen=_is_huge),
    ),
    Claim(
        "The faster methods are at least an order of magnitude faster than GAE.",
        "Figure 2",
        f"FastGAE, GAE+L2G and L2G2G each take at most {_TENTH} of GAE's epoch {_MOST}; {_COUNT}",
        _fast_methods,
    ),
    Claim(
        "The training time of L2G2G increases with the number of patches.",
        "Ablation study",
        f"an epoch with the most patches takes longer than with the fewest {_MOST}; {_COUNT}",
        partial(_change_of_time, good=lambda ratio: ratio > 1),
    ),
    Claim(
        "On a CPU it decreases with the number of patches on the smaller data set (Cora).",
        "Ablation study",
        f"an epoch with the most patches takes less than with the fewest {_MOST} below 100,000 nodes",
        partial(_change_of_time, good=lambda ratio: ratio < 1, chosen=_is_small),
    ),
    Claim(
        "On a GPU it increases moderately, as that of GAE+L2G does.",
        "Ablation study",
        "–",
        _needs_gpu,
    ),
    Claim(
        "Moving memory between CPU and GPU slows training down.",
        "Ablation study, future work",
        "–",
        _needs_gpu,
    ),
    Claim(
        "From 2 to 30 patches the gap of L2G2G to GAE+L2G in time hardly changes on a small data set (Cora).",
        "Ablation study",
        f"it changes by less than {100 * _UNCHANGED:.0f} % of GAE+L2G's epoch with the fewest patches {_MOST} below "
        "100,000 nodes",
        partial(_gap_by_patches, good=lambda few, many, epoch: abs(many - few) < _UNCHANGED * epoch, chosen=_is_small),
    ),
    Claim(
        "From 2 to 30 patches that gap becomes smaller on a large data set (Yelp).",
        "Ablation study",
        f"it is nearer to 0 with the most patches than with the fewest on yelp or yelp-like; {_COUNT}",
        partial(
            _gap_by_patches,
            good=lambda few, many, epoch: abs(many) < abs(few),
            chosen=lambda evidence, dataset: dataset in _YELP,
        ),
    ),
    Claim(
        "Overlapping patches can be much larger than N / k.",
        "Ablation study",
        f"the largest patch is above 2 N / k on one graph or more; {_COUNT}",
        _large_patches,
    ),
]
