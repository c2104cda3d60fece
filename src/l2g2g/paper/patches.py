"""Number of patches: AUC and AP for 2 to 10 patches."""

from __future__ import annotations

from statistics import fmean
from typing import Any, get_args

from l2g2g.graphs.splits import Protocol
from l2g2g.graphs.stand_ins import STAND_INS
from l2g2g.paper.cells import CONTENDERS, DEFAULT_MEANS, PATCHED, AnyCell, choose_contenders
from l2g2g.paper.results import Measure, Row, datasets_in, describe, percents, pick, signed
from l2g2g.paper.study import PROTOCOLS, SHORT_PROTOCOLS, Choice, score_series
from l2g2g.reports.charts import Chart, Panel
from l2g2g.reports.page import Block, DataTable, Entry

TITLE = "Number of patches"
# Graphs and their seeds. An epoch of a stand-in takes seconds: fewer epochs, three counts, and held-out links only.
DATASETS = {"cora-ml": 5, "sbm-small": 5, "cora": 5, "sbm-large": 3, "yelp-like": 1, "reddit-like": 1}
QUICK_DATASETS = {"sbm-small": 1}
COUNTS, QUICK_COUNTS, STAND_IN_COUNTS = tuple(range(2, 11)), (2, 10), (2, 5, 10)
QUICK_EPOCHS, STAND_IN_EPOCHS = 10, 30


def options_of(dataset: str, count: int, quick: bool) -> dict[str, Any]:
    """Return the settings that differ from the presets."""
    options: dict[str, Any] = {"patches": count}
    if quick:
        options["epochs"] = QUICK_EPOCHS
    elif dataset in STAND_INS:
        options["epochs"] = STAND_IN_EPOCHS
    return options


def plan(choice: Choice) -> list[AnyCell]:
    """Plan the methods with patches."""
    names = [name for name in choose_contenders(choice.methods) if name in PATCHED]
    return [
        CONTENDERS[name].cell(dataset, options_of(dataset, count, choice.quick), seed, protocol)
        for dataset, seed in choice.graphs_and_seeds(DATASETS, QUICK_DATASETS, otherwise=3)
        for protocol in PROTOCOLS
        if protocol == "heldout" or dataset not in STAND_INS  # the paper prints nothing about stand-ins
        for count in (QUICK_COUNTS if choice.quick else STAND_IN_COUNTS if dataset in STAND_INS else COUNTS)
        for name in names
    ]


def scores_by_count(
    rows: list[Row], dataset: str, contender: str, protocol: str, measure: str, quick: bool
) -> dict[int, list[float]]:
    """Return scores in percent over seeds by number of patches."""
    found = {}
    for count in COUNTS:
        options = options_of(dataset, count, quick)
        own = pick(rows, dataset=dataset, contender=contender, protocol=protocol, options=options)
        if own:
            found[count] = percents(own, measure)
    return found


def present(rows: list[Row], quick: bool) -> list[Block]:
    """Return a table for each evaluation, and a figure of each measure."""
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


def _table(rows: list[Row], datasets: list[str], protocol: Protocol, quick: bool) -> DataTable:
    entries: list[list[str | Entry]] = []
    for dataset in datasets:
        for name in PATCHED:
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
        series = [
            score_series(CONTENDERS[name], scores_by_count(rows, dataset, name, protocol, measure, quick))
            for name in PATCHED
        ]
        panels.append(Panel(dataset, series, "patches", f"{measure.upper()} in %", counts=True))
    caption = f"{measure.upper()} for 2 to 10 patches {SHORT_PROTOCOLS[protocol]}; bands are deviations over seeds."
    return Chart(f"patches-{protocol}-{measure}", caption, panels)
