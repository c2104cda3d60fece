"""Quantities that the claims are about, measured in stored lines, by graph or by method.

Every function takes the lines of its study and whether it was a quick run, and returns a `Measurement`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from statistics import fmean, median, median_high
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
from l2g2g.paper.verdicts import CANNOT_BE_SAID, Estimate, Measurement, printed_row

_SCORE_BYTES = 4
Name = TypeVar("Name")
Value = TypeVar("Value", float, Estimate)


def is_small(row: Row) -> bool:
    """Return True for the graphs above the first line of Table 3."""
    return bool(row["num_nodes"] < 100_000)


def is_huge(row: Row) -> bool:
    """Return True for what the paper calls larger models."""
    return bool(row["num_edges"] >= 1_000_000)


def _by_graph(rows: list[Row], estimate: Callable[[list[Row]], Value | None]) -> dict[str, Value]:
    """Estimate a value from the lines of each graph; None leaves the graph out."""
    found = {name: estimate(pick(rows, dataset=name)) for name in datasets_in(rows)}
    return {name: value for name, value in found.items() if value is not None}


def _by_protocol(rows: list[Row], estimate: Callable[[list[Row]], Value | None]) -> dict[str, dict[str, Value]]:
    return {protocol: _by_graph(pick(rows, protocol=protocol), estimate) for protocol in PROTOCOLS}


def _group_lead(
    measured: Measurement, rows: list[Row], group_of: Callable[[Row], str], lead: str, floor: float = -math.inf
) -> Measurement:
    """Subtract from the mean value of one group of graphs the largest mean of the other groups, at least `floor`."""

    def group_means(values: Mapping[str, float | Estimate], row_of: Callable[[str], Row]) -> dict[str, float]:
        groups: dict[str, list[float]] = {}
        for name, value in values.items():
            groups.setdefault(group_of(row_of(name)), []).append(float(value))
        return {group: fmean(own) for group, own in groups.items()}

    row_of = {row["cell"]["dataset"]: row for row in rows if "error" not in row}
    leads: dict[str, dict[str, Estimate]] = {}
    for protocol, all_values in measured.values.items():
        values = {name: value for name, value in all_values.items() if not measured.excluded_as(name)}
        means = group_means(values, row_of.__getitem__)
        rivals = [mean for group, mean in means.items() if group != lead]
        if lead in means and rivals:
            text = f"{measured.show(means)} ({measured.show(values)})"
            leads[protocol] = {"": Estimate(means[lead] - max(*rivals, floor), text=text)}
    printed = measured.show(group_means(measured.printed, printed_row))
    notes = [f"as printed: {printed}"] if printed else []
    return Measurement(f"mean {measured.title}", leads, notes=notes)


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
    """Measure the score of a method minus the best of others, by graph under both protocols."""
    rows = pick(rows, options=performance.options_of(quick))
    names = (ours, *others)

    def gap(own: list[Row]) -> Estimate | None:
        scores = _common_scores({name: pick(own, contender=name) for name in names}, score)
        return _gap(scores, ours, others) if scores else None

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
    values = _by_protocol(rows, gap)
    return Measurement(title, values, "+.2f", printed, all_graphs_count=False, notes=notes, missing=missing)


def _common_scores(runs: dict[Name, list[Row]], measure: str = "auc") -> dict[Name, list[float]]:
    """Return scores in percent on the seeds that all lists of runs have; empty if there are none."""
    scores = {
        name: {row["cell"]["seed"]: 100 * row[measure] for row in own if row.get(measure) is not None}
        for name, own in runs.items()
    }
    common = sorted(set.intersection(*map(set, scores.values()))) if scores else []
    return {name: [own[seed] for seed in common] for name, own in scores.items()} if common else {}


def _gap(scores: dict[str, list[float]], ours: str, others: tuple[str, ...]) -> Estimate:
    """Subtract the scores of the other method with the best mean."""
    best = max(others, key=lambda name: fmean(scores[name]))
    differences = [own - other for own, other in zip(scores[ours], scores[best], strict=True)]
    return Estimate(fmean(differences), deviation(differences) / len(differences) ** 0.5)


def _against_printed_fastgae(rows: list[Row], measure: Measure) -> list[str]:
    """Compare the measured L2G2G with the printed FastGAE, whose sampler is repaired here."""
    ahead = []
    for dataset in datasets_in(rows):
        scores = percents(pick(rows, dataset=dataset, contender="l2g2g"), measure)
        printed = printed_score(measure, dataset, "fastgae")
        if scores and printed is not None:
            ahead.append(fmean(scores) > printed[0])
    words = f"against the printed FastGAE values, L2G2G (paper) is ahead on {sum(ahead)} of {len(ahead)}"
    return [words] if ahead else []


def gain_by_scale(rows: list[Row], quick: bool) -> Measurement:
    """Compare the gain over GAE+L2G on graphs of 100,000 nodes with that on smaller and larger graphs."""

    def scale(row: Row) -> str:
        return "small" if is_small(row) else "medium" if row["num_nodes"] < 200_000 else "large"

    return _group_lead(score_gap(rows, quick, others=("gae+l2g",)), rows, scale, "medium")


def gap_with_best_cut(rows: list[Row], quick: bool) -> Measurement:
    """Measure AUC of L2G2G minus GAE with the cut, of two or more, that keeps the most edges inside patches."""

    def gap(own: list[Row]) -> Estimate | None:
        gae = pick(own, contender="gae", options=cuts.options_of(cuts.QUICK_CUTS[0], quick))
        gaps: list[tuple[float, Estimate]] = []
        for cut in cuts.CUTS:
            kept = cuts.kept_edges(own, cut, quick)
            ours = pick(own, contender="l2g2g", options=cuts.options_of(cut, quick))
            scores = _common_scores({"gae": gae, "l2g2g": ours})
            if kept is not None and scores:
                found = _gap(scores, "l2g2g", ("gae",))
                gaps.append((kept, replace(found, text=f"{found:+.2f} ({cut}, {kept:.0f} % of edges kept)")))
        return max(gaps, key=lambda pair: pair[0])[1] if len(gaps) > 1 else None

    missing = "no two cuts to choose from"
    values = _by_protocol(rows, gap)
    return Measurement("AUC of L2G2G minus GAE", values, "+.2f", all_graphs_count=False, missing=missing)


def _curves_by_patches(
    rows: list[Row], quick: bool, what: str, summarise: Callable[[dict[int, float]], float]
) -> Measurement:
    """Compare a summary of mean AUC by number of patches, on the seeds that all numbers and both methods have."""

    def compare(own: list[Row]) -> Estimate | None:
        runs: dict[tuple[str, int], list[Row]] = {}
        for count in patches.COUNTS:
            options = patches.options_of(own[0]["cell"]["dataset"], count, quick)
            both = {(name, count): pick(own, contender=name, options=options) for name in ("l2g2g", "gae+l2g")}
            if all(both.values()):
                runs |= both
        curves: dict[str, dict[int, float]] = {"l2g2g": {}, "gae+l2g": {}}
        for (name, count), scores in _common_scores(runs).items():
            curves[name][count] = fmean(scores)
        if len(curves["l2g2g"]) < 2:
            return None
        ours, theirs = map(summarise, curves.values())
        return Estimate(ours - theirs, text=f"{ours:+.2f} against {theirs:+.2f}")

    return Measurement(f"{what}, L2G2G against GAE+L2G", _by_protocol(rows, compare), all_graphs_count=False)


def change_by_patches(rows: list[Row], quick: bool) -> Measurement:
    """Compare how much the mean AUC changes from the fewest patches to the most."""
    what = "change of AUC from the fewest patches to the most"
    return _curves_by_patches(rows, quick, what, lambda means: means[max(means)] - means[min(means)])


def range_by_patches(rows: list[Row], quick: bool) -> Measurement:
    """Compare the lowest minus the highest mean AUC over the numbers of patches."""
    what = "lowest minus highest AUC over 2 to 10 patches"
    return _curves_by_patches(rows, quick, what, lambda means: min(means.values()) - max(means.values()))


# --- ablation -------------------------------------------------------------------------------------------

_NO_ROTATIONS = replace(ablation.PAPER, alignment="identity")
_ALL_NODES = replace(ablation.PAPER, pairs="all nodes")


def _ablation_effect(
    rows: list[Row], quick: bool, variant: ablation.Variant, base: ablation.Variant, what: str
) -> Measurement:
    """Measure the effect of one change on AUC; the ablation has held-out links only."""
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


def rotation_effect(rows: list[Row], quick: bool) -> Measurement:
    """Measure the effect of rotations on the paper's variant."""
    what = "with rotations minus without any alignment"
    return _ablation_effect(rows, quick, ablation.PAPER, _NO_ROTATIONS, what)


