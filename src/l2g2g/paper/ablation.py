"""Ablation: accuracy with the parts of L2G2G changed one at a time and in the pairs that interact."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Literal

from l2g2g.paper.cells import AnyCell, Cell
from l2g2g.paper.results import Row, datasets_in, describe, deviation, signed
from l2g2g.paper.study import Choice
from l2g2g.reports.charts import DotGroup, DotRow, plot_differences
from l2g2g.reports.page import EMPTY, Block, DataTable, Entry, Picture

TITLE = "Ablation"
# Number of seeds by graph: small graphs vary more and cost less. In all about half an hour on one thread.
DATASETS = {"cora-ml": 3, "sbm-small": 3, "pubmed": 2}
QUICK_DATASETS = {"sbm-small": 1}
EPOCHS, QUICK_EPOCHS = 100, 15

# Settings by factor and level.
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
    },
    "assembly": {"whole-graph pass": {"assembly": "whole"}, "aligned mean": {"assembly": "mean"}},
    "negatives": {"fresh": {"negatives": "fresh"}, "fixed": {"negatives": "fixed"}},
    "layers": {"GCN": {}, "GraphSAGE": {"encoder": "sage"}},  # the stored lines have no setting for GCN
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
        """False for separate encoders with a whole-graph pass, which needs one encoder."""
        return not (self.encoders == "separate" and self.assembly == "whole-graph pass")

    @property
    def options(self) -> dict[str, Any]:
        """Settings of this variant."""
        levels: dict[str, Any] = {"patches": 10}
        for factor, choices in FACTORS.items():
            levels |= choices[getattr(self, factor)]
        return levels


DEFAULT = Variant()
PAPER = Variant("shared", "rotations", "inside patches", "none", "aligned mean", "fixed")


@dataclass(frozen=True)
class Section:
    """Variants compared with a base. rows: (factor, level, variant)."""

    title: str
    base: Variant
    base_name: str
    rows: list[tuple[str, str, Variant]]


def one_at_a_time(base: Variant) -> list[tuple[str, str, Variant]]:
    """Return (factor, level, variant) for every other possible level of every factor.

    Separate encoders cannot end with a whole-graph pass, so they take the aligned mean.
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
    """Return all comparisons: around the default, around the paper's variant, and pairs of factors that interact."""
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
    for mask in ("random edges", "none", "nodes redrawn"):
        hidden.append(("mask", mask, replace(inside, mask=mask)))
    return [
        Section("One change to the default", DEFAULT, "the default", one_at_a_time(DEFAULT)),
        Section("One change to the paper's variant", PAPER, "the paper's variant", one_at_a_time(PAPER)),
        Section("Encoders, alignment and assembly in full", DEFAULT, "the default", crossed),
        Section("Separate encoders", separate, "pairs of all nodes, identity", reach),
        Section("Masks, pairs inside patches", inside, "random edges", hidden),
    ]


def variants() -> list[Variant]:
    """Return every variant once."""
    found = [section.base for section in sections()]
    found += [variant for section in sections() for _, _, variant in section.rows]
    return list(dict.fromkeys(found))


def epochs_of(quick: bool) -> int:
    """Return the number of epochs of every variant."""
    return QUICK_EPOCHS if quick else EPOCHS


def plan(choice: Choice) -> list[AnyCell]:
    """Plan all variants seed by seed, so that an interrupted run has whole comparisons."""
    return [
        Cell(dataset, options={**variant.options, "epochs": epochs_of(choice.quick)}, seed=seed)
        for dataset, seed in choice.graphs_and_seeds(DATASETS, QUICK_DATASETS, otherwise=3)
        for variant in variants()
    ]


# --- results -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """AUC in percent of one variant by (graph, seed), and its failed runs."""

    auc: dict[tuple[str, int], float]
    failed: set[tuple[str, int]]

    @property
    def was_run(self) -> bool:
        """True if any line exists; levels without a line have no row in the tables."""
        return bool(self.auc or self.failed)

    def on(self, dataset: str) -> list[float]:
        """Return the AUC over the seeds of one graph."""
        return [value for (name, _), value in self.auc.items() if name == dataset]

    def minus(self, other: Outcome, dataset: str | None = None) -> list[float]:
        """Return the differences on the same splits, of one graph or of all."""
        common = [place for place in self.auc if place in other.auc and dataset in (None, place[0])]
        return [self.auc[place] - other.auc[place] for place in common]


def collect(rows: Iterable[dict[str, Any]], epochs: int) -> dict[Variant, Outcome]:
    """Collect the outcome of every variant from the lines of runs with this number of epochs."""
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
        outcome.failed.difference_update(outcome.auc)  # a later try succeeded
    return found


