"""Measurements: what the stored lines say about one quantity, by graph or by method; the claims are tests of these.

Every function takes the lines of its study and whether it was a quick run, and returns a `Measurement`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean, median
from typing import TypeVar

import numpy as np

from l2g2g.graphs.datasets import list_datasets
from l2g2g.graphs.stand_ins import STAND_INS
from l2g2g.paper import ablation, complexity, cuts, patch_time, patches, performance
from l2g2g.paper.cells import CONTENDERS, contender_of
from l2g2g.paper.results import (
    SCORES,
    SIZES,
    Measure,
    Row,
    datasets_in,
    deviation,
    epoch_seconds,
    percents,
    pick,
    printed_score,
)
from l2g2g.paper.study import PROTOCOLS, timing_options
from l2g2g.paper.verdicts import CANNOT_BE_SAID, Estimate, Measurement

SCORE_BYTES = 4
Name = TypeVar("Name")


# --- accuracy -------------------------------------------------------------------------------------------


def score_gap(
    rows: list[Row],
    quick: bool,
    *,
    ours: str = "l2g2g",
    others: tuple[str, ...],
    score: Measure = "auc",
    missing: str = Measurement.missing,
) -> Measurement:
    """Score of a method minus that of the best of others, by graph under both protocols."""
    rows = pick(rows, options=performance.options_of(quick))
    names = (ours, *others)
    values: dict[str, dict[str, Estimate]] = {}
    for protocol in PROTOCOLS:
        values[protocol] = {}
        for dataset in datasets_in(pick(rows, protocol=protocol)):
            runs = {name: pick(rows, dataset=dataset, contender=name, protocol=protocol) for name in names}
            scores = _common_scores(runs, score)
            if scores:
                values[protocol][dataset] = _gap(scores, ours, others)
    printed = {
        dataset: _gap({name: [mean] for name, (mean, _) in own.items()}, ours, others)
        for dataset, own in SCORES[score].items()
    }
    notes = ["FastGAE with the sampler repaired"] if "fastgae" in names else []
    if "fastgae" in others:
        notes += _against_printed_fastgae(pick(rows, protocol="paper"), score)
    labels = [CONTENDERS[name].label for name in others]
    other = labels[0] if len(labels) == 1 else f"the best of {', '.join(labels)}"
    title = f"{score.upper()} of {CONTENDERS[ours].label} minus {other}"
    return Measurement(title, values, "+.2f", printed, all_graphs_count=False, notes=notes, missing=missing)


def _common_scores(runs: dict[Name, list[Row]], measure: str = "auc") -> dict[Name, list[float]]:
    """Scores in percent of every list of runs by the seeds that all of them have; empty where there are none."""
    scores = {
        name: {row["cell"]["seed"]: 100 * row[measure] for row in own if row.get(measure) is not None}
        for name, own in runs.items()
    }
    common = sorted(set.intersection(*map(set, scores.values()))) if scores else []
    return {name: [own[seed] for seed in common] for name, own in scores.items()} if common else {}


def _gap(scores: dict[str, list[float]], ours: str, others: tuple[str, ...]) -> Estimate:
    """One method minus that of the others whose mean is best."""
    best = max(others, key=lambda name: fmean(scores[name]))
    differences = [own - other for own, other in zip(scores[ours], scores[best], strict=True)]
    return Estimate(fmean(differences), deviation(differences) / len(differences) ** 0.5)


def _against_printed_fastgae(rows: list[Row], measure: Measure) -> list[str]:
    """How the measured L2G2G compares with the printed FastGAE, whose sampler is repaired here."""
    ahead = []
    for dataset in datasets_in(rows):
        scores = percents(pick(rows, dataset=dataset, contender="l2g2g"), measure)
        printed = printed_score(measure, dataset, "fastgae")
        if scores and printed is not None:
            ahead.append(fmean(scores) > printed[0])
    words = f"against the printed FastGAE values, L2G2G (paper) is ahead on {sum(ahead)} of {len(ahead)}"
    return [words] if ahead else []


def gap_with_best_cut(rows: list[Row], quick: bool) -> Measurement:
    """AUC of L2G2G minus GAE with the cut, of two or more, that keeps the most edges inside patches."""
    values: dict[str, dict[str, Estimate]] = {}
    for protocol in PROTOCOLS:
        values[protocol] = {}
        for dataset in datasets_in(rows):
            own = pick(rows, dataset=dataset, protocol=protocol)
            gae = pick(own, contender="gae", options=cuts.options_of(cuts.QUICK_CUTS[0], quick))
            gaps: list[tuple[float, Estimate]] = []
            for cut in cuts.CUTS:
                kept = cuts.kept_edges(rows, dataset, protocol, cut, quick)
                ours = pick(own, contender="l2g2g", options=cuts.options_of(cut, quick))
                scores = _common_scores({"gae": gae, "l2g2g": ours})
                if kept is not None and scores:
                    gap = _gap(scores, "l2g2g", ("gae",))
                    text = f"{gap:+.2f} ({cut}, {kept:.0f} % of edges kept)"
                    gaps.append((kept, replace(gap, text=text)))
            if len(gaps) > 1:
                values[protocol][dataset] = max(gaps, key=lambda found: found[0])[1]
    title, missing = "AUC of L2G2G minus GAE", "no two cuts to choose from"
    return Measurement(title, values, "+.2f", all_graphs_count=False, missing=missing)


def curves_by_patches(
    rows: list[Row], quick: bool, *, what: str, summary: Callable[[dict[int, float]], float]
) -> Measurement:
    """A summary of mean AUC by number of patches, over the seeds that all numbers and both methods have."""
    names = ("l2g2g", "gae+l2g")
    values: dict[str, dict[str, Estimate]] = {}
    for protocol in PROTOCOLS:
        values[protocol] = {}
        for dataset in datasets_in(rows):
            runs: dict[tuple[str, int], list[Row]] = {}
            for count in patches.COUNTS:
                options = patches.options_of(dataset, count, quick)
                own = {
                    (name, count): pick(rows, dataset=dataset, contender=name, protocol=protocol, options=options)
                    for name in names
                }
                if all(own.values()):
                    runs |= own
            means = {place: fmean(own) for place, own in _common_scores(runs).items()}
            curves = [{count: mean for (own, count), mean in means.items() if own == name} for name in names]
            if len(curves[0]) > 1:
                ours, theirs = map(summary, curves)
                values[protocol][dataset] = Estimate(ours - theirs, text=f"{ours:+.2f} against {theirs:+.2f}")
    return Measurement(f"{what}, L2G2G against GAE+L2G", values, all_graphs_count=False)


# --- ablation -------------------------------------------------------------------------------------------

NO_ROTATIONS = ablation.replace(ablation.PAPER, alignment="identity")
ALL_NODES = ablation.replace(ablation.PAPER, pairs="all nodes")


def ablation_effect(
    rows: list[Row], quick: bool, *, variant: ablation.Variant, base: ablation.Variant, what: str
) -> Measurement:
    """Effect of one change to the paper's variant on AUC; the ablation has held-out links only."""
    outcomes = ablation.collect(rows, ablation.epochs_of(quick))
    datasets = [name for name in datasets_in(rows) if name not in STAND_INS]
    effect = ablation.effect_of(outcomes[variant], outcomes[base], datasets)
    title = f"AUC {what}, in the paper's variant"
    if effect is None:
        return Measurement(title, {"": {}})
    by_graph = ", ".join(f"{name} {value:+.2f}" for name, value in effect.by_dataset.items())
    value = Estimate(effect.mean, effect.error, f"{effect.mean:+.2f} ({by_graph}): {effect.verdict}")
    words = {"too few runs to say": CANNOT_BE_SAID, "no clear difference": "no clear difference"}
    return Measurement(title, {"heldout": {"": value}}, undecided=words.get(effect.verdict, ""))


