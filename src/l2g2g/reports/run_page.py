"""HTML pages: of a run (summary, map, scores, curves, patches, settings) and of an alignment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from l2g2g.alignment.align import AlignedEmbedding
from l2g2g.evaluation.intervals import Interval
from l2g2g.evaluation.separation import Separation
from l2g2g.reports.figures import Curve, draw_curves, draw_histograms, draw_patch_graph
from l2g2g.reports.layout import MapColumn, make_columns
from l2g2g.reports.map_data import Answers, MapData, make_map
from l2g2g.reports.page import EMPTY, DataTable, Entry, read_asset, render_html, render_table
from l2g2g.runs.record import RunRecord

_KINDS = {
    "test": "These pairs were held out: training has not seen them.",
    "paper": (
        "These are the pairs of the paper's evaluation, a self-loop for every node among them; they are not comparable "
        "with held-out links."
    ),
    "validation": (
        "These pairs were held out and decided when training stopped, so new pairs would score slightly lower; "
        "l2g2g evaluate measures that. The final vectors use all edges."
    ),
    "training": (
        "The model has learned from these edges: this says how well the vectors fit the graph, not how well they "
        "predict. l2g2g evaluate measures that."
    ),
}
_SCRIPTS = ("page", "map_blocks", "map_colours", "map_canvas", "map_gestures", "map_partners", "map_page")
_MAX_DRAWN_PATCHES = 400
_PROJECTIONS = {"tsne": "t-SNE (neighbours)", "pca": "PCA (variance)"}
_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; } td, th { padding: .25rem .8rem; text-align: right; }
th { border-bottom: 1px solid; } td:first-child, th:first-child { text-align: left; }
pre { overflow-x: auto; } figure { margin: 1rem 0; } svg { max-width: 100%; height: auto; }
"""


def summarise(record: RunRecord) -> list[str]:
    """Sentences on accuracy, confidence, time, cleaning of the input and patches."""
    if not record.is_run:
        return _describe_file(record)
    said = [_describe_graph(record), *_describe_choice(record), *_describe_accuracy(record), _describe_time(record)]
    said += [_describe_cleaning(record), *_describe_patches(record)]
    if record.history.recoveries:
        said.append(
            f"Training diverged and restarted from its last good state {record.history.recoveries} times with smaller "
            "steps; a lower learning rate (--lr) may give better results."
        )
    return said


def cards(record: RunRecord) -> list[tuple[str, str]]:
    """(value, label) of the headline figures."""
    found = []
    separation = record.separation
    if separation is not None:
        for title, value in (("AUC", separation.auc), ("average precision", separation.average_precision)):
            found.append(
                (percent(value.value), f"{title}, 95 % interval {percent(value.low)} to {percent(value.high)}")
            )
    found.append((f"{record.graph.num_nodes:,}", "nodes"))
    if record.is_run or record.graph.num_edges:
        found.append((f"{record.graph.num_edges:,}", "edges"))
    if not record.is_run:
        found.append((f"{record.vectors.shape[1]:,}", "dimensions"))
    total = record.row.get("seconds", {}).get("total")
    if total is not None:
        found.append((duration(float(total)), f"in total, {record.history.num_epochs} epochs"))
    return found


def explain_pairs(separation: Separation) -> str:
    """Number and kind of the scored pairs."""
    return f"{separation.num_pairs:,} pairs, as many edges as non-edges. {_KINDS[separation.kind]}"


def percent(share: float) -> str:
    """A share as a percentage with two decimals."""
    return f"{100 * share:.2f} %"


