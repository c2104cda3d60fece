"""Data sets: nodes, edges and features as the paper prints them (Table 2) and as counted here."""

from __future__ import annotations

from l2g2g.paper.cells import AnyCell, GraphCell
from l2g2g.paper.results import SIZES, Row, signed
from l2g2g.paper.study import Choice
from l2g2g.reports.page import EMPTY, Block, DataTable, Entry

TITLE = "Data sets"
DATASETS = (*SIZES, "reddit-like", "yelp-like")
QUICK_DATASETS = ("sbm-small", "cora-ml")
_STAND_FOR = {"reddit-like": "reddit", "yelp-like": "yelp"}
_WHY = {
    "sbm-small": "The stated sizes and probabilities give 14,850 edges on average, not 104,485; the published AUC fits "
    "the stated ones, which are used here.",
    "sbm-large-sparse": "The stated p_out = 1e-4 gives 544,950 edges on average; p_out = 1e-5 gives 99,450, as "
    "printed, and is used here (sbm-large-sparse-stated is the other).",
}


def plan(choice: Choice) -> list[AnyCell]:
    """Plan one count for each graph."""
    return [GraphCell(name) for name in choice.datasets or (QUICK_DATASETS if choice.quick else DATASETS)]


def present(rows: list[Row], quick: bool) -> list[Block]:
    """Return the table of printed and counted sizes, with reasons for differences."""
    entries: list[list[str | Entry]] = []
    for row in rows:
        if "error" in row:
            continue
        name = row["cell"]["dataset"]
        printed = SIZES.get(_STAND_FOR.get(name, name))
        entry: list[str | Entry] = [name]
        for count in ("num_nodes", "num_edges", "num_features"):
            entry += [EMPTY if printed is None else f"{getattr(printed, count):,}", f"{row[count]:,}"]
        entries.append([*entry, _explain(name, row["num_edges"])])
    blocks: list[Block] = [
        DataTable(
            "Nodes N, edges M and features F as printed in the paper's Table 2, and as counted here, every edge once.",
            ["data set", "N, printed", "N", "M, printed", "M", "F, printed", "F", "why M differs"],
            entries,
            num_notes=1,
        )
    ]
    return blocks + _tell_missing([row["cell"]["dataset"] for row in rows if "error" not in row])


def _tell_missing(counted: list[str]) -> list[Block]:
    """Name the graphs of the paper without a count, and their stand-ins."""
    missing = [name for name in SIZES if name not in counted]
    if not missing:
        return []
    generated = ", ".join(name for name in missing if name.startswith("sbm-"))
    files = ", ".join(name for name in missing if not name.startswith("sbm-"))
    kinds = [generated and f"{generated} (generated)", files and f"{files} (read from their published files)"]
    sentences = [f"Not counted here: {'; '.join(filter(None, kinds))}."]
    for name in counted:
        if _STAND_FOR.get(name) in missing:
            sentences.append(f"{name} is a generated stand-in of the size of {_STAND_FOR[name]} and nothing more.")
    return [" ".join(sentences)]


def _explain(name: str, num_edges: int) -> str:
    printed = SIZES.get(_STAND_FOR.get(name, name))
    if printed is None:
        return "not in the paper"
    if name in _STAND_FOR:
        return f"Stand-in of the size of {_STAND_FOR[name]}; the paper counts both directions."
    if name in _WHY:
        return _WHY[name]
    if printed.num_edges == 2 * num_edges:
        return "The paper counts both directions of every edge."
    share = num_edges / printed.num_edges - 1
    return f"{signed(100 * share)} %: another draw of the same model." if abs(share) < 0.01 else "Unexplained."
