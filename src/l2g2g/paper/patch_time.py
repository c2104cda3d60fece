"""Time by number of patches: seconds of an epoch for 2 to 30 patches, and how large the patches are."""

from __future__ import annotations

from statistics import median

from l2g2g.graphs.stand_ins import STAND_INS
from l2g2g.paper.cells import CONTENDERS, DEFAULT_MEANS, PATCHED, AnyCell, choose_contenders
from l2g2g.paper.results import Row, datasets_in, epoch_seconds, pick
from l2g2g.paper.study import Choice, time_series, timing_options
from l2g2g.reports.charts import Chart, Panel
from l2g2g.reports.page import Block, DataTable, Entry

TITLE = "Time by number of patches"
DATASETS = dict.fromkeys(("cora-ml", "sbm-small", "cora", "sbm-large", "yelp-like", "reddit-like"), 1)
QUICK_DATASETS = {"sbm-small": 1}
COUNTS, QUICK_COUNTS, STAND_IN_COUNTS = (2, 5, 10, 15, 20, 25, 30), (2, 30), (2, 10, 30)


def plan(choice: Choice) -> list[AnyCell]:
    """Plan the methods with patches; a seed is a repetition."""
    names = [name for name in choose_contenders(choice.methods) if name in PATCHED]
    return [
        CONTENDERS[name].cell(dataset, timing_options(choice.quick, patches=count), seed)
        for dataset, seed in choice.graphs_and_seeds(DATASETS, QUICK_DATASETS)
        for count in (QUICK_COUNTS if choice.quick else STAND_IN_COUNTS if dataset in STAND_INS else COUNTS)
        for name in names
    ]


def runs_by_count(rows: list[Row], contender: str, quick: bool) -> dict[int, list[Row]]:
    """Return the lines of a contender by number of patches. rows: of one graph."""
    found = {count: pick(rows, contender=contender, options=timing_options(quick, patches=count)) for count in COUNTS}
    return {count: own for count, own in found.items() if own}


def present(rows: list[Row], quick: bool) -> list[Block]:
    """Return a table with the sizes of patches, and a figure."""
    entries: list[list[str | Entry]] = []
    panels = []
    for dataset in datasets_in(rows):
        series = []
        for name in PATCHED:
            found = runs_by_count(pick(rows, dataset=dataset), name, quick)
            times = {float(count): list(map(epoch_seconds, own)) for count, own in found.items()}
            series.append(time_series(CONTENDERS[name], times))
            for count, own in found.items():
                first = own[0]
                largest = first["largest_patch_nodes"]
                seconds = [
                    f"{median(times[count]):.4f}",
                    f"{median(row['seconds']['partition'] for row in own):.2f}",
                ]
                sizes = [
                    f"{first['node_duplication']:.2f}",
                    f"{largest:,}",
                    f"{largest * count / first['num_nodes']:.2f}",
                ]
                entries.append([dataset, CONTENDERS[name].heading, str(count), *seconds, *sizes])
        panels.append(Panel(dataset, series, "patches", "seconds per epoch", xscale="log", counts=True))
    return [
        "Seconds of one epoch (median, alignment included) on a CPU, partitioning beside it. Σ N_j / N says how often "
        "a node is held on average; the last column compares the largest patch with N / k. "
        f"{DEFAULT_MEANS}",
        DataTable(
            "Time of an epoch by number of patches.",
            ["data set", "method", "patches", "s per epoch", "partition, s", "Σ N_j / N", "largest patch", "÷ (N / k)"],
            entries,
            num_labels=2,
        ),
        Chart(
            "patch-time",
            "Seconds of one epoch for 2 to 30 patches, by data set. Medians, with bands from the fastest repetition to "
            "the slowest.",
            panels,
        ),
    ]
