"""HTML page of an alignment, self-contained. Every name from data is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from l2g2g.alignment.align import AlignedEmbedding

_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; } td, th { padding: .25rem .8rem; text-align: right; }
th { border-bottom: 1px solid; } td:first-child, th:first-child { text-align: left; }
pre { overflow-x: auto; } figure { margin: 1rem 0; } svg { max-width: 100%; height: auto; }
"""


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
