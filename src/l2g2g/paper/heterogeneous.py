"""Heterogeneous block models, which the paper leaves to future work, with the best possible AUC of each."""

from __future__ import annotations

from statistics import fmean

from l2g2g.graphs.stand_ins import VARIANTS
from l2g2g.paper.cells import CONTENDERS, DEFAULT_MEANS, AnyCell, choose_contenders
from l2g2g.paper.performance import options_of
from l2g2g.paper.results import Row, describe, limits, percents, pick, span
from l2g2g.paper.study import Choice, auc_by_graph
from l2g2g.reports.charts import Chart, Panel
from l2g2g.reports.page import EMPTY, Block, DataTable, Entry

TITLE = "Heterogeneous block models"
DATASETS = dict.fromkeys(VARIANTS, 5)
QUICK_DATASETS = {"hetero-none": 1, "hetero-all": 1}


def plan(choice: Choice) -> list[AnyCell]:
    """Plan held-out links only: the paper has no such models."""
    return [
        CONTENDERS[name].cell(dataset, options_of(choice.quick), seed)
        for dataset, seed in choice.graphs_and_seeds(DATASETS, QUICK_DATASETS, otherwise=5)
        for name in choose_contenders(choice.methods)
    ]


def present(rows: list[Row], quick: bool) -> list[Block]:
    """Return a table and a figure of AUC beside the best possible AUC."""
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
        Chart(
            "heterogeneous",
            "AUC of all methods on block models with more heterogeneity, and what each model allows at best.",
            [Panel("held-out links", auc_by_graph(rows, datasets), "", "AUC in %", ticks=datasets)],
        ),
    ]


def _sizes(rows: list[Row]) -> str:
    """Return a sentence on the sizes of the graphs."""
    if not rows:
        return ""
    nodes, edges, features = (span(row[f"num_{name}"] for row in rows) for name in ("nodes", "edges", "features"))
    return f"The graphs have {nodes} nodes, {edges} edges and {features} feature columns. "
