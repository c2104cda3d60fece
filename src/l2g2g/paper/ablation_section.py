"""The ablation as a part of the report."""

from __future__ import annotations

from l2g2g.paper import ablation
from l2g2g.paper.cells import AnyCell
from l2g2g.paper.results import Row, datasets_in, describe, signed
from l2g2g.paper.study import Choice
from l2g2g.reports.document import Block, DataTable, Entry, Picture

TITLE = "Ablation"


def epochs_of(quick: bool) -> int:
    """Epochs of every variant."""
    return ablation.QUICK_EPOCHS if quick else ablation.EPOCHS


def plan(choice: Choice) -> list[AnyCell]:
    """All variants; --methods has nothing to choose."""
    usual = ablation.QUICK_DATASETS if choice.quick else ablation.DATASETS
    seeds = ablation.seeds_of(choice.datasets or usual, choice.seeds, choice.quick)
    return list(ablation.plan(seeds, epochs_of(choice.quick)))


def present(rows: list[Row], quick: bool) -> list[Block]:
    """A table for every comparison."""
    epochs = epochs_of(quick)
    rows = [row for row in rows if row["cell"].get("options", {}).get("epochs") == epochs]
    outcomes, datasets = ablation.collect(rows, epochs), datasets_in(rows)
    blocks: list[Block] = [
        "Differences of AUC in points on the same splits, mean ± deviation over seeds; a change is clear when it "
        "is more than 0.2 points and two standard errors, and no graph says the opposite."
    ]
    for section in ablation.sections():
        base = outcomes[section.base]
        entries: list[list[str | Entry]] = []
        for factor, level, variant in section.rows:
            if variant == section.base or not outcomes[variant].was_run:
                continue
            effect = ablation.effect_of(outcomes[variant], base, datasets)
            differences = [describe(outcomes[variant].minus(base, dataset)) for dataset in datasets]
            verdict = ["–", "–"] if effect is None else [signed(effect.mean), effect.verdict]
            entries.append([factor, level, *differences, *verdict])
        columns = ["factor", "level", *datasets, "mean", "in words"]
        caption = f"{section.title}, compared with {section.base_name}."
        blocks.append(DataTable(caption, columns, entries, num_labels=2, num_notes=1))
    blocks.append(Picture("ablation", "Differences of AUC for every change, by graph."))
    return blocks
