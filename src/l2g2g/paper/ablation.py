"""Ablation: what in L2G2G matters. Factors changed one at a time and in the pairs that interact."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product
from statistics import fmean, stdev
from typing import Any, Literal, get_args

from l2g2g.paper.cells import Cell
from l2g2g.reports.dots import DotGroup, DotRow

# Graphs and how many seeds each: small graphs vary more and cost less. In all about half an hour on one thread.
DATASETS = {"cora-ml": 3, "sbm-small": 3, "pubmed": 2}
QUICK_DATASETS = {"sbm-small": 1}
EPOCHS, QUICK_EPOCHS = 100, 15
_OTHER_SEEDS = 3

# Each factor, its levels in words, and the settings that a level means.
FACTORS: dict[str, dict[str, dict[str, Any]]] = {
    "encoders": {"shared": {"share_encoder": True}, "separate": {"share_encoder": False}},
    "alignment": {
        "identity": {"rotate": False, "translate": False},
        "rotations": {"rotate": True, "translate": False},
        "rotations + translations": {"rotate": True, "translate": True},
        "differentiated": {"rotate": True, "translate": True, "align_gradient": "through"},
    },
    "pairs": {"all nodes": {"scope": "global"}, "inside patches": {"scope": "inside"}},
    "mask": {
        "random edges": {"mask": 0.7},
        "none": {"mask": 0.0},
        "nodes redrawn": {"mask": 0.7, "mask_by": "nodes"},
        "clusters regrouped": {"mask": 0.7, "mask_by": "clusters"},
        "fixed patches": {"mask_by": "patches"},
    },
    "assembly": {"whole-graph pass": {"assembly": "whole"}, "aligned mean": {"assembly": "mean"}},
    "negatives": {"fresh": {"negatives": "fresh"}, "fixed": {"negatives": "fixed"}},
    "layers": {"GCN": {}, "GraphSAGE": {"encoder": "sage"}},  # GCN sets nothing, as in the lines that are stored
}


@dataclass(frozen=True)
class Variant:
    """One level of every factor."""

    encoders: str = "shared"
    alignment: str = "identity"
    pairs: str = "all nodes"
    mask: str = "random edges"
    assembly: str = "whole-graph pass"
    negatives: str = "fresh"
    layers: str = "GCN"

    @property
    def possible(self) -> bool:
        """A whole-graph pass needs one encoder; edges between fixed patches are not inside them."""
        if self.encoders == "separate" and self.assembly == "whole-graph pass":
            return False
        return not (self.mask == "fixed patches" and self.pairs == "inside patches")

    @property
    def options(self) -> dict[str, Any]:
        """The settings of this variant."""
        levels: dict[str, Any] = {"patches": 10}
        for factor, choices in FACTORS.items():
            levels |= choices[getattr(self, factor)]
        return levels

    def differences(self, other: Variant) -> list[str]:
        """Factors in which two variants differ."""
        return [factor for factor in FACTORS if getattr(self, factor) != getattr(other, factor)]


DEFAULT = Variant()
PAPER = Variant("shared", "rotations", "inside patches", "none", "aligned mean", "fixed")


@dataclass(frozen=True)
class Section:
    """Variants that are compared with one of them, the base."""

    title: str
    base: Variant
    base_name: str
    rows: list[tuple[str, str, Variant]]


def one_at_a_time(base: Variant) -> list[tuple[str, str, Variant]]:
    """(factor, level, variant) for every other level of every factor, where it is possible.

    Separate encoders cannot end with a whole-graph pass; next to a base that does, they take the mean.
    """
    rows = []
    for factor, choices in FACTORS.items():
        for level in choices:
            variant = replace(base, **{factor: level})
            if level == getattr(base, factor):
                continue
            if level == "separate" and not variant.possible:
                variant, level = replace(variant, assembly="aligned mean"), "separate, aligned mean"
            if variant.possible:
                rows.append((factor, level, variant))
    return rows


def sections() -> list[Section]:
    """All comparisons: around the default, around the paper's corner, and the pairs of factors that interact."""
    crossed = []
    for encoders, assembly in (
        ("shared", "whole-graph pass"),
        ("shared", "aligned mean"),
        ("separate", "aligned mean"),
    ):
        for alignment in FACTORS["alignment"]:
            variant = replace(DEFAULT, encoders=encoders, assembly=assembly, alignment=alignment)
            crossed.append((f"{encoders}, {assembly}", alignment, variant))
    separate = replace(DEFAULT, encoders="separate", assembly="aligned mean")
    reach = []
    for pairs, alignment in product(FACTORS["pairs"], ("identity", "rotations + translations", "differentiated")):
        label = f"pairs of {pairs}" if pairs == "all nodes" else f"pairs {pairs}"
        reach.append((label, alignment, replace(separate, pairs=pairs, alignment=alignment)))
    hidden = []
    inside = replace(DEFAULT, pairs="inside patches")
    for mask in ("random edges", "none", "nodes redrawn", "clusters regrouped"):
        hidden.append(("mask", mask, replace(inside, mask=mask)))
    return [
        Section("One change to the default", DEFAULT, "the default", one_at_a_time(DEFAULT)),
        Section("One change to the paper's corner", PAPER, "the paper's corner", one_at_a_time(PAPER)),
        Section("Encoders, alignment and assembly in full", DEFAULT, "the default", crossed),
        Section("Separate encoders", separate, "pairs of all nodes, identity", reach),
        Section("Masks, pairs inside patches", inside, "random edges", hidden),
    ]


