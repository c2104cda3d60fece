"""The paper's tables of AUC and AP (Table 3), under its own evaluation and on held-out links."""

from __future__ import annotations

from statistics import fmean
from typing import get_args

from l2g2g.paper.cells import CONTENDERS, DEFAULT_MEANS, AnyCell, choose_contenders
from l2g2g.paper.results import (
    AUTHORS_CODE_AUC,
    Measure,
    Row,
    datasets_in,
    describe,
    limits,
    percents,
    pick,
    printed_score,
    signed,
)
from l2g2g.paper.study import PROTOCOLS, Choice, auc_by_graph
from l2g2g.reports.charts import Chart, Panel, Series
from l2g2g.reports.page import EMPTY, Block, DataTable, Entry

TITLE = "Performance"
# Number of seeds by graph; graphs without a file are left out.
DATASETS = {"cora-ml": 10, "sbm-small": 10, "cora": 10, "sbm-large-sparse": 10, "sbm-large": 10}
DATASETS |= {"sbm-large-dense": 3, "yelp": 3, "reddit": 3}
QUICK_DATASETS = {"sbm-small": 1, "cora-ml": 1}
_FEW = 50  # percent of the edges inside patches


def options_of(quick: bool) -> dict[str, int]:
    """Return the settings that differ from the presets."""
    return {"epochs": 10} if quick else {}


def plan(choice: Choice) -> list[AnyCell]:
    """Plan all methods seed by seed, so that an interrupted run has whole comparisons."""
    names = choose_contenders(choice.methods)
    return [
        CONTENDERS[name].cell(dataset, options_of(choice.quick), seed, protocol)
        for dataset, seed in choice.graphs_and_seeds(DATASETS, QUICK_DATASETS, otherwise=10)
        for protocol in PROTOCOLS
        for name in names
    ]


def present(rows: list[Row], quick: bool) -> list[Block]:
    """Return four tables, the differences to the paper, and a figure."""
    rows = pick(rows, options=options_of(quick))
    blocks: list[Block] = [
        "AUC and AP in percent, mean ± deviation over seeds (other splits and other initial weights; block models are "
        "drawn once). Bold: best of the fast methods, all but GAE; underlined: better than GAE. GAE, FastGAE, GAE+L2G "
        f"and L2G2G use the paper preset: what the authors ran. {DEFAULT_MEANS} Printed is what the paper's Table 3 "
        "has, and stands beside the evaluation that it was made with."
    ]
    for protocol, meaning in PROTOCOLS.items():
        for measure in get_args(Measure):
            caption = f"{measure.upper()} in %: {meaning}."
            table = _table(pick(rows, protocol=protocol), measure, caption, with_printed=protocol == "paper")
            if table.rows:
                blocks.append(table)
    if not quick:
        blocks += _differences(pick(rows, protocol="paper"))
    blocks.append(_chart(rows))
    return blocks


def _table(rows: list[Row], measure: Measure, caption: str, with_printed: bool) -> DataTable:
    names = [name for name in CONTENDERS if pick(rows, contender=name)]
    columns = ["data set", "seeds"]
    for name in names:
        columns += [CONTENDERS[name].heading] + (["printed"] if with_printed and name != "default" else [])
    entries: list[list[str | Entry]] = []
    for dataset in datasets_in(rows):
        scores = {name: percents(pick(rows, dataset=dataset, contender=name), measure) for name in names}
        means = {name: fmean(values) for name, values in scores.items() if values}
        fast = {name: mean for name, mean in means.items() if name != "gae"}
        line: list[str | Entry] = [dataset, str(max(map(len, scores.values()), default=0))]
        for name, values in scores.items():
            best = name in fast and means[name] == max(fast.values())
            better = name in fast and "gae" in means and means[name] > means["gae"]
            line.append(Entry(describe(values), best, better))
            if with_printed and name != "default":
                printed = printed_score(measure, dataset, name)
                line.append(EMPTY if printed is None else f"{printed[0]:.2f} ± {printed[1]:.2f}")
        allowed = limits(pick(rows, dataset=dataset)) if measure == "auc" else []
        entries.append([*line, describe(allowed)])
    return DataTable(caption, [*columns, "best possible"], entries).trimmed()


def _differences(rows: list[Row]) -> list[Block]:
    """Compare measured with printed AUC under the paper's evaluation, with possible reasons."""
    entries: list[list[str | Entry]] = []
    for dataset in datasets_in(rows):
        for name in CONTENDERS:
            own = pick(rows, dataset=dataset, contender=name)
            values, printed = percents(own, "auc"), printed_score("auc", dataset, name)
            if values and printed is not None:
                difference = fmean(values) - printed[0]
                again = AUTHORS_CODE_AUC.get(dataset, {}).get(name)
                words = EMPTY if again is None else signed(fmean(values) - again, 1)
                reason = _reason(name, difference, percents(own, "kept_edge_fraction"))
                entries.append([dataset, CONTENDERS[name].heading, signed(difference), words, reason])
    if not entries:
        return []
    return [
        DataTable(
            "AUC measured here minus the printed one, and minus that of the authors' code run again (1 seed), in "
            "points, under the paper's evaluation. The reasons are differences between the two programs that fit; only "
            "the cut of the patches has a study of its own.",
            ["data set", "method", "minus printed", "minus authors' code", "possible reason"],
            entries,
            num_labels=2,
            num_notes=1,
        )
    ]


def _reason(name: str, difference: float, kept: list[float]) -> str:
    """Name a possible reason for a difference. kept: percentages of the edges inside a patch."""
    if abs(difference) < 0.5:
        return "agrees within half a point"
    if name == "fastgae":
        return "The printed AUC and AP columns are identical; the authors' sampler relabels edges but not nodes."
    if CONTENDERS[name].uses_patches and difference < 0 and kept and fmean(kept) < _FEW:
        return f"One pass of FENNEL keeps {fmean(kept):.0f} % of the edges in patches: see “How the patches are cut”."
    if name == "gae+l2g":
        return "The authors translate before they rotate, which misaligns patches; here rotations come first."
    if name == "l2g2g":
        return "Other patches: the authors' FENNEL load limit never binds, and overlaps are grown differently."
    return "Other random numbers and split; self-loops dominate the score."


def _chart(rows: list[Row]) -> Chart:
    datasets = datasets_in(rows)
    panels = []
    for protocol, title in (("paper", "the paper's evaluation"), ("heldout", "held-out links")):
        series = auc_by_graph(pick(rows, protocol=protocol), datasets)
        series += _printed_series(datasets) if protocol == "paper" else []
        panels.append(Panel(title, series, "", "AUC in %", ticks=datasets))
    caption = "AUC of all methods by data set under both evaluations; hollow markers are the paper's printed values."
    return Chart("performance", caption, panels)


def _printed_series(datasets: list[str]) -> list[Series]:
    """Return the values of Table 3 as series."""
    series = []
    for name, contender in CONTENDERS.items():
        printed = {place: printed_score("auc", dataset, name) for place, dataset in enumerate(datasets)}
        points = {place + contender.shift: score[0] for place, score in printed.items() if score}
        label, colour = f"{contender.label}, as printed", contender.colour
        series.append(Series(label, list(points), list(points.values()), joined=False, hollow=True, colour=colour))
    return series
