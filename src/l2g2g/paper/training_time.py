"""Training time: seconds per epoch of every method by data set, and of partitioning."""

from __future__ import annotations

from statistics import median

from l2g2g.paper.cells import CONTENDERS, DEFAULT_MEANS, AnyCell, choose_contenders
from l2g2g.paper.results import Row, datasets_in, epoch_seconds, pick
from l2g2g.paper.study import Choice, by_position, time_series, timing_options
from l2g2g.reports.charts import Chart, Panel
from l2g2g.reports.page import Block, DataTable, Entry

TITLE = "Training time"
_SMALLER = ("cora-ml", "sbm-small", "cora", "sbm-large-sparse", "sbm-large", "yelp-like", "reddit-like")
DATASETS = dict.fromkeys((*_SMALLER, "sbm-large-dense", "yelp", "reddit"), 1)
QUICK_DATASETS = {"sbm-small": 1, "cora-ml": 1}


def plan(choice: Choice) -> list[AnyCell]:
    """Plan every method on every graph; a seed is a repetition."""
    return [
        CONTENDERS[name].cell(dataset, timing_options(choice.quick), seed)
        for dataset, seed in choice.graphs_and_seeds(DATASETS, QUICK_DATASETS)
        for name in choose_contenders(choice.methods)
    ]


def present(rows: list[Row], quick: bool) -> list[Block]:
    """Return a table of times and a figure on a logarithmic scale."""
    rows = pick(rows, options=timing_options(quick))
    entries: list[list[str | Entry]] = []
    for dataset in datasets_in(rows):
        reference = pick(rows, dataset=dataset, contender="gae")
        for name, contender in CONTENDERS.items():
            found = pick(rows, dataset=dataset, contender=name)
            if not found:
                continue
            epoch = median(map(epoch_seconds, found))
            ratio = f"{epoch / median(map(epoch_seconds, reference)):.2f}" if reference else "–"
            entries.append(
                [
                    dataset,
                    contender.heading,
                    f"{found[0]['num_edges']:,}",
                    f"{epoch:.4f}",
                    ratio,
                    f"{median(row['seconds']['synchronise'] for row in found):.3f}",
                    f"{median(row['seconds']['partition'] for row in found):.2f}",
                    f"{median(row['seconds']['total'] for row in found):.1f}",
                    f"{max(row['peak_memory_bytes'] for row in found) / 1e9:.2f}",
                ]
            )
    threads = sorted({row["settings"]["threads"] for row in rows})
    words = ", ".join("all cores" if count == 0 else str(count) for count in threads)
    return [
        f"Seconds of one epoch (median, alignment included), after {timing_options(quick)['epochs']} epochs. The paper "
        f"leaves out the time of partitioning; here it stands beside. Threads: {words or '–'}. Peak memory is that of "
        f"the process so far, and so a bound. {DEFAULT_MEANS}",
        DataTable(
            "Training time by data set and method.",
            [
                "data set",
                "method",
                "edges",
                "s per epoch",
                "÷ GAE",
                "aligning, s",
                "partition, s",
                "whole run, s",
                "peak GB",
            ],
            entries,
            num_labels=2,
        ),
        _chart(rows),
    ]


def _chart(rows: list[Row]) -> Chart:
    datasets = datasets_in(rows)
    epochs, partitions = [], []
    for name, contender in CONTENDERS.items():
        runs = by_position(pick(rows, contender=name), datasets)
        epochs.append(time_series(contender, {place: list(map(epoch_seconds, own)) for place, own in runs.items()}))
        if contender.uses_patches:
            times = {place: [row["seconds"]["partition"] for row in own] for place, own in runs.items()}
            partitions.append(time_series(contender, times))
    panels = [
        Panel("one epoch", epochs, "", "seconds", yscale="log", ticks=datasets),
        Panel("partition, once", partitions, "", "seconds", yscale="log", ticks=datasets),
    ]
    caption = (
        "Seconds of one epoch, and of partitioning once, by data set (few edges to many); logarithmic scale. Medians, "
        "with bands from the fastest repetition to the slowest."
    )
    return Chart("training-time", caption, panels)