def variants() -> list[Variant]:
    """Every variant once."""
    found = [section.base for section in sections()]
    found += [variant for section in sections() for _, _, variant in section.rows]
    return list(dict.fromkeys(found))


def seeds_of(datasets: Iterable[str], seeds: int | None, quick: bool) -> dict[str, int]:
    """Seeds for every graph."""
    usual = QUICK_DATASETS if quick else DATASETS
    return {name: seeds or usual.get(name, 1 if quick else _OTHER_SEEDS) for name in datasets}


def plan(datasets: dict[str, int], epochs: int) -> list[Cell]:
    """All cells, graph by graph and seed by seed, so that an interrupted run has whole comparisons."""
    return [
        Cell(dataset, options={**variant.options, "epochs": epochs}, seed=seed)
        for dataset, num_seeds in datasets.items()
        for seed in range(num_seeds)
        for variant in variants()
    ]


# --- what came out ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """AUC in percent by (graph, seed) of one variant, and the runs that failed."""

    auc: dict[tuple[str, int], float]
    failed: set[tuple[str, int]]

    @property
    def was_run(self) -> bool:
        """Whether there is any line of it: a level that was added later has none, and no row in the tables."""
        return bool(self.auc or self.failed)

    def on(self, dataset: str) -> list[float]:
        """Over the seeds of one graph."""
        return [value for (name, _), value in self.auc.items() if name == dataset]

    def minus(self, other: Outcome, dataset: str | None = None) -> list[float]:
        """Differences on the same splits, of one graph or of all."""
        common = [place for place in self.auc if place in other.auc and dataset in (None, place[0])]
        return [self.auc[place] - other.auc[place] for place in common]


def collect(rows: Iterable[dict[str, Any]], epochs: int) -> dict[Variant, Outcome]:
    """Outcome of every variant, from stored lines of cells with so many epochs."""
    by_options = {_fingerprint({**variant.options, "epochs": epochs}): variant for variant in variants()}
    found: dict[Variant, Outcome] = {variant: Outcome({}, set()) for variant in variants()}
    for row in rows:
        cell = row.get("cell", {})
        variant = by_options.get(_fingerprint(cell.get("options", {})))
        if variant is not None and "auc" in row:
            found[variant].auc[cell["dataset"], cell["seed"]] = 100 * row["auc"]
        elif variant is not None:
            found[variant].failed.add((cell["dataset"], cell["seed"]))
    for outcome in found.values():
        outcome.failed.difference_update(outcome.auc)  # a later try went well
    return found


def _fingerprint(options: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, repr(value)) for name, value in options.items()))


Verdict = Literal["helps", "costs", "no clear difference", "too few runs to say"]


@dataclass(frozen=True)
class Effect:
    """Mean paired difference over graphs, each graph counted once, in points of AUC."""

    mean: float
    error: float
    by_dataset: dict[str, float]

    @property
    def verdict(self) -> Verdict:
        """Clear: more than 0.2 points, more than two standard errors, and on no graph clearly the other way.

        One seed has no standard error, and so nothing can be said.
        """
        if math.isinf(self.error):
            return "too few runs to say"
        other_way = any(value * self.mean < 0 and abs(value) > 0.2 for value in self.by_dataset.values())
        if abs(self.mean) < 0.2 or abs(self.mean) < 2 * self.error or other_way:
            return "no clear difference"
        return "helps" if self.mean > 0 else "costs"


def effect_of(variant: Outcome, base: Outcome, datasets: Iterable[str]) -> Effect | None:
    """The difference that a variant makes; None where nothing can be compared."""
    by_dataset, variances = {}, []
    for dataset in datasets:
        differences = variant.minus(base, dataset)
        if differences:
            by_dataset[dataset] = fmean(differences)
            variances.append(stdev(differences) ** 2 / len(differences) if len(differences) > 1 else math.inf)
    if not by_dataset:
        return None
    return Effect(fmean(by_dataset.values()), math.sqrt(sum(variances)) / len(variances), by_dataset)