def ablation_epoch_ratio(rows: list[Row], quick: bool) -> Measurement:
    """Time of an epoch with pairs of all nodes over that with pairs inside patches."""
    epochs = ablation.epochs_of(quick)
    ratios = {}
    for dataset in datasets_in(rows):
        both = [
            pick(rows, dataset=dataset, options={**variant.options, "epochs": epochs})
            for variant in (ALL_NODES, ablation.PAPER)
        ]
        if all(both):
            everywhere, inside = (median(map(epoch_seconds, own)) for own in both)
            ratios[dataset] = everywhere / inside
    return Measurement(
        "epoch with pairs of all nodes ÷ pairs inside patches, in the paper's variant", {"": ratios}, ".2f"
    )


# --- time by graph --------------------------------------------------------------------------------------


def _epochs(rows: list[Row], quick: bool, *names: str) -> dict[str, list[float]]:
    """Seconds of an epoch of each method, by graph where all of them were run."""
    rows, found = pick(rows, options=timing_options(quick)), {}
    for dataset in datasets_in(rows):
        runs = [pick(rows, dataset=dataset, contender=name) for name in names]
        if all(runs):
            found[dataset] = [median(map(epoch_seconds, own)) for own in runs]
    return found


def epoch_ratio(rows: list[Row], quick: bool, *, ours: str = "l2g2g", other: str) -> Measurement:
    """Time of an epoch of a method over that of another."""
    ratios = {dataset: own / theirs for dataset, (own, theirs) in _epochs(rows, quick, ours, other).items()}
    return Measurement(f"epoch of {CONTENDERS[ours].label} ÷ {CONTENDERS[other].label}", {"": ratios}, ".2f")


