"""How the patches are cut: AUC of the paper's patch methods by partition, and by how many edges it keeps.

The paper does not say how often FENNEL passes over the nodes. The authors' code makes one pass by default.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean
from typing import Any

from l2g2g.graphs.splits import Protocol
from l2g2g.paper.cells import CONTENDERS, AnyCell, choose_contenders
from l2g2g.paper.results import Row, datasets_in, describe, percents, pick, printed_score
from l2g2g.paper.study import PROTOCOLS, SHORT_PROTOCOLS, Choice, score_series
from l2g2g.reports.charts import Chart, Panel
from l2g2g.reports.page import EMPTY, Block, DataTable, Entry

TITLE = "How the patches are cut"
# Graphs and their seeds.
DATASETS = {"cora-ml": 3, "sbm-small": 3, "sbm-large": 3, "sbm-large-dense": 1}
QUICK_DATASETS = {"sbm-small": 1}
CUTS: dict[str, dict[str, Any]] = {
    "FENNEL, 1 pass": {},
    "FENNEL, 2 passes": {"fennel_passes": 2},
    "FENNEL, 5 passes": {"fennel_passes": 5},
    "FENNEL, 10 passes": {"fennel_passes": 10},
    "METIS": {"partition": "metis"},
}
QUICK_CUTS = ("FENNEL, 1 pass", "METIS")
_METHODS = ("gae+l2g", "l2g2g")


def options_of(cut: str, quick: bool) -> dict[str, Any]:
    """Return the settings of a cut that differ from the paper preset."""
    return CUTS[cut] | ({"epochs": 10} if quick else {})


def plan(choice: Choice) -> list[AnyCell]:
    """Plan GAE, which cuts nothing, once, and the paper's methods with patches for every cut."""
    chosen = choose_contenders(choice.methods)
    runs = [("gae", QUICK_CUTS[0])] if "gae" in chosen else []
    runs += [(name, cut) for cut in (QUICK_CUTS if choice.quick else CUTS) for name in _METHODS if name in chosen]
    return [
        CONTENDERS[name].cell(dataset, options_of(cut, choice.quick), seed, protocol)
        for dataset, seed in choice.graphs_and_seeds(DATASETS, QUICK_DATASETS, otherwise=3)
        for protocol in PROTOCOLS
        for name, cut in runs
    ]


def scores(rows: list[Row], contender: str, cut: str, quick: bool) -> list[float]:
    """Return AUC in percent over seeds. rows: of one graph and evaluation. GAE has the same AUC for every cut."""
    options = options_of(QUICK_CUTS[0] if contender == "gae" else cut, quick)
    return percents(pick(rows, contender=contender, options=options), "auc")


def kept_edges(rows: list[Row], cut: str, quick: bool) -> float | None:
    """Return the mean percentage of edges inside a patch; None without lines. rows: of one graph and evaluation."""
    own = pick(rows, options=options_of(cut, quick))
    found = percents((row for row in own if row["cell"]["method"] in _METHODS), "kept_edge_fraction")
    return fmean(found) if found else None


def present(rows: list[Row], quick: bool) -> list[Block]:
    """Return a table for each evaluation, and a figure of AUC against the kept edges."""
    blocks: list[Block] = [
        "AUC in percent of the paper's methods by the cut, mean ± deviation over seeds, beside the printed value under "
        "the paper's evaluation. The paper preset is FENNEL with one pass; GAE cuts nothing."
    ]
    for protocol in PROTOCOLS:
        own = pick(rows, protocol=protocol)
        table = _table(own, protocol, quick)
        if table.rows:
            blocks.append(table)
        blocks.append(_chart(own, protocol, quick))
    return blocks


def _table(rows: list[Row], protocol: Protocol, quick: bool) -> DataTable:
    names = [name for name in ("gae", *_METHODS) if pick(rows, contender=name)]
    entries: list[list[str | Entry]] = []
    for dataset in datasets_in(rows):
        own = pick(rows, dataset=dataset)
        for cut in CUTS:
            kept = kept_edges(own, cut, quick)
            if kept is None:
                continue
            line: list[str | Entry] = [dataset, cut, f"{kept:.0f}"]
            for name in names:
                printed = printed_score("auc", dataset, name) if protocol == "paper" else None
                line += [describe(scores(own, name, cut, quick)), f"{printed[0]:.2f}" if printed else EMPTY]
            entries.append(line)
    scored = [word for name in names for word in (CONTENDERS[name].heading, "printed")]
    caption = f"AUC in % by how the patches are cut: {PROTOCOLS[protocol]}."
    return DataTable(caption, ["data set", "cut", "edges kept, %", *scored], entries, num_labels=2).trimmed()


def _chart(rows: list[Row], protocol: str, quick: bool) -> Chart:
    panels = []
    for dataset in datasets_in(rows):
        own = pick(rows, dataset=dataset)
        kept = {cut: kept_edges(own, cut, quick) for cut in CUTS}
        cuts = dict(sorted((share, cut) for cut, share in kept.items() if share is not None))
        series = []
        for name in ("gae", *_METHODS):
            found = {share: scores(own, name, cut, quick) for share, cut in cuts.items()}
            series.append(replace(score_series(CONTENDERS[name], found), bounds=None))
        panels.append(Panel(dataset, series, "edges inside patches, %", "AUC in %"))
    caption = f"AUC against the share of edges inside the patches {SHORT_PROTOCOLS[protocol]}."
    return Chart(f"cuts-{protocol}", caption, panels)