def all_pairs_effect(rows: list[Row], quick: bool) -> Measurement:
    """Measure the effect of losses between patches on the paper's variant."""
    what = "with pairs of all nodes minus pairs inside patches"
    return _ablation_effect(rows, quick, _ALL_NODES, ablation.PAPER, what)


def all_pairs_cost(rows: list[Row], quick: bool) -> Measurement:
    """Measure the time of an epoch with pairs of all nodes over that with pairs inside patches."""
    epochs = ablation.epochs_of(quick)

    def ratio(own: list[Row]) -> float | None:
        both = [pick(own, options={**variant.options, "epochs": epochs}) for variant in (_ALL_NODES, ablation.PAPER)]
        if not all(both):
            return None
        everywhere, inside = (median(map(epoch_seconds, runs)) for runs in both)
        return everywhere / inside

    title = "epoch with pairs of all nodes ÷ pairs inside patches, in the paper's variant"
    return Measurement(title, {"": _by_graph(rows, ratio)})


# --- time by graph --------------------------------------------------------------------------------------


def _epochs(rows: list[Row], quick: bool, *names: str) -> dict[str, list[float]]:
    """Return seconds of an epoch of each method, by graph if all of them were run."""
    rows, found = pick(rows, options=timing_options(quick)), {}
    for dataset in datasets_in(rows):
        runs = [pick(rows, dataset=dataset, contender=name) for name in names]
        if all(runs):
            found[dataset] = [median(map(epoch_seconds, own)) for own in runs]
    return found