def epoch_difference(rows: list[Row], quick: bool) -> Measurement:
    """Time of an epoch of L2G2G minus that of GAE+L2G."""
    gaps = {dataset: own - theirs for dataset, (own, theirs) in _epochs(rows, quick, "l2g2g", "gae+l2g").items()}
    return Measurement("epoch of L2G2G minus GAE+L2G in seconds", {"": gaps}, "+.4f")


# --- time by number of patches --------------------------------------------------------------------------


def _by_count(rows: list[Row], quick: bool, dataset: str, name: str) -> dict[int, float]:
    found = patch_time.runs_by_count(rows, dataset, name, quick)
    return {count: median(map(epoch_seconds, own)) for count, own in found.items()}


def time_by_patches(rows: list[Row], quick: bool) -> Measurement:
    """Time of an epoch of L2G2G with the most patches over that with the fewest."""
    ratios, spans = {}, set()
    for dataset in datasets_in(rows):
        times = _by_count(rows, quick, dataset, "l2g2g")
        if len(times) > 1:
            ratios[dataset] = times[max(times)] / times[min(times)]
            spans.add(f"{max(times)} patches ÷ {min(times)}")
    return Measurement(f"epoch of L2G2G, {', '.join(sorted(spans))}", {"": ratios}, ".2f")


def time_gap_by_patches(rows: list[Row], quick: bool, *, value: Callable[[float, float, float], float]) -> Measurement:
    """Time of an epoch of L2G2G minus GAE+L2G with the fewest patches and with the most.

    value: what is judged, of both gaps and the time of GAE+L2G with the fewest patches.
    """
    gaps = {}
    for dataset in datasets_in(rows):
        ours, theirs = (_by_count(rows, quick, dataset, name) for name in ("l2g2g", "gae+l2g"))
        counts = sorted(set(ours) & set(theirs))
        if len(counts) > 1:
            few, many = counts[0], counts[-1]
            first, last = (1000 * (ours[count] - theirs[count]) for count in (few, many))
            reference = 1000 * theirs[few]
            shown = f"{first:+.1f} with {few} patches and {last:+.1f} with {many}"
            text = f"{shown} where GAE+L2G takes {reference:.1f} with {few}"
            gaps[dataset] = Estimate(value(first, last, reference), text=text)
    return Measurement("epoch of L2G2G minus GAE+L2G in ms", {"": gaps})