def _fingerprint(options: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, repr(value)) for name, value in options.items()))


Verdict = Literal["helps", "costs", "no clear difference", "too few runs to say"]


@dataclass(frozen=True)
class Effect:
    """Mean paired difference in points of AUC, every graph counted once."""

    mean: float
    error: float
    by_dataset: dict[str, float]

    @property
    def verdict(self) -> Verdict:
        """Judge the difference: clear if above 0.2 points and two standard errors, and no graph contradicts it.

        A single seed has no standard error.
        """
        if math.isinf(self.error):
            return "too few runs to say"
        other_way = any(value * self.mean < 0 and abs(value) > 0.2 for value in self.by_dataset.values())
        if abs(self.mean) < 0.2 or abs(self.mean) < 2 * self.error or other_way:
            return "no clear difference"
        return "helps" if self.mean > 0 else "costs"


def effect_of(variant: Outcome, base: Outcome, datasets: Iterable[str]) -> Effect | None:
    """Compute the effect of a variant; None without common runs."""
    by_dataset, variances = {}, []
    for dataset in datasets:
        differences = variant.minus(base, dataset)
        if differences:
            by_dataset[dataset] = fmean(differences)
            variances.append(stdev(differences) ** 2 / len(differences) if len(differences) > 1 else math.inf)
    if not by_dataset:
        return None
    return Effect(fmean(by_dataset.values()), math.sqrt(sum(variances)) / len(variances), by_dataset)


# --- the section of the report ---------------------------------------------------------------------------


def present(rows: list[Row], quick: bool) -> list[Block]:
    """Return a table for every comparison, and the figure."""
    epochs = epochs_of(quick)
    rows = [row for row in rows if row["cell"].get("options", {}).get("epochs") == epochs]
    outcomes, datasets = collect(rows, epochs), datasets_in(rows)
    blocks: list[Block] = [
        "AUC in percent, and Δ, the difference to the first row of a table on the same splits in points, mean ± "
        "deviation over seeds. A change helps or costs where the mean Δ (every graph counted once) is more than 0.2 "
        "points and two standard errors, and no graph says the opposite by more than 0.2."
    ]
    blocks += [_table(section, outcomes, datasets) for section in sections()]
    return [*blocks, Picture("ablation", "Differences of AUC for every change, by graph.")]


def _table(section: Section, outcomes: dict[Variant, Outcome], datasets: list[str]) -> DataTable:
    base = outcomes[section.base]
    first: list[str | Entry] = [Entry("base", best=True), section.base_name]
    for dataset in datasets:
        first += [describe(base.on(dataset)), ""]
    entries = [[*first, "", ""]]
    for factor, level, variant in section.rows:
        outcome = outcomes[variant]
        if variant == section.base or not outcome.was_run:
            continue
        entry: list[str | Entry] = [factor, level]
        for dataset in datasets:
            num_failed = sum(name == dataset for name, _ in outcome.failed)
            failures = f" ({num_failed} failed)" if num_failed else ""
            entry += [describe(outcome.on(dataset)) + failures, describe(outcome.minus(base, dataset), sign="+")]
        effect = effect_of(outcome, base, datasets)
        entries.append([*entry, *([EMPTY, EMPTY] if effect is None else [signed(effect.mean), effect.verdict])])
    columns = ["factor", "level", *(word for name in datasets for word in (name, "Δ")), "mean Δ", "verdict"]
    return DataTable(
        f"{section.title}, compared with {section.base_name}.", columns, entries, num_labels=2, num_notes=1
    )


def draw_differences(rows: list[Row], quick: bool, folder: Path) -> None:
    """Draw the differences of every section as FOLDER/ablation.svg and .png: a row per level, a dot per graph."""
    outcomes, datasets = collect(rows, epochs_of(quick)), datasets_in(rows)
    groups = []
    for section in sections():
        dots = []
        for factor, level, variant in section.rows:
            if variant != section.base and outcomes[variant].was_run:
                differences = {name: outcomes[variant].minus(outcomes[section.base], name) for name in datasets}
                values = {name: (fmean(own), deviation(own)) for name, own in differences.items() if own}
                dots.append(DotRow(f"{factor}: {level}", values))
        groups.append(DotGroup(f"{section.title} (0 = {section.base_name})", dots))
    plot_differences(
        [group for group in groups if group.rows] or groups[:1],
        [folder / "ablation.svg", folder / "ablation.png"],
        xlabel="difference in AUC, points (mean and deviation over seeds)",
        title="What matters in L2G2G",
    )