def needs_gpu(rows: list[Row], quick: bool) -> Measurement:
    """Measure nothing: no run here used a GPU."""
    return Measurement("", {}, missing="needs the times of a GPU; none were taken")


def epoch_ratio(rows: list[Row], quick: bool, *, ours: str = "l2g2g", other: str) -> Measurement:
    """Measure the time of an epoch of a method over that of another."""
    ratios = {dataset: own / theirs for dataset, (own, theirs) in _epochs(rows, quick, ours, other).items()}
    return Measurement(f"epoch of {CONTENDERS[ours].label} ÷ {CONTENDERS[other].label}", {"": ratios})


def median_epoch_ratios(rows: list[Row], quick: bool) -> Measurement:
    """Measure the time of an epoch over GAE's, by fast method: the upper median over the graphs.

    It is at most a limit if and only if the ratios of more than half of the graphs are.
    """
    found = {}
    for name in ("fastgae", "gae+l2g", "l2g2g"):
        measured = epoch_ratio(rows, quick, ours=name, other="gae")
        ratios = measured.values[""]
        if not ratios:
            return Measurement("", {})
        middle = median_high(ratios.values())
        found[CONTENDERS[name].label] = Estimate(middle, text=f"{middle:.2f} ({measured.show(ratios)})")
    return Measurement("epoch ÷ GAE, upper median over the graphs", {"": found})


