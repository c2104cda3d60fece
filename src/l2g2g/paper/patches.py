"""Patches: AUC and AP for 2 to 10 patches, with bands over seeds."""

from __future__ import annotations

from statistics import fmean
from typing import Any, get_args

from l2g2g.graphs.splits import Protocol
from l2g2g.graphs.stand_ins import STAND_INS
from l2g2g.paper.cells import AnyCell, Cell
from l2g2g.paper.contenders import CONTENDERS, DEFAULT_MEANS, choose_contenders
from l2g2g.paper.paper_numbers import Measure
from l2g2g.paper.performance import PROTOCOLS
from l2g2g.paper.results import Row, datasets_in, describe, deviation, percents, pick, signed
from l2g2g.paper.study import Choice
from l2g2g.reports.charts import Chart, Panel, Series, around
from l2g2g.reports.document import Block, DataTable, Entry

TITLE = "Number of patches"
# Graphs and their seeds. An epoch of a stand-in takes seconds: fewer epochs, three counts, and held-out links only.
DATASETS = {"cora-ml": 5, "sbm-small": 5, "cora": 5, "sbm-large": 3, "yelp-like": 1, "reddit-like": 1}
QUICK_DATASETS = {"sbm-small": 1}
COUNTS, QUICK_COUNTS, STAND_IN_COUNTS = tuple(range(2, 11)), (2, 10), (2, 5, 10)
QUICK_EPOCHS, STAND_IN_EPOCHS = 10, 30


def is_stand_in(dataset: str) -> bool:
    """Whether a graph only has the size of one in the paper."""
    return dataset in STAND_INS


def protocols_of(dataset: str) -> list[Protocol]:
    """Both evaluations; of a stand-in the paper prints nothing to compare with."""
    return ["heldout"] if is_stand_in(dataset) else list(PROTOCOLS)


def options_of(dataset: str, count: int, quick: bool) -> dict[str, Any]:
    """What the cells change in their presets."""
    options: dict[str, Any] = {"patches": count}
    if quick:
        options["epochs"] = QUICK_EPOCHS
    elif is_stand_in(dataset):
        options["epochs"] = STAND_IN_EPOCHS
    return options


def plan(choice: Choice) -> list[AnyCell]:
    """The methods with patches; others have none to count."""
    usual = QUICK_DATASETS if choice.quick else DATASETS
    names = [name for name in choose_contenders(choice.methods) if CONTENDERS[name].uses_patches]
    return [
        Cell(
            dataset,
            CONTENDERS[name].method,
            CONTENDERS[name].preset,
            options_of(dataset, count, choice.quick),
            seed,
            protocol,
        )
        for dataset in choice.datasets or usual
        for seed in range(choice.seeds or usual.get(dataset, 1 if choice.quick else 3))
        for protocol in protocols_of(dataset)
        for count in (QUICK_COUNTS if choice.quick else STAND_IN_COUNTS if is_stand_in(dataset) else COUNTS)
        for name in names
    ]


def scores_by_count(
    rows: list[Row], dataset: str, contender: str, protocol: str, measure: str, quick: bool
) -> dict[int, list[float]]:
    """Scores in percent over seeds for every number of patches."""
    found = {}
    for count in COUNTS:
        options = options_of(dataset, count, quick)
        own = pick(rows, dataset=dataset, contender=contender, protocol=protocol, options=options)
        if own:
            found[count] = percents(own, measure)
    return found


def present(rows: list[Row], quick: bool) -> list[Block]:
    """For each evaluation a table, and a figure of each measure."""
    options = [options_of(name, count, quick) for name in datasets_in(rows) for count in COUNTS]
    datasets = datasets_in([row for row in rows if row["cell"].get("options") in options])
    blocks: list[Block] = [
        "AUC in percent for 2 to 10 patches, mean ± deviation over seeds. The last column is the change from the "
        f"fewest patches to the most. Stand-ins: {STAND_IN_EPOCHS} epochs instead of 200 or more. {DEFAULT_MEANS}",
    ]
    for protocol in PROTOCOLS:
        table = _table(rows, datasets, protocol, quick)
        if table.rows:
            blocks.append(table)
        for measure in get_args(Measure):
            blocks.append(_chart(rows, datasets, protocol, measure, quick))
    return blocks


_NAMES = [name for name, contender in CONTENDERS.items() if contender.uses_patches]


def _table(rows: list[Row], datasets: list[str], protocol: Protocol, quick: bool) -> DataTable:
    entries: list[list[str | Entry]] = []
    for dataset in datasets:
        for name in _NAMES:
            found = scores_by_count(rows, dataset, name, protocol, "auc", quick)
            if not found:
                continue
            change = fmean(found[max(found)]) - fmean(found[min(found)])
            scores = [describe(found.get(count, [])) for count in COUNTS]
            entries.append([dataset, CONTENDERS[name].heading, *scores, signed(change)])
    caption = f"AUC in % by number of patches: {PROTOCOLS[protocol]}."
    columns = ["data set", "method", *(str(count) for count in COUNTS), "change"]
    return DataTable(caption, columns, entries, num_labels=2).trimmed()


def _chart(rows: list[Row], datasets: list[str], protocol: str, measure: str, quick: bool) -> Chart:
    panels = []
    for dataset in datasets:
        series = []
        for name in _NAMES:
            found = scores_by_count(rows, dataset, name, protocol, measure, quick)
            means, deviations = ([summary(values) for values in found.values()] for summary in (fmean, deviation))
            bounds, colour = around(means, deviations), CONTENDERS[name].colour
            series.append(Series(CONTENDERS[name].label, list(map(float, found)), means, bounds, colour=colour))
        panels.append(Panel(dataset, series, "patches", f"{measure.upper()} in %", counts=True))
    meaning = "under the paper's evaluation" if protocol == "paper" else "on held-out links"
    caption = f"{measure.upper()} for 2 to 10 patches {meaning}; bands are deviations over seeds."
    return Chart(f"patches-{protocol}-{measure}", caption, panels)
