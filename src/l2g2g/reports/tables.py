"""Tables for the terminal: scores of methods, data sets, and sections of a document, also as Markdown."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

from l2g2g.reports.charts import Chart
from l2g2g.reports.page import Block, Code, DataTable, Document, Entry, Picture, Section

if TYPE_CHECKING:
    from l2g2g.graphs.datasets import DatasetInfo

# Characters with a meaning in Markdown: links, tags, emphasis, columns.
_SPECIAL = str.maketrans({character: f"\\{character}" for character in "\\`*_[]<>|"})


def render_markdown(document: Document, figures: str) -> str:
    """The whole text. figures: the folder of the charts as links need it."""
    parts = [f"# {_text(document.title)}"]
    parts += [render_section(section, figures) for section in document.sections]
    return "\n\n".join(parts) + "\n"


def render_section(section: Section, figures: str) -> str:
    """A heading and its blocks."""
    return "\n\n".join([f"## {_text(section.title)}", *(_block(block, figures) for block in section.blocks)])


def _block(block: Block, figures: str) -> str:
    if isinstance(block, DataTable):
        return _table(block)
    if isinstance(block, (Chart, Picture)):
        return f"![{_text(block.caption)}]({figures}/{block.name}.svg)"
    if isinstance(block, Code):
        return f"<!-- not run: what was run for this report -->\n```bash\n{block.text}\n```"
    return _text(block)


def _table(table: DataTable) -> str:
    rule = ["---" if table.is_words(column) else "--:" for column in range(len(table.columns))]
    lines = [[_text(name) for name in table.columns], rule, *([_entry(entry) for entry in row] for row in table.rows)]
    return "\n".join([f"{_text(table.caption)}", "", *(f"| {' | '.join(line)} |" for line in lines)])


def _entry(entry: str | Entry) -> str:
    if isinstance(entry, str):
        return _text(entry)
    text = f"**{_text(entry.text)}**" if entry.best else _text(entry.text)
    return f"<u>{text}</u>" if entry.better else text


def _text(text: str) -> str:
    return " ".join(text.translate(_SPECIAL).split())


def render_scores(rows: list[dict[str, Any]]) -> Table:
    """One line per method: AUC and AP in percent (mean ± deviation over seeds), seconds, and the best possible AUC
    where the graph has a known one.
    """
    first = rows[0]
    num_seeds = len({row["seed"] for row in rows})
    protocol = "held-out links" if first["protocol"] == "heldout" else "the paper's evaluation, self-loops included"
    table = Table(title=f"{first['dataset']}: {protocol}, preset {first['preset']}, {num_seeds} seed(s)")
    table.add_column("method", min_width=max(len(row["method"]) for row in rows))
    chooses = any("vectors_auc" in row for row in rows)
    extra = ["vectors alone AUC %", "scorer"] if chooses else []
    has_best = any(row["best_auc"] is not None for row in rows)
    extra += ["best possible AUC %"] if has_best else []
    for name in ("AUC %", "AP %", *extra, "patches", "epochs", "ms per epoch", "seconds"):
        table.add_column(name, justify="right", min_width=len("combined") if name == "scorer" else None)
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == method]
        scorers = ", ".join(dict.fromkeys(row["chosen"]["scorer"] or "–" for row in own))
        training = ["–", "–", "–"]
        if any(row["epochs"] for row in own):
            training = [f"{own[0]['num_patches']}", f"{mean(row['epochs'] for row in own):.0f}"]
            training.append(f"{1000 * mean(row['seconds']['epoch_median'] for row in own):.1f}")
        table.add_row(
            method,
            _percent(row["auc"] for row in own),
            _percent(row["ap"] for row in own),
            *([_percent(row.get("vectors_auc") for row in own), scorers] if chooses else []),
            *([_percent(row["best_auc"] for row in own)] if has_best else []),
            *training,
            f"{mean(row['seconds']['total'] for row in own):.1f}",
        )
    return table


def tell_best(rows: list[dict[str, Any]], baselines: Collection[str]) -> str:
    """One line: which method has the highest AUC, and what training adds to the best baseline.

    Example:
        >>> rows = [{"method": "gae", "seed": 0, "auc": 0.9}, {"method": "l3", "seed": 0, "auc": 0.85}]
        >>> tell_best(rows, ["l3"])
        'gae has the highest AUC, 5.00 points above the best baseline (l3); --seeds 3 shows how much that varies'
    """
    values: dict[str, list[float]] = {}
    for row in rows:
        values.setdefault(row["method"], []).append(100 * row["auc"])
    found = {method: mean(scores) for method, scores in values.items()}
    trained = max((name for name in found if name not in baselines), key=found.__getitem__, default=None)
    baseline = max((name for name in found if name in baselines), key=found.__getitem__, default=None)
    if trained is None:
        return f"{baseline} has the highest AUC; nothing was trained: add -m l2g2g"
    if baseline is None:
        return f"{trained} has the highest AUC; add -m spectral -m l3 to compare with methods without training"
    gain = found[trained] - found[baseline]
    varies = "" if len({row["seed"] for row in rows}) > 1 else "; --seeds 3 shows how much that varies"
    if gain > 0:
        return f"{trained} has the highest AUC, {gain:.2f} points above the best baseline ({baseline}){varies}"
    return (
        f"{baseline}, a baseline without training, has the highest AUC, {-gain:.2f} points above {trained}: "
        f"for predicting links training adds nothing here{varies}"
    )


def render_measures(rows: list[dict[str, Any]]) -> Table:
    """One line per method: ranks of held-out edges and accuracy of a linear probe, in percent over seeds."""
    columns = {
        "MRR %": "mrr",
        "Hits@1 %": "hits@1",
        "Hits@10 %": "hits@10",
        "Hits@50 %": "hits@50",
        "probe accuracy %": "probe_accuracy",
        "probe macro F1 %": "probe_macro_f1",
    }
    return _by_method(f"{rows[0]['dataset']}: degree-matched ranks, linear probe", columns, rows)


def render_hard_ranks(rows: list[dict[str, Any]]) -> Table:
    """One line per method: ranks of held-out edges among candidates that are close to one end, in percent."""
    columns = {"MRR %": "hard_mrr"} | {f"Hits@{k} %": f"hard_hits@{k}" for k in (1, 10, 50)}
    return _by_method(f"{rows[0]['dataset']}: ranks among hard negatives", columns, rows)


def render_directions(rows: list[dict[str, Any]]) -> Table:
    """One line per method: AUC of edges and of their directions in a directed graph, in percent over seeds."""
    columns = {"AUC %, joined or not": "auc_joined", "AUC %, this way or that": "auc_direction"}
    return _by_method(f"{rows[0]['dataset']}: edges and their directions", columns, rows)


def _by_method(title: str, columns: dict[str, str], rows: list[dict[str, Any]]) -> Table:
    table = Table(title=title)
    table.add_column("method", min_width=max(len(row["method"]) for row in rows))
    for name in columns:
        table.add_column(name, justify="right")
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == method]
        table.add_row(method, *(_percent(row[field] for row in own) for field in columns.values()))
    return table


def render_datasets(found: Iterable[DatasetInfo]) -> Table:
    """One line per data set; its name, which has to be typed, is never cut."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("name", no_wrap=True)
    for name in ("nodes", "edges", "features"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("description", overflow="fold")
    for item in found:
        counts = [
            f"{value:,}" if value is not None else "–" for value in (item.num_nodes, item.num_edges, item.num_features)
        ]
        style = None if item.available else "dim"
        is_said = item.kind in item.description
        table.add_row(
            item.name, *counts, item.description if is_said else f"{item.kind}: {item.description}", style=style
        )
    return table


def _percent(values: Iterable[float | None]) -> str:
    known = [100 * value for value in values if value is not None]
    if not known:
        return "–"
    return f"{mean(known):.2f}" + (f" ± {stdev(known):.2f}" if len(known) > 1 else "")