def write_markdown(rows: Iterable[dict[str, Any]], datasets: list[str], epochs: int) -> str:
    """Tables of all sections, failures, and the conclusion, every figure of it computed."""
    rows = list(rows)
    outcomes = collect(rows, epochs)
    lines = []
    for section in sections():
        lines += [f"### {section.title}", "", *_table(section, outcomes, datasets), ""]
    failures = _failures(rows, epochs)
    if failures:
        lines += ["### Failed runs", "", *failures, ""]
    lines += ["### In words", "", *conclude(outcomes, datasets), ""]
    return "\n".join(lines)


def _failures(rows: Iterable[dict[str, Any]], epochs: int) -> list[str]:
    """One line per run that never went well: what was run, and why it stopped."""
    found = {}
    for row in rows:
        for variant, outcome in collect([row], epochs).items():
            for dataset, seed in outcome.failed | set(outcome.auc):
                found[variant, dataset, seed] = row.get("error")
    return [
        f"- {_describe(variant)}; {dataset}, seed {seed}: {error}"
        for (variant, dataset, seed), error in found.items()
        if error is not None
    ]


def _table(section: Section, outcomes: dict[Variant, Outcome], datasets: list[str]) -> list[str]:
    head = ["factor", "level", *(f"{name} | Δ" for name in datasets), "mean Δ"]
    base = outcomes[section.base]
    columns = 3 + 2 * len(datasets)
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * columns]
    lines.append(_line("**base**", section.base_name, base, None, datasets))
    for factor, level, variant in section.rows:
        if variant != section.base and outcomes[variant].was_run:
            lines.append(_line(factor, level, outcomes[variant], base, datasets))
    return lines


def _describe(variant: Variant) -> str:
    if variant == DEFAULT:
        return "default"
    if variant == PAPER:
        return "the paper's corner"
    return ", ".join(getattr(variant, factor) for factor in variant.differences(DEFAULT))


def _line(factor: str, level: str, outcome: Outcome, base: Outcome | None, datasets: list[str]) -> str:
    cells = [factor, level]
    for dataset in datasets:
        failures = sum(name == dataset for name, _ in outcome.failed)
        cells.append(_spread(outcome.on(dataset)) + (f" ({failures} failed)" if failures else ""))
        cells.append("" if base is None else _spread(outcome.minus(base, dataset), signed=True))
    effect = None if base is None else effect_of(outcome, base, datasets)
    cells.append("" if effect is None else f"{effect.mean:+.2f}")
    return f"| {' | '.join(cells)} |"


def _spread(values: list[float], signed: bool = False) -> str:
    if not values:
        return "–"
    text = f"{fmean(values):+.2f}" if signed else f"{fmean(values):.2f}"
    return text + (f" ± {stdev(values):.2f}" if len(values) > 1 else "")


def conclude(outcomes: dict[Variant, Outcome], datasets: list[str]) -> list[str]:
    """For every comparison: which changes clearly help, which clearly cost, and which make no clear difference."""
    lines = [
        "Mean difference in points of AUC. A difference is called clear when it is more than 0.2 points and two "
        "standard errors (every graph counted once), and no graph says the opposite by more than 0.2.",
    ]
    for section in sections():
        by_verdict: dict[str, list[str]] = {verdict: [] for verdict in get_args(Verdict)}
        for factor, level, variant in section.rows:
            effect = effect_of(outcomes[variant], outcomes[section.base], datasets)
            if variant != section.base and effect is not None:
                failures = len(outcomes[variant].failed)
                note = f", {failures} of {failures + len(outcomes[variant].auc)} runs failed" if failures else ""
                by_verdict[effect.verdict].append(f"{factor}: {level} ({effect.mean:+.2f}{note})")
        lines += ["", f"{section.title}, compared with {section.base_name}:", ""]
        lines += [f"- **{verdict}**: {'; '.join(changes)}." for verdict, changes in by_verdict.items() if changes]
    return lines


def dot_groups(rows: Iterable[dict[str, Any]], datasets: list[str], epochs: int) -> list[DotGroup]:
    """The differences of every section as dots: one row per level, one dot per graph."""
    outcomes = collect(rows, epochs)
    groups = []
    for section in sections():
        dots = []
        for factor, level, variant in section.rows:
            if variant == section.base or not outcomes[variant].was_run:
                continue
            values = {}
            for dataset in datasets:
                differences = outcomes[variant].minus(outcomes[section.base], dataset)
                if differences:
                    values[dataset] = (fmean(differences), stdev(differences) if len(differences) > 1 else 0.0)
            dots.append(DotRow(f"{factor}: {level}", values))
        groups.append(DotGroup(f"{section.title} (0 = {section.base_name})", dots))
    return groups