def epoch_gap_by_size(rows: list[Row], quick: bool) -> Measurement:
    """Compare the time of L2G2G minus GAE+L2G on graphs of a million edges or more with the others, and with 0."""
    gaps = {dataset: own - theirs for dataset, (own, theirs) in _epochs(rows, quick, "l2g2g", "gae+l2g").items()}
    measured = Measurement("epoch of L2G2G minus GAE+L2G in seconds", {"": gaps}, "+.4f")
    return _group_lead(measured, rows, lambda row: "large" if is_huge(row) else "others", "large", floor=0)


# --- time by number of patches --------------------------------------------------------------------------


def _epochs_by_count(rows: list[Row], quick: bool, name: str) -> dict[int, float]:
    found = patch_time.runs_by_count(rows, name, quick)
    return {count: median(map(epoch_seconds, own)) for count, own in found.items()}


def time_by_patches(rows: list[Row], quick: bool) -> Measurement:
    """Measure the time of an epoch of L2G2G with the most patches over that with the fewest."""
    spans = set()

    def ratio(own: list[Row]) -> float | None:
        times = _epochs_by_count(own, quick, "l2g2g")
        if len(times) < 2:
            return None
        spans.add(f"{max(times)} patches ÷ {min(times)}")
        return times[max(times)] / times[min(times)]

    ratios = _by_graph(rows, ratio)
    return Measurement(f"epoch of L2G2G, {', '.join(sorted(spans))}", {"": ratios})


def time_gap_by_patches(rows: list[Row], quick: bool, *, value: Callable[[float, float, float], float]) -> Measurement:
    """Measure the time of an epoch of L2G2G minus GAE+L2G with the fewest patches and with the most.

    value: what is judged, from both gaps and the time of GAE+L2G with the fewest patches.
    """

    def gap(own: list[Row]) -> Estimate | None:
        ours, theirs = (_epochs_by_count(own, quick, name) for name in ("l2g2g", "gae+l2g"))
        counts = sorted(set(ours) & set(theirs))
        if len(counts) < 2:
            return None
        few, many = counts[0], counts[-1]
        first, last = (1000 * (ours[count] - theirs[count]) for count in (few, many))
        reference = 1000 * theirs[few]
        shown = f"{first:+.1f} with {few} patches and {last:+.1f} with {many}"
        return Estimate(value(first, last, reference), text=f"{shown} where GAE+L2G takes {reference:.1f} with {few}")

    return Measurement("epoch of L2G2G minus GAE+L2G in ms", {"": _by_graph(rows, gap)})


def largest_patch(rows: list[Row], quick: bool) -> Measurement:
    """Measure the nodes of the largest patch over N / k, for the k with the highest ratio."""

    def ratio(own: list[Row]) -> float | None:
        found = patch_time.runs_by_count(own, "l2g2g", quick)
        sizes = (runs[0]["largest_patch_nodes"] * count / runs[0]["num_nodes"] for count, runs in found.items())
        return max(sizes, default=None)

    return Measurement("largest patch ÷ (N / k), for the k where it is most", {"": _by_graph(rows, ratio)}, ".1f")


# --- growth ---------------------------------------------------------------------------------------------


def _sweep_times(rows: list[Row], quick: bool, name: str, contender: str) -> dict[int, float]:
    """Return seconds of an epoch by the quantity that a sweep varies."""
    (sweep,) = [sweep for sweep in complexity.sweeps(quick) if sweep.name == name]
    return {value: median(own) for value, own in complexity.times_of(rows, sweep, contender, quick).items()}


def _exponents(
    rows: list[Row], quick: bool, sweep: str, methods: tuple[str, ...], what: str, widest: float = math.inf
) -> Measurement:
    """Fit exponents of the time of an epoch in N, by method. widest: two standard errors that still decide."""
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


def sparse_exponents(rows: list[Row], quick: bool) -> Measurement:
    """Fit the exponents of the paper's four methods."""
    return _exponents(rows, quick, "n", ("gae", "fastgae", "gae+l2g", "l2g2g"), "M / N constant")