def largest_patch(rows: list[Row], quick: bool) -> Measurement:
    """Nodes of the largest patch over N / k, for the k where that is most."""
    ratios = {}
    for dataset in datasets_in(rows):
        found = patch_time.runs_by_count(rows, dataset, "l2g2g", quick)
        sizes = [own[0]["largest_patch_nodes"] * count / own[0]["num_nodes"] for count, own in found.items()]
        if sizes:
            ratios[dataset] = max(sizes)
    return Measurement("largest patch ÷ (N / k), for the k where it is most", {"": ratios}, ".1f")


# --- growth ---------------------------------------------------------------------------------------------


def _sweep_times(rows: list[Row], quick: bool, name: str, contender: str) -> dict[int, float]:
    """Seconds of an epoch by the quantity that a sweep varies."""
    (sweep,) = [sweep for sweep in complexity.sweeps(quick) if sweep.name == name]
    return complexity.times_of(rows, sweep, contender, quick)


def exponents(
    rows: list[Row], quick: bool, *, sweep: str, methods: tuple[str, ...], what: str, widest: float = math.inf
) -> Measurement:
    """Fitted exponents of the time of an epoch in N, by method.

    what: the title before the range of N; widest: two standard errors above which nothing can be said.
    """
    fits, nodes = {}, set()
    for name in methods:
        times = _sweep_times(rows, quick, sweep, name)
        fit = complexity.fit_exponent(times, times.values())
        if fit is not None:
            fits[CONTENDERS[name].label] = Estimate(fit.exponent, fit.error)
            nodes |= set(times)
    span = f", {min(nodes):,} to {max(nodes):,} nodes" if nodes else ""
    is_sure = len(fits) == len(methods) and all(2 * fit.error < widest for fit in fits.values())
    return Measurement(f"exponent in N, {what}{span}", {"": fits}, undecided="" if is_sure else CANNOT_BE_SAID)


def decoder_ratio(rows: list[Row], quick: bool) -> Measurement:
    """Time of an epoch of the patch methods over that of GAE where all pairs are decoded, on the largest graph."""
    gae, *patched = (_sweep_times(rows, quick, "pairs", name) for name in ("gae", "gae+l2g", "l2g2g"))
    common = set(gae).intersection(*patched)
    if not common:
        return Measurement("", {})
    largest = max(common)
    ratios = {
        CONTENDERS[name].label: Estimate(own[largest] / gae[largest], text=f"{1000 * own[largest]:.1f} ms")
        for name, own in zip(("gae+l2g", "l2g2g"), patched, strict=True)
    }
    title = f"epoch, all pairs decoded, {largest:,} nodes, shorter than GAE's {1000 * gae[largest]:.1f} ms"
    return Measurement(title, {"": ratios})


def gap_line(rows: list[Row], quick: bool) -> Measurement:
    """R² of a line through the time of an epoch of L2G2G minus GAE+L2G by number of patches; 0 if it does not rise."""
    ours, theirs = (_sweep_times(rows, quick, "k", name) for name in ("l2g2g", "gae+l2g"))
    gaps = {count: 1000 * (ours[count] - theirs[count]) for count in sorted(set(ours) & set(theirs))}
    title = "epoch of L2G2G minus GAE+L2G in ms"
    if len(gaps) < 2:
        return Measurement(title, {"": {}})
    counts, values = np.array(list(gaps)), np.array(list(gaps.values()))
    slope, start = np.polyfit(counts, values, 1)
    spread = float(np.var(values))
    share = 1 - float(np.var(values - start - slope * counts)) / spread if spread > 0 else 0.0
    shown = ", ".join(f"k = {count}: {gap:+.1f}" for count, gap in gaps.items())
    text = f"{shown}; slope {slope:+.2f} ms a patch, R² {share:.2f}"
    value = Estimate(share if slope > 0 and values[-1] > 0 else 0.0, text=text)
    return Measurement(title, {"": {"": value}}, undecided=CANNOT_BE_SAID if len(gaps) < 3 else "")


