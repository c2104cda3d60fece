"""Figures of a page: small charts as inline SVG in the colours of the page, light or dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape

import numpy as np

_WIDTH, _HEIGHT = 560, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 12, 12, 40
_LARGEST = 1e30


@dataclass(frozen=True)
class Curve:
    """Points joined by a line. colour: number of a colour of the page."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    colour: int = 0


def draw_curves(curves: Sequence[Curve], xlabel: str, ylabel: str, caption: str, marked: float | None = None) -> str:
    """Curves over one pair of axes. marked: an x with a vertical line."""
    curves = [_drawable(curve) for curve in curves]
    xs, ys = (np.concatenate([np.asarray(getattr(curve, axis), float) for curve in curves]) for axis in "xy")
    if not len(xs):
        return f"<p>{escape(caption)} None of them is a finite number.</p>"
    axes = _Axes(float(xs.min()), float(xs.max()), float(ys.min()), float(ys.max()))
    parts = [axes.render(xlabel, ylabel)]
    if marked is not None:
        place = axes.x(marked)
        parts.append(f'<line class="mark" x1="{place}" x2="{place}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}"/>')
    for curve in curves:
        path = " ".join(f"{axes.x(x)},{axes.y(y)}" for x, y in zip(curve.x, curve.y, strict=True))
        parts.append(f'<polyline class="curve c{curve.colour}" points="{path}"/>')
        if len(curve.x) <= 40:
            dots = (
                f'<circle cx="{axes.x(x)}" cy="{axes.y(y)}" r="2.5"/>' for x, y in zip(curve.x, curve.y, strict=True)
            )
            parts.append(f'<g class="c{curve.colour} dots">{"".join(dots)}</g>')
    return _figure(parts, caption, [(curve.label, curve.colour) for curve in curves])


def draw_histograms(
    bounds: Sequence[float], counts: Sequence[tuple[str, Sequence[int], int]], xlabel: str, caption: str
) -> str:
    """Overlaid histograms with the same bins. counts: (label, pairs in each bin, colour) of each."""
    shares = [np.asarray(values, float) / max(1, sum(values)) for _, values, _ in counts]
    axes = _Axes(bounds[0], bounds[-1], 0.0, 100 * max(float(share.max()) for share in shares))
    parts = [axes.render(xlabel, "% of pairs")]
    for share, (_, _, colour) in zip(shares, counts, strict=True):
        steps = [(bounds[0], 0.0)]
        for place, value in enumerate(100 * share):
            steps += [(bounds[place], value), (bounds[place + 1], value)]
        path = " ".join(f"{axes.x(x)},{axes.y(y)}" for x, y in [*steps, (bounds[-1], 0.0)])
        parts.append(f'<polygon class="area c{colour}" points="{path}"/>')
    return _figure(parts, caption, [(label, colour) for label, _, colour in counts])