def decoder_exponent(rows: list[Row], quick: bool) -> Measurement:
    """Fit the exponent of GAE with a decoder of all pairs."""
    return _exponents(rows, quick, "pairs", ("gae",), "all pairs decoded", widest=0.5)


def decoder_ratio(rows: list[Row], quick: bool) -> Measurement:
    """Measure the time of an epoch of the patch methods over GAE's, all pairs decoded, on the largest graph."""
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
    """Fit a line to the time of L2G2G minus GAE+L2G by number of patches: its R², or 0 if it does not rise."""
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
    """Return the peak memory of GAE with sampled pairs in GB, by graph."""
    own = pick(rows, contender="gae", options=timing_options(quick))
    return _by_graph(own, lambda runs: max(row["peak_memory_bytes"] for row in runs) / 1e9)


def score_matrix(rows: list[Row], quick: bool) -> Measurement:
    """Compute the gigabytes of the scores of all pairs, and note what GAE took with sampled pairs."""
    peaks = _gae_peaks(rows, quick)
    nodes = {row["cell"]["dataset"]: row["num_nodes"] for row in pick(rows)}
    needed = {name: _SCORE_BYTES * nodes[name] ** 2 / 1e9 for name in sorted(peaks, key=nodes.__getitem__)}
    notes = []
    if needed:
        largest = list(needed)[-1]
        notes = [f"with sampled pairs all of {largest} took at most {peaks[largest]:.1f} GB"]
    return Measurement(f"GB of N² scores of {_SCORE_BYTES} bytes", {"": needed}, ",.2f", notes=notes)


def peak_memory(rows: list[Row], quick: bool) -> Measurement:
    """Measure the peak memory of GAE with sampled pairs in GB by graph; infinite if a run ran out of memory."""
    peaks = _gae_peaks(rows, quick)
    for row in rows:
        is_gae = contender_of(row) == "gae" and row["cell"].get("options") == timing_options(quick)
        if is_gae and "memory" in row.get("error", "").lower():
            peaks[row["cell"]["dataset"]] = math.inf
    return Measurement("GAE out of memory with sampled pairs (peak in GB; inf: out of memory)", {"": peaks}, ".1f")


# --- what the paper prints ------------------------------------------------------------------------------


def equal_columns(rows: list[Row], quick: bool) -> Measurement:
    """Count, by method, the data sets for which the printed AUC and AP are the same."""
    auc, ap = SCORES["auc"], SCORES["ap"]
    found = {
        CONTENDERS[name].label: fmean(auc[dataset][name] == ap[dataset][name] for dataset in auc)
        for name in next(iter(auc.values()))
    }
    return Measurement("share of the data sets for which AUC and AP are printed the same", {"": found}, ".0%")


def stated_edges(rows: list[Row], quick: bool) -> Measurement:
    """Compare the expected edges of the block models as stated; NAME-stated is used where NAME differs."""
    expected = {info.name: info.num_edges or 0 for info in list_datasets() if info.kind == "block model"}
    stated = {name: expected.get(f"{name}-stated", expected[name]) for name in SIZES if name in expected}
    return Measurement("edges expected of the stated model against printed", {"": _against_printed_edges(stated)})


def counted_edges(rows: list[Row], quick: bool) -> Measurement:
    """Compare the undirected edges of the real graphs."""
    generated = {info.name for info in list_datasets() if info.kind != "file"}
    counts = {row["cell"]["dataset"]: row["num_edges"] for row in rows if "error" not in row}
    real = {name: count for name, count in counts.items() if name in SIZES and name not in generated}
    return Measurement("undirected edges against printed", {"": _against_printed_edges(real)})


def _against_printed_edges(counts: dict[str, int]) -> dict[str, Estimate]:
    """Return relative differences."""
    printed = {name: SIZES[name].num_edges for name in counts}
    return {
        name: Estimate(count / printed[name] - 1, text=f"{count:,} against {printed[name]:,}")
        for name, count in counts.items()
    }
