"""Roofline: what this machine allows, measured by simple loops, and our kernels and torch's sparse calls as points.

Ceilings: additions and multiplications per second of a loop that stays in the first-level cache, and bytes per second
of a triad a = b + s c in the second-level cache, in the last-level cache and in memory; the best of the repeats. Beside
them: bytes per second of a loop that reads random rows of 64 bytes from a table as large as the embedding, which is
what a product with a sparse matrix does; neighbours in order are easier to read, so that this is no ceiling.

Points: operations and bytes that a kernel cannot do without (each array once; a gathered row counts once however often
it is read), over the measured time. A point can lie above the line of memory, where what it reads stays in a cache.

    python benchmarks/roofline.py --figure docs/figures/roofline.svg > docs/results/roofline.jsonl
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numba
import numpy as np
import torch
from numba import njit, prange
from rich.console import Console
from rich.table import Table

from floor import build_floor
from l2g2g.graphs.splits import LinkSplit, split_links
from l2g2g.models.pair_loss import reconstruction_loss
from l2g2g.models.sparse import multiply
from l2g2g.patches.overlap import whole_graph
from l2g2g.training.batches import PatchBatch, prepare_batches
from machine import CLOCKS, DATA, cache_sizes, describe_machine, load_graph

DIM, HIDDEN = 16, 32
LOSS_OPERATIONS = 45  # of one pair: exponential, logarithm, division and sums of the compiled loss


@dataclass(frozen=True)
class Point:
    """A kernel: operations, bytes it must move at least, bytes of the rows it reads or sums into, and seconds."""

    name: str
    operations: float
    bytes: float
    gathered: float
    seconds: float
    ours: bool

    @property
    def intensity(self) -> float:
        """Operations per byte."""
        return self.operations / self.bytes

    @property
    def speed(self) -> float:
        """Operations per second."""
        return self.operations / self.seconds


@njit(parallel=True, fastmath=True)
def _triad(first: np.ndarray, second: np.ndarray, third: np.ndarray, rounds: int) -> None:
    for _ in range(rounds):
        for place in prange(len(first)):
            first[place] = second[place] + np.float32(0.5) * third[place]


@njit(parallel=True, fastmath=True)
def _spin(num_threads: int, rounds: int) -> float:
    total = 0.0
    for thread in prange(num_threads):
        sums = np.zeros(256, np.float32)
        for _ in range(rounds):
            for place in range(256):
                sums[place] = sums[place] * np.float32(0.999) + np.float32(thread)
        total += sums.sum()
    return total


@njit(parallel=True, fastmath=True)
def _gather(table: np.ndarray, rows: np.ndarray, num_threads: int) -> np.ndarray:
    found = np.zeros(num_threads, np.float32)
    size = len(rows) // num_threads
    for thread in prange(num_threads):
        sums = np.zeros(DIM, np.float32)
        for place in range(thread * size, (thread + 1) * size):
            for column in range(DIM):
                sums[column] += table[rows[place], column]
        found[thread] = sums.sum()
    return found


@dataclass(frozen=True)
class Timer:
    """Seconds of a call by a clock; the first call is not counted."""

    repeats: int
    clock: Callable[[], float] = time.perf_counter

    def usual(self, call: Callable[[], Any]) -> float:
        """The median."""
        return median(self._measure(call))

    def best(self, call: Callable[[], Any]) -> float:
        """The least."""
        return min(self._measure(call))

    def _measure(self, call: Callable[[], Any]) -> list[float]:
        call()
        spent = []
        for _ in range(self.repeats):
            started = self.clock()
            call()
            spent.append(self.clock() - started)
        return spent


def measure_ceilings(num_rows: int, timer: Timer) -> dict[str, float]:
    """Operations per second and bytes per second of simple loops on the threads that are set."""
    threads = numba.get_num_threads()
    rounds = 400_000
    ceilings = {"operations": 2 * 256 * threads * rounds / timer.best(lambda: _spin(threads, rounds))}
    caches = cache_sizes() or {}
    last = max(caches.values(), default=1 << 25)
    places = {
        "second-level cache": threads * caches.get("L2", 1 << 20) // 2,
        "last-level cache": min(last // 4, 1 << 26),
        "memory": max(3 * last, 1 << 28),
    }
    for name, size in places.items():
        arrays = [np.ones(size // 12, np.float32) for _ in range(3)]
        again = max(1, (1 << 28) // size)
        ceilings[name] = again * 12 * len(arrays[0]) / timer.best(lambda a=arrays, r=again: _triad(*a, r))
    table = np.ones((num_rows, DIM), np.float32)
    rows = np.random.default_rng(0).integers(0, num_rows, 4_000_000).astype(np.int32)
    ceilings["random rows"] = 4 * DIM * len(rows) / timer.best(lambda: _gather(table, rows, threads))
    return ceilings


def prepare(split: LinkSplit) -> PatchBatch:
    """The whole graph as training sees it, with as many negatives as arcs."""
    graph = split.train
    features = np.ones((graph.num_nodes, 1), np.float32)
    (batch,) = prepare_batches(
        whole_graph(graph.num_nodes), graph.adjacency, features, split.held_out, negatives_per_edge=2.0
    )
    return batch


def measure_ours(batch: PatchBatch, timer: Timer) -> list[Point]:
    """Our kernels, forward and backward."""
    adjacency, propagation = batch.adjacency, batch.inputs.propagation
    num_rows, num_arcs = batch.num_rows, adjacency.nnz
    generator = torch.Generator().manual_seed(0)
    points = []
    for width in (DIM, HIDDEN):
        dense = torch.randn(num_rows, width, generator=generator)
        seconds = timer.usual(lambda d=dense: multiply(propagation, d))
        points.append(product_point(f"propagate, {width} columns", num_rows, num_arcs + num_rows, width, seconds, True))
    negatives = batch.pairs.draw_negatives(seed=0, epoch=0)
    embedding = (0.1 * torch.randn(num_rows, DIM, generator=generator)).requires_grad_()
    seconds = timer.usual(lambda: reconstruction_loss(embedding, batch.pairs.edges, negatives))
    scored = num_arcs // 2 + negatives.num_pairs  # an undirected pair is scored once
    operations = scored * (6 * DIM + LOSS_OPERATIONS)  # one inner product, the loss, and a gradient for both ends
    moved = 4 * (num_arcs + negatives.num_pairs) + 8 * num_rows + 3 * 4 * DIM * num_rows
    points.append(Point("pair loss and gradient", operations, moved, 3 * 4 * DIM * scored, seconds, True))
    return points


def measure_torch(batch: PatchBatch, timer: Timer) -> list[Point]:
    """The calls of the floor."""
    adjacency, num_rows = batch.adjacency, batch.num_rows
    floor = build_floor(adjacency, np.array([0, num_rows]), negatives_per_edge=2.0, first_layer=True)
    _, spent = floor.measure(timer.repeats, timer.clock)
    entries = adjacency.nnz + num_rows
    points = [
        product_point("torch product, 16 columns", num_rows, entries, DIM, spent["layer 2 forward"], False),
        product_point("torch product, 32 columns", num_rows, entries, HIDDEN, spent["layer 1 forward"], False),
    ]
    moved = 8 * floor.num_arcs + 4 * num_rows + 2 * 4 * DIM * num_rows
    operations, gathered = 2 * DIM * floor.num_arcs, 4 * DIM * floor.num_arcs
    points.append(Point("torch sampled product", operations, moved, gathered, spent["positive scores"], False))
    return points


def product_point(name: str, num_rows: int, num_entries: int, width: int, seconds: float, ours: bool) -> Point:
    """A product of a square CSR matrix (int32, float32) and a dense one."""
    moved = 8 * num_entries + 4 * num_rows + 2 * 4 * width * num_rows
    return Point(name, 2 * num_entries * width, moved, 4 * num_entries * width, seconds, ours)


def draw(ceilings: dict[str, float], points: list[Point], title: str, path: Path) -> None:
    """Both axes logarithmic: operations per byte against operations per second."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8.4, 5), layout="constrained")
    low, high = 0.25 * min(p.intensity for p in points), 4 * max(p.intensity for p in points)
    grid = np.geomspace(low, high, 100)
    for name, speed in ceilings.items():
        if name != "operations":
            axes.plot(grid, np.minimum(grid * speed, ceilings["operations"]) / 1e9, color="0.6", linewidth=1)
            axes.annotate(
                f"{name}, {speed / 1e9:.0f} GB/s", (low, low * speed / 1e9), fontsize=8, color="0.35", va="bottom"
            )
    axes.axhline(ceilings["operations"] / 1e9, color="0.3", linewidth=1)
    label = f"simple loop, {ceilings['operations'] / 1e9:.0f} Gop/s"
    axes.annotate(label, (high, ceilings["operations"] / 1e9), fontsize=8, ha="right", va="bottom")
    for point in points:
        colour, marker = ("tab:blue", "o") if point.ours else ("tab:orange", "s")
        axes.plot(point.intensity, point.speed / 1e9, marker, color=colour)
        place = (point.intensity, point.speed / 1e9)
        axes.annotate(
            point.name, place, xytext=(6, 2 if point.ours else -9), textcoords="offset points", fontsize=8, color=colour
        )
    axes.set(xscale="log", yscale="log", xlabel="operations per byte that must be moved", ylabel="Gop/s", title=title)
    axes.set_ylim(bottom=0.5 * min(min(p.speed for p in points), low * ceilings["memory"]) / 1e9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.2)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)