def draw_patch_graph(
    sizes: Sequence[int],
    pairs: Sequence[Sequence[int]],
    overlaps: Sequence[int],
    residuals: Sequence[float],
    caption: str,
) -> str:
    """Patches as discs by size, joined where they share nodes: wider for more nodes, redder for larger residuals.

    residuals: (num_pairs,), or empty where they are not known.
    """
    places = lay_out(len(sizes), np.asarray(pairs, int).reshape(-1, 2))
    width, height, margin = 640, 420, 34
    xs, ys = margin + (width - 2 * margin) * places[:, 0], margin + (height - 2 * margin) * places[:, 1]
    best, worst, most = min(residuals, default=0.0), max(residuals, default=0.0), max(overlaps, default=1) or 1
    parts = []
    for number, (first, second) in enumerate(pairs):
        thickness = 1 + 5 * overlaps[number] / most
        share = (residuals[number] - best) / (worst - best) if worst > best else 0.0
        hint = f"patches {first} and {second} share {overlaps[number]:,} nodes"
        hint += f", residual {residuals[number]:.3g}" if residuals else ""
        ends = f'x1="{xs[first]:.1f}" y1="{ys[first]:.1f}" x2="{xs[second]:.1f}" y2="{ys[second]:.1f}"'
        parts.append(
            f'<line class="join" style="--share:{100 * share:.0f}%" stroke-width="{thickness:.1f}" {ends}>'
            f"<title>{hint}</title></line>"
        )
    shrink = min(1.0, 6 / math.sqrt(len(sizes)))
    for number, size in enumerate(sizes):
        radius = shrink * (6 + 16 * math.sqrt(size / max(sizes)))
        parts.append(
            f'<circle class="patch" cx="{xs[number]:.1f}" cy="{ys[number]:.1f}" r="{radius:.1f}">'
            f"<title>patch {number}: {size:,} nodes</title></circle>"
        )
        if len(sizes) <= 60:
            place = f'x="{xs[number]:.1f}" y="{ys[number] + 4:.1f}"'
            parts.append(f'<text class="patch-name" text-anchor="middle" {place}>{number}</text>')
    drawn = "".join(parts)
    return (
        f'<figure><svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(caption)}">{drawn}</svg>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def lay_out(num_nodes: int, pairs: np.ndarray, num_steps: int = 200) -> np.ndarray:
    """(num_nodes, 2) coordinates in 0 to 1 by attraction along pairs and repulsion (Fruchterman and Reingold 1991)."""
    angles = 2 * np.pi * np.arange(num_nodes) * 0.618  # golden ratio: consecutive numbers are far apart
    places = np.column_stack([np.cos(angles), np.sin(angles)]) * (0.5 + 0.5 * np.arange(num_nodes) / num_nodes)[:, None]
    wanted = 1.5 / math.sqrt(max(num_nodes, 1))
    for step in range(num_steps):
        apart = places[:, None] - places[None]
        distances = np.maximum(np.linalg.norm(apart, axis=2), 1e-3)
        forces = (apart * (wanted**2 / distances**2)[:, :, None]).sum(axis=1)
        if len(pairs):
            first, second = pairs[:, 0], pairs[:, 1]
            pull = apart[first, second] * (distances[first, second] / wanted)[:, None]
            np.add.at(forces, first, -pull)
            np.add.at(forces, second, pull)
        lengths = np.maximum(np.linalg.norm(forces, axis=1, keepdims=True), 1e-9)
        places = places + forces / lengths * np.minimum(lengths, 0.1 * (1 - step / num_steps))
    places = places - places.min(axis=0)
    return np.asarray(places / np.maximum(places.max(axis=0), 1e-9))


def _drawable(curve: Curve) -> Curve:
    """The curve without values that are not finite or too large to draw, such as a diverged loss."""
    kept = np.abs(np.asarray(curve.y, dtype=float)) < _LARGEST
    x, y = (np.asarray(part, dtype=float)[kept].tolist() for part in (curve.x, curve.y))
    return replace(curve, x=x, y=y)


class _Axes:
    """Maps values to coordinates of the drawing, with a margin above."""

    def __init__(self, left: float, right: float, low: float, high: float) -> None:
        self.left, self.right = (left, right) if right > left else (left - 0.5, left + 0.5)
        self.low, self.high = (low, high) if high > low else (low - 0.5, high + 0.5)
        self.high += 0.04 * (self.high - self.low)

    def x(self, value: float) -> str:
        share = (value - self.left) / (self.right - self.left)
        return f"{_LEFT + share * (_WIDTH - _LEFT - _RIGHT):.1f}"

    def y(self, value: float) -> str:
        share = (value - self.low) / (self.high - self.low)
        return f"{_HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM):.1f}"

    def render(self, xlabel: str, ylabel: str) -> str:
        bottom, middle = _HEIGHT - _BOTTOM, (_HEIGHT - _BOTTOM + _TOP) / 2
        parts = [f'<path class="axis" d="M{_LEFT} {_TOP}V{bottom}H{_WIDTH - _RIGHT}"/>']
        for value in nice_ticks(self.left, self.right):
            parts.append(f'<text text-anchor="middle" x="{self.x(value)}" y="{bottom + 15}">{value:g}</text>')
        for value in nice_ticks(self.low, self.high):
            place = self.y(value)
            parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{place}" y2="{place}"/>')
            parts.append(f'<text text-anchor="end" x="{_LEFT - 6}" y="{float(place) + 4:.1f}">{value:g}</text>')
        parts.append(f'<text text-anchor="middle" x="{(_WIDTH + _LEFT) / 2}" y="{_HEIGHT - 6}">{escape(xlabel)}</text>')
        turned = f'text-anchor="middle" transform="translate(14 {middle}) rotate(-90)"'
        parts.append(f"<text {turned}>{escape(ylabel)}</text>")
        return "".join(parts)


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About `count` round numbers from low to high.

    Example:
        >>> nice_ticks(0, 47)
        [0.0, 10.0, 20.0, 30.0, 40.0]
    """
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [float(f"{number * step:.10g}") for number in range(first, last + 1)]


def _figure(parts: list[str], caption: str, labels: list[tuple[str, int]]) -> str:
    keys = "".join(f'<span class="key c{colour}"><i></i>{escape(label)}</span>' for label, colour in labels)
    drawn = f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(caption)}">{"".join(parts)}</svg>'
    return (
        f"<figure>{drawn}"
        f'<p class="keys">{keys if len(labels) > 1 else ""}</p><figcaption>{escape(caption)}</figcaption></figure>'
    )