# --- memory ---------------------------------------------------------------------------------------------


def _gae_peaks(rows: list[Row], quick: bool) -> dict[str, float]:
    """Peak memory of GAE with sampled pairs in GB, by graph."""
    own = pick(rows, contender="gae", options=timing_options(quick))
    return {name: max(row["peak_memory_bytes"] for row in pick(own, dataset=name)) / 1e9 for name in datasets_in(own)}


def score_matrix(rows: list[Row], quick: bool) -> Measurement:
    """Gigabytes of the scores of all pairs, and what GAE took with sampled pairs on the graph with most nodes."""
    peaks = _gae_peaks(rows, quick)
    nodes = {row["cell"]["dataset"]: row["num_nodes"] for row in pick(rows)}
    needed = {name: SCORE_BYTES * nodes[name] ** 2 / 1e9 for name in sorted(peaks, key=nodes.__getitem__)}
    notes = []
    if needed:
        largest = list(needed)[-1]
        notes = [f"with sampled pairs all of {largest} took at most {peaks[largest]:.1f} GB"]
    return Measurement("GB of N² scores", {"": needed}, ",.2f", notes=notes)


def peak_memory(rows: list[Row], quick: bool) -> Measurement:
    """Peak memory of GAE with sampled pairs in GB by graph; infinite where a run failed for want of memory."""
    peaks = _gae_peaks(rows, quick)
    for row in rows:
        is_gae = contender_of(row) == "gae" and row["cell"].get("options") == timing_options(quick)
        if is_gae and "memory" in row.get("error", "").lower():
            peaks[row["cell"]["dataset"]] = math.inf
    return Measurement("GAE out of memory with sampled pairs (peak in GB; inf: out of memory)", {"": peaks}, ".1f")


# --- what the paper prints ------------------------------------------------------------------------------


def equal_columns(rows: list[Row], quick: bool) -> Measurement:
    """By method, the share of the data sets for which the printed AUC and AP are the same."""
    auc, ap = SCORES["auc"], SCORES["ap"]
    found = {
        CONTENDERS[name].label: fmean(auc[dataset][name] == ap[dataset][name] for dataset in auc)
        for name in next(iter(auc.values()))
    }
    return Measurement("share of the data sets for which AUC and AP are printed the same", {"": found}, ".0%")


def stated_edges(rows: list[Row], quick: bool) -> Measurement:
    """Edges expected of the block models as stated; where a name stands for another model, NAME-stated is that one."""
    expected = {info.name: info.num_edges or 0 for info in list_datasets() if info.kind == "block model"}
    stated = {name: expected.get(f"{name}-stated", expected[name]) for name in SIZES if name in expected}
    return Measurement("edges expected of the stated model against printed", {"": _against_printed_edges(stated)})


def counted_edges(rows: list[Row], quick: bool) -> Measurement:
    """Undirected edges of the real graphs."""
    generated = {info.name for info in list_datasets() if info.kind != "file"}
    counts = {row["cell"]["dataset"]: row["num_edges"] for row in rows if "error" not in row}
    real = {name: count for name, count in counts.items() if name in SIZES and name not in generated}
    return Measurement("undirected edges against printed", {"": _against_printed_edges(real)})


def _against_printed_edges(counts: dict[str, int]) -> dict[str, Estimate]:
    """Relative differences."""
    printed = {name: SIZES[name].num_edges for name in counts}
    return {
        name: Estimate(count / printed[name] - 1, text=f"{count:,} against {printed[name]:,}")
        for name, count in counts.items()
    }
