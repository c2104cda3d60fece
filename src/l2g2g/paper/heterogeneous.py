"""Heterogeneous: the block models that the paper leaves to future work, with the best possible AUC of each."""

from __future__ import annotations

from statistics import fmean

from l2g2g.graphs.heterogeneous import VARIANTS
from l2g2g.paper.cells import AnyCell, Cell
from l2g2g.paper.contenders import CONTENDERS, DEFAULT_MEANS, choose_contenders
from l2g2g.paper.performance import options_of
from l2g2g.paper.results import Row, describe, deviation, limits, percents, pick, span
from l2g2g.paper.study import Choice
from l2g2g.reports.charts import Chart, Panel, Series, around
from l2g2g.reports.document import EMPTY, Block, DataTable, Entry

TITLE = "Heterogeneous block models"
QUICK_DATASETS = ("hetero-none", "hetero-all")


def plan(choice: Choice) -> list[AnyCell]:
    """Held-out links only: the paper has no such models."""
    return [
        Cell(dataset, CONTENDERS[name].method, CONTENDERS[name].preset, options_of(choice.quick), seed)
        for dataset in choice.datasets or (QUICK_DATASETS if choice.quick else tuple(VARIANTS))
        for seed in range(choice.seeds or (1 if choice.quick else 5))
        for name in choose_contenders(choice.methods)
    ]


def present(rows: list[Row], quick: bool) -> list[Block]:
    """A table and a figure of AUC beside what the model allows."""
    rows = pick(rows, options=options_of(quick), protocol="heldout")
    datasets = [name for name in VARIANTS if pick(rows, dataset=name)]
    datasets += [name for name in dict.fromkeys(row["cell"]["dataset"] for row in rows) if name not in VARIANTS]
    entries: list[list[str | Entry]] = []
    for dataset in datasets:
        scores = {name: percents(pick(rows, dataset=dataset, contender=name), "auc") for name in CONTENDERS}
        means = {name: fmean(values) for name, values in scores.items() if values}
        top = max(means.values())
        limit = limits(pick(rows, dataset=dataset))
        gap = f"{fmean(limit) - top:z.2f}" if limit else EMPTY
        marked = [Entry(describe(values), best=means.get(name) == top) for name, values in scores.items()]
        meaning = VARIANTS[dataset].description if dataset in VARIANTS else ""
        entries.append([dataset, meaning, *marked, describe(limit), gap])
    labels = [contender.heading for contender in CONTENDERS.values()]
    return [
        "Held-out links, AUC in percent, mean ± deviation over seeds; bold is best. "
        f"{_sizes(rows)}The best possible AUC scores a test pair by its true edge probability, and so knows every "
        "node's blocks and weight: where features are wrong or weak, no method can know as much. The gap is what the "
        f"best method lacks. {DEFAULT_MEANS}",
        DataTable(
            "AUC in % on block models with more heterogeneity.",
            ["model", "what differs", *labels, "best possible", "gap"],
            entries,
            num_labels=2,
        ).trimmed(),
        _chart(rows, datasets),
    ]


def _sizes(rows: list[Row]) -> str:
    """How large the graphs are."""
    if not rows:
        return ""
    nodes, edges, features = (span(row[f"num_{name}"] for row in rows) for name in ("nodes", "edges", "features"))
    return f"The graphs have {nodes} nodes, {edges} edges and {features} feature columns. "


def _chart(rows: list[Row], datasets: list[str]) -> Chart:
    series = []
    for name, contender in CONTENDERS.items():
        found = {
            place: percents(pick(rows, dataset=dataset, contender=name), "auc")
            for place, dataset in enumerate(datasets)
        }
        found = {place: values for place, values in found.items() if values}
        places = [place + 0.09 * (contender.colour - 2) for place in found]
        means = [fmean(values) for values in found.values()]
        bounds = around(means, [deviation(values) for values in found.values()])
        series.append(Series(contender.label, places, means, bounds, joined=False, colour=contender.colour))
    allowed = {place: limits(pick(rows, dataset=dataset)) for place, dataset in enumerate(datasets)}
    allowed = {place: values for place, values in allowed.items() if values}
    best = [fmean(values) for values in allowed.values()]
    series.append(Series("best possible", [float(place) for place in allowed], best, joined=False, colour=6))
    panel = Panel("held-out links", series, "", "AUC in %", ticks=datasets)
    caption = "AUC of all methods on block models with more heterogeneity, and what each model allows at best."
    return Chart("heterogeneous", caption, [panel])