def duration(seconds: float) -> str:
    """Seconds in seconds, minutes or hours.

    Example:
        >>> duration(0.4), duration(75), duration(7340)
        ('0.4 s', '1 min 15 s', '2 h 2 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def _describe_graph(record: RunRecord) -> str:
    graph, settings = record.graph, record.settings
    features = f" and {graph.num_features:,} features" if graph.num_features else ", without features"
    kind = "directed " if graph.directed else "weighted " if graph.weighted else ""
    return (
        f"{graph.name} is a {kind}graph of {graph.num_nodes:,} nodes with {graph.num_edges:,} edges{features}. Every "
        f"node has a {record.vectors.shape[1]}-dimensional vector by {settings.get('method', '?')} "
        f"(preset {settings.get('preset', '?')}, seed {settings.get('seed', '?')})."
    )


def _describe_file(record: RunRecord) -> list[str]:
    lengths = np.linalg.norm(record.vectors.astype(np.float64), axis=1)
    low, middle, high = np.quantile(lengths, [0.05, 0.5, 0.95])
    said = [
        f"{record.graph.name} holds {record.graph.num_nodes:,} vectors of {record.vectors.shape[1]:,} dimensions; "
        f"their length is {middle:.3g} in the middle, and within {low:.3g} to {high:.3g} for nine in ten."
    ]
    if record.edges is None:
        said.append(
            "How well they tell edges is not known from the vectors alone; l2g2g evaluate --split DIR --embedding FILE "
            "measures it."
        )
    num_zero = int((lengths == 0).sum())
    if num_zero:
        said.append(f"{num_zero:,} vectors are zero: they have no direction, and no near nodes by cosine.")
    return said


def _describe_choice(record: RunRecord) -> list[str]:
    if not record.is_spectral:
        return []
    scores = record.row["chosen"].get("validation_auc", {})
    known = "spectral" in scores and "trained" in scores
    how = f": AUC {percent(scores['spectral'])} against {percent(scores['trained'])}" if known else ""
    return [f"The vectors are eigenvectors of the graph, which validation pairs preferred to the trained ones{how}."]


def _describe_accuracy(record: RunRecord) -> list[str]:
    separation = record.separation
    if separation is None:
        return ["Accuracy: no pairs were scored in this run; l2g2g evaluate holds some out and scores them."]
    auc, precision = separation.auc, separation.average_precision
    said = [
        f"Accuracy: of an edge and a non-edge, the edge has the higher score {100 * auc.value:.1f} times "
        f"in 100 (AUC; 50 is guessing). Average precision is {percent(precision.value)}. {_KINDS[separation.kind]}",
        f"Confidence: with 95 % confidence the AUC of such pairs lies within {_range(auc)} and their average precision "
        f"within {_range(precision)}; {separation.num_pairs:,} pairs were scored. Other seeds can differ by more.",
    ]
    best = record.row.get("best_auc")
    if best is not None:
        said.append(f"The best possible AUC under the model that generated this graph is {percent(float(best))}.")
    return said


def _range(interval: Interval) -> str:
    return f"{percent(interval.low)} to {percent(interval.high)}"


def _describe_time(record: RunRecord) -> str:
    history, seconds = record.history, record.row.get("seconds", {})
    parts = [f"Time: {history.num_epochs} epochs"]
    if "total" in seconds:
        parts[0] = f"Time: {duration(float(seconds['total']))} in total for {history.num_epochs} epochs"
    if history.epoch_seconds:
        parts.append(f"{1000 * float(np.median(history.epoch_seconds)):,.3g} ms each")
    if 0 < history.best_epoch < history.num_epochs and not record.is_spectral:
        parts.append(f"the best of them epoch {history.best_epoch}, which was kept")
    if history.resumed_from_epoch:
        parts.append(f"resumed from epoch {history.resumed_from_epoch}")
    memory = record.row.get("peak_memory_bytes")
    end = f" Peak memory: {float(memory) / 2**30:.2f} GiB." if memory else ""
    return ", ".join(parts) + "." + end


def _describe_cleaning(record: RunRecord) -> str:
    cleaned = record.graph.cleaning.describe()
    return f"Cleaned from the input: {cleaned}." if cleaned else "The input needed no cleaning."


def _describe_patches(record: RunRecord) -> list[str]:
    patches = record.patches
    if not record.has_patches:
        return []
    smallest, largest = min(patches.sizes), max(patches.sizes)
    sizes = f"{smallest:,}" if smallest == largest else f"{smallest:,} to {largest:,}"
    said = f"The graph was partitioned into {len(patches.sizes)} patches of {sizes} nodes"
    if not patches.pairs:
        return [f"{said}."]
    num_pairs = len(patches.pairs)
    said += f"; {num_pairs:,} pairs overlap." if num_pairs > 1 else "; 1 pair overlaps."
    if patches.pair_residuals and record.is_aligned:
        length = float(np.sqrt(np.square(record.vectors, dtype=np.float64).sum(axis=1).mean()))
        said += (
            f" Two patches place a node they share {patches.after:.3g} apart on average, "
            f"{100 * patches.after / max(length, 1e-30):.0f} % of the length of a vector"
        )
        said += f" ({patches.before:.3g} before alignment)." if patches.before > 1.001 * patches.after else "."
    if patches.final_pass:
        said += " The final vectors come from one pass over the whole graph, without patches."
    if patches.num_joined:
        said += f" {patches.num_joined} overlaps were added between patches that no edge connects."
    return [said]


def render_run(
    record: RunRecord,
    places: Mapping[str, np.ndarray | None],
    columns: list[MapColumn] | None = None,
    *,
    answers: Answers = "inside",
    others: list[RunRow] | None = None,
) -> str:
    """The whole page; a section that would say nothing about this record is left out.

    places, answers: As in `make_map`. columns: Of the map; None for those of the record alone. others: Rows of all
    trainings of the run.
    """
    columns = make_columns(record) if columns is None else columns
    style = "".join(read_asset(name) for name in ("page.css", "run.css"))
    score = f"const scoreByDecoder = {record.make_decoder().page_score or 'null'};"
    script = "\n".join([*(read_asset(f"{name}.js") for name in _SCRIPTS), score])
    title = f"{record.graph.name}: {record.settings['method']}" if "method" in record.settings else record.graph.name
    sections = [
        ("summary", "Summary", _summary(record, others or [])),
        ("map", "Map", _thinned(record) + _map(make_map(record, places, columns, answers))),
        ("scores", "Scores", _scores(record)),
        ("training", "Training", _training(record)),
        ("patches", "Patches", _patches(record)),
        ("details", "How it was made", _details(record)),
    ]
    sections = [section for section in sections if section[2]]
    links = "".join(f'<li><a href="#{name}">{heading}</a></li>' for name, heading, _ in sections)
    body = "".join(
        f'<section id="{name}" aria-labelledby="{name}-h"><h2 id="{name}-h">{heading}</h2>{content}</section>'
        for name, heading, content in sections
    )
    content = (
        f'<a class="skip" href="#map">To the map</a><header><div><h1>{escape(title)}</h1>'
        f'<p class="lead">{record.graph.num_nodes:,} nodes in {record.vectors.shape[1]} dimensions</p></div>'
        '<button type="button" id="theme">Light or dark</button></header>'
        f"<nav><ul>{links}</ul></nav><main>{body}</main>"
    )
    return render_html(title, content, style, script, connects=answers == "live")


RunRow = dict[str, Any]


def _summary(record: RunRecord, others: list[RunRow]) -> str:
    shown = "".join(f"<li><b>{escape(figure)}</b><span>{escape(what)}</span></li>" for figure, what in cards(record))
    said = "".join(f"<li>{escape(sentence)}</li>" for sentence in summarise(record))
    return f'<ul class="cards">{shown}</ul><ul class="summary">{said}</ul>' + _other_trainings(record, others)


def _other_trainings(record: RunRecord, rows: list[RunRow]) -> str:
    if len(rows) < 2:
        return ""
    cells: list[list[str | Entry]] = []
    for row in rows:
        shown = Entry(str(row["name"]), best=True) if row["name"] == record.name else str(row["name"])
        scores = [percent(float(row[name])) if row.get(name) is not None else "–" for name in ("auc", "ap")]
        total = row.get("seconds", {}).get("total")
        cells.append([shown, *scores, str(row.get("epochs", "–")), "–" if total is None else duration(total)])
    caption = "All trainings of this run; the page is about the one in bold (another: --training NAME)."
    return render_table(DataTable(caption, ["training", "AUC", "AP", "epochs", "time"], cells))


def _thinned(record: RunRecord) -> str:
    shown, there = record.num_nodes, record.graph.num_nodes
    if shown == there:
        return ""
    return f"<p>The map shows {shown:,} of {there:,} nodes, a random sample; neighbours are found among them.</p>"


def _map(data: MapData) -> str:
    columns = data.facts["columns"]
    options = "".join(
        f'<option value="{column["name"]}">{escape(column["title"])}</option>'
        for column in columns
        if column["colours"]
    )
    projections = "".join(
        f'<option value="{each["name"]}"{"" if each["view"] else " disabled"}>{_PROJECTIONS[each["name"]]}</option>'
        for each in data.facts["projections"]
    )
    heads = "".join(f'<th scope="col">{escape(column["title"])}</th>' for column in columns)
    count = data.facts["numNodes"]
    return f"""