def main(arguments: list[str] | None = None) -> None:
    """Parse, measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="sbm-large")
    parser.add_argument("--data-dir", type=Path, default=DATA)
    parser.add_argument("--threads", type=int, default=0, help="0: all that numba has")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--clock", choices=list(CLOCKS), default="wall", help="cpu: for --threads 1 on a machine that is not idle"
    )
    parser.add_argument("--figure", type=Path, help=".svg, .png or .pdf")
    options = parser.parse_args(arguments)
    threads = options.threads or numba.config.NUMBA_NUM_THREADS
    torch.set_num_threads(threads)
    numba.set_num_threads(threads)
    graph = load_graph(options.dataset, options.data_dir)
    if isinstance(graph, str):
        parser.error(graph)
    timer = Timer(options.repeats, CLOCKS[options.clock])
    batch = prepare(split_links(graph, seed=0))
    ceilings = measure_ceilings(batch.num_rows, timer)
    random_rows = ceilings.pop("random rows")
    points = [*measure_ours(batch, timer), *measure_torch(batch, timer)]
    shared = {
        "threads": threads,
        "clock": options.clock,
        "dataset": graph.name,
        "ceilings": ceilings,
        "random_rows": random_rows,
    }
    print(json.dumps({"machine": describe_machine(), **shared}))
    table = Table(title=f"{graph.name}, {batch.adjacency.nnz:,} arcs, {threads} threads")
    for name in ("kernel", "ms", "Gop/s", "GB/s at least", "operations per byte", "GB/s of rows"):
        table.add_column(name, justify="right")
    for point in points:
        print(json.dumps({**asdict(point), "intensity": point.intensity, "speed": point.speed}))
        moving = point.bytes / point.seconds
        figures = (1000 * point.seconds, point.speed / 1e9, moving / 1e9, point.intensity)
        table.add_row(point.name, *(f"{value:.2f}" for value in figures), f"{point.gathered / point.seconds / 1e9:.1f}")
    table.add_row("a loop over random rows", "", "", "", "", f"{random_rows / 1e9:.1f}")
    Console(stderr=True, width=None if sys.stderr.isatty() else 140).print(table)
    if options.figure is not None:
        draw(ceilings, points, f"Roofline: {graph.name}, {threads} thread(s)", options.figure)


if __name__ == "__main__":
    main()