<div class="tools" role="group" aria-label="Map">
<div class="finder"><label for="map-search">Find a node by name</label><input type="search" id="map-search"
autocomplete="off" spellcheck="false" aria-controls="map-found"><ul id="map-found" aria-label="Nodes found"></ul></div>
<label>Colour<select id="map-colour">{options}<option value="">none</option></select></label>
<label>Projection<select id="map-projection">{projections}</select></label>
<button type="button" id="map-in" aria-label="Zoom in">+</button>
<button type="button" id="map-out" aria-label="Zoom out">−</button>
<button type="button" id="map-home">Reset view</button>
<button type="button" id="map-lasso" aria-pressed="false">Lasso</button>
<button type="button" id="map-view">Select what is in view</button>
<button type="button" id="map-clear">Clear</button>
<details><summary>Display</summary><div class="tools">
<label>Draw<select id="map-mode"><option value="auto">automatically</option><option value="points">points</option>
<option value="density">density</option></select></label>
<label>Size<input type="range" id="map-size" min="0.4" max="3" step="0.1" value="1"></label>
<label>Opacity<input type="range" id="map-opacity" min="0.1" max="1" step="0.05" value="1"></label>
<label class="tick"><input type="checkbox" id="map-names" checked>Names</label></div></details></div>
<div class="map"><div class="stage"><canvas id="map-points" aria-hidden="true"></canvas>
<canvas id="map-overlay" tabindex="0" role="application" aria-label="Map of {count:,} nodes"
aria-describedby="map-help"></canvas><div id="map-tip" hidden></div></div>
<div class="side"><div id="map-legend" role="group" aria-label="Legend"></div><div id="map-node" aria-live="off">
<p class="hint">Choose a node on the map or by its name.</p></div></div></div>
<p id="map-status" role="status" class="hint">The map is being read …</p>
<p class="hint" id="map-about"></p>
<p class="hint" id="map-help">Drag to move; the wheel zooms once the map has the focus;
a click chooses a node; shift and drag draw a lasso. Keys: arrows move, + and − zoom, 0 resets the view, Enter chooses
the node in the middle, Escape clears.</p>
<div id="map-selection" hidden><h3>Selection</h3><div class="exports"><span id="map-count"></span>
<button type="button" id="map-save-ids">Save ids (.txt)</button>
<button type="button" id="map-save-table">Save table (.csv)</button></div>
<div class="listing" tabindex="0" role="region" aria-label="Selected nodes"><table id="map-table"><thead><tr>
<th scope="col">Node</th>{heads}</tr></thead><tbody></tbody></table></div></div>{data.render()}"""


def _scores(record: RunRecord) -> str:
    separation = record.separation
    if separation is None:
        return ""
    rows: list[list[str | Entry]] = [
        [name, percent(value.value), percent(value.low), percent(value.high), how]
        for name, value, how in (
            ("AUC", separation.auc, "DeLong"),
            ("average precision", separation.average_precision, "bootstrap"),
        )
    ]
    columns = ["measure", "value", "from", "to", "interval by"]
    caption = "How well scores separate edges from non-edges, with 95 % intervals"
    table = render_table(DataTable(caption, columns, rows, 1, 1))
    counts = [("edges", separation.edges, 0), ("non-edges", separation.others, 1)]
    caption = (
        "Scores of edges and of non-edges: the less they overlap, the better. The outermost bars include all values "
        "beyond them."
    )
    figure = draw_histograms(separation.bounds, counts, "score of a pair", caption)
    return f'<p>{escape(explain_pairs(separation))}</p>{table}<div class="figures">{figure}</div>'


def _training(record: RunRecord) -> str:
    history = record.history
    if not history.losses or record.is_spectral:
        return ""
    epochs = list(range(1, history.num_epochs + 1))
    best = history.best_epoch or None
    figures = [draw_curves([Curve("loss", epochs, history.losses)], "epoch", "loss", "Loss of every epoch.", best)]
    if history.validations:
        steps, scores = zip(*history.validations, strict=True)
        curve = Curve("validation AUC", steps, [100 * score for score in scores], 1)
        caption = f"AUC of the validation pairs; the dashed line is epoch {history.best_epoch}, which was kept."
        figures.append(draw_curves([curve], "epoch", "validation AUC in %", caption, best))
    return f'<div class="figures">{"".join(figures)}</div>'


def _patches(record: RunRecord) -> str:
    patches = record.patches
    if not record.has_patches:
        return ""
    known = record.is_aligned and bool(patches.patch_residuals)
    rows: list[list[str | Entry]] = [
        [f"{number}", f"{size:,}", f"{patches.patch_residuals[number]:.4g}" if known else EMPTY]
        for number, size in enumerate(patches.sizes)
    ]
    joins: list[list[str | Entry]] = [
        [
            f"{first} – {second}",
            f"{patches.overlaps[number]:,}",
            f"{patches.pair_residuals[number]:.4g}" if known else EMPTY,
        ]
        for number, (first, second) in enumerate(patches.pairs)
    ]
    drawn = f"<p>{len(patches.sizes):,} patches are too many to draw.</p>"
    if len(patches.sizes) <= _MAX_DRAWN_PATCHES:
        caption = "The patch graph: discs by the number of nodes, lines by the nodes shared."
        if known:
            caption += " The redder a line, the farther apart the two patches place them."
        residuals = patches.pair_residuals if known else []
        drawn = draw_patch_graph(patches.sizes, patches.pairs, patches.overlaps, residuals, caption)
    meaning = "<p>Residual: how far apart, after alignment, patches place the nodes they share (root mean square).</p>"
    tables = [
        DataTable("Patches", ["patch", "nodes", "residual"], rows),
        DataTable("Pairs that share nodes", ["pair", "shared nodes", "residual"], joins),
    ]
    columns = "".join(f"<div>{render_table(table.trimmed())}</div>" for table in tables if table.rows)
    return f'{meaning if known else ""}<div class="figures">{drawn}<div class="figures">{columns}</div></div>'


def _details(record: RunRecord) -> str:
    command = f"<p>Command:</p><pre>{escape(record.command)}</pre>" if record.command else ""
    stages: list[list[str | Entry]] = [
        [str(name), f"{float(seconds):.3f}"] for name, seconds in record.row.get("seconds", {}).items()
    ]
    settings: list[list[str | Entry]] = [
        [name, "not set" if value is None else str(value)] for name, value in record.settings.items()
    ]
    versions: list[list[str | Entry]] = [[name, version] for name, version in record.versions.items()]
    tables = [
        DataTable("Seconds by stage", ["stage", "seconds"], stages),
        DataTable("Versions", ["package", "version"], versions, 2),
        DataTable("Settings as they were used", ["setting", "value"], settings, 2),
    ]
    shown = "".join(f"<div>{render_table(table)}</div>" for table in tables if table.rows)
    return f'{command}<div class="figures">{shown}</div>' if command or shown else ""


def render_alignment(aligned: AlignedEmbedding, names: list[str], worst: int = 20) -> str:
    """A page with the summary, the patches with their residuals, the worst pairs and a histogram."""
    residuals = aligned.residuals
    per_patch, per_pair = np.asarray(residuals.per_patch), np.asarray(residuals.per_pair)
    pairs = np.asarray(residuals.pairs)
    patch_rows = [
        (names[number], f"{aligned.components[number]}", f"{per_patch[number]:.4g}") for number in range(len(names))
    ]
    order = np.argsort(-per_pair, kind="stable")[:worst]
    pair_rows = [
        (names[pairs[e][0]], names[pairs[e][1]], f"{aligned.overlap_sizes[e]:,}", f"{per_pair[e]:.4g}")
        for e in order
        if max(pairs[e]) < len(names)
    ]
    body = [
        "<h1>Alignment</h1>",
        f"<pre>{escape(aligned.summary())}</pre>",
        "<h2>Patches</h2>",
        _table(("patch", "part", "residual"), patch_rows),
        "<h2>Pairs that agree least</h2>",
        _table(("first", "second", "shared nodes", "residual"), pair_rows),
        "<h2>Residuals of the shared nodes</h2>",
        _histogram(np.asarray(residuals.per_node)),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Alignment</title><style>{_STYLE}</style></head><body>{''.join(body)}</body></html>\n"
    )


def _table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    lines = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"


def _histogram(values: np.ndarray, num_bins: int = 40) -> str:
    shared = values[values > 0]
    if not len(shared):
        return "<p>No node is in two patches, or all copies agree exactly.</p>"
    counts, edges = np.histogram(shared, bins=num_bins)
    width, height = 640, 160
    bar = width / num_bins
    bars = "".join(
        f'<rect x="{i * bar:.1f}" y="{height - height * c / counts.max():.1f}" '
        f'width="{bar - 1:.1f}" height="{height * c / counts.max():.1f}"/>'
        for i, c in enumerate(counts)
    )
    caption = f"{len(shared):,} nodes; distances of the copies from their mean, {edges[0]:.3g} to {edges[-1]:.3g}"
    return (
        f'<figure><svg viewBox="0 0 {width} {height}" role="img" aria-label="{caption}" fill="steelblue">{bars}</svg>'
        f"<figcaption>{caption}</figcaption></figure>"
    )
