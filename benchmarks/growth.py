"""Epoch time and peak memory against the number of arcs: block models of fixed mean degree, each size a process.

The graph is drawn in one process and saved; another one per method loads it, trains and reports, so that its peak
memory is that of training alone (above an interpreter that has loaded everything, but no graph). Blocks of 1,000
nodes; of 30 neighbours 24 are in the block; nodes in random order. Features: 16 dense columns. Paper preset, fresh
negatives; L2G2G with patches whose embedding fills a quarter of the second-level cache, cut by FENNEL in three passes
(or `--partition metis`, which needs about 100 bytes per arc for itself). An epoch: the clock between the ends of two
epochs that lie ten or more apart, divided by their distance; the repeats are such stretches of one training. Memory
is held against 40 bytes per arc, 3 copies of the features and 12 of the embedding.

    python benchmarks/growth.py                          # 1e6 and 1e7 arcs
    python benchmarks/growth.py --largest                # 1e8 too: minutes per method
    python benchmarks/growth.py --arcs 200000,1000000    # other sizes

Prints JSON lines with the fitted exponents last; the table goes to stderr.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import scipy.sparse as sp
from rich.console import Console
from rich.table import Table

from machine import CLOCKS, cache_sizes, describe_machine, peak_bytes, progress, resident_bytes

MEAN_DEGREE, INSIDE, BLOCK, NUM_FEATURES, DIM = 30, 24, 1000, 16, 16
FENNEL_PASSES = 3
METHODS = ("gae", "l2g2g")
LIMITS = {"gae": 1.3, "l2g2g": 1.15}  # of the exponents
Row = dict[str, Any]


def draw_graph(num_arcs: int, folder: Path, seed: int = 0) -> None:
    """Save CSR and features of a block model with about this many arcs.

    Drawn edge by edge with both ends in the same block or in any: a Poisson block model, repeats removed. Its parts
    are made one after the other in int32, so that 1e8 arcs fit.
    """
    generator = np.random.default_rng(seed)
    num_nodes = max(2, round(num_arcs / MEAN_DEGREE / BLOCK)) * BLOCK
    num_edges = num_arcs // 2
    sources = generator.integers(0, num_nodes, num_edges, dtype=np.int32)
    targets = generator.integers(0, num_nodes, num_edges, dtype=np.int32)
    inside = generator.random(num_edges, dtype=np.float32) < INSIDE / MEAN_DEGREE
    targets[inside] = sources[inside] // BLOCK * BLOCK + targets[inside] % BLOCK
    numbers = generator.permutation(num_nodes).astype(np.int32)  # no help from an order that follows the blocks
    keep = sources != targets
    sources, targets = numbers[sources], numbers[targets]
    rows = np.concatenate([sources[keep], targets[keep]])
    columns = np.concatenate([targets[keep], sources[keep]])
    del sources, targets, inside, keep
    adjacency = sp.coo_array((np.ones(len(rows), np.float32), (rows, columns)), shape=(num_nodes, num_nodes)).tocsr()
    del rows, columns
    adjacency.sum_duplicates()
    np.save(folder / "indptr.npy", adjacency.indptr.astype(np.int32))
    np.save(folder / "indices.npy", adjacency.indices.astype(np.int32))
    centres = generator.standard_normal((num_nodes // BLOCK, NUM_FEATURES), dtype=np.float32)
    noise = generator.standard_normal((num_nodes, NUM_FEATURES), dtype=np.float32)
    noise[numbers] += np.repeat(centres, BLOCK, axis=0)
    np.save(folder / "features.npy", noise)


def patches_for_cache(num_nodes: int) -> int:
    """As many patches as make the embedding of one a quarter of the second-level cache: it is read and summed into."""
    second = (cache_sizes() or {}).get("L2", 1 << 20)
    return max(2, math.ceil(num_nodes * DIM * 4 / (second / 4)))


def measure(folder: Path, method: str, partition: str, threads: int, repeats: int, clock: str) -> Row:
    """One size, in this process."""
    from l2g2g.config import make_config
    from l2g2g.graphs.graph import Graph
    from l2g2g.graphs.splits import keep_all
    from l2g2g.runs.training import run_split

    tiny = Graph.from_arcs(list(range(400)), [(node + 1) % 400 for node in range(400)])
    options: Row = {"negatives": "fresh", "partition": partition, "threads": threads}
    if partition == "fennel":
        options["fennel_passes"] = FENNEL_PASSES
    run_split(keep_all(tiny), make_config(method, "paper", patches=2, epochs=2, **options))  # compiles, loads
    before = resident_bytes()
    indptr, indices, features = (np.load(folder / f"{name}.npy") for name in ("indptr", "indices", "features"))
    shape = (len(indptr) - 1, len(indptr) - 1)
    graph = Graph(sp.csr_array((np.ones(len(indices), np.float32), indices, indptr), shape=shape), features)
    del indptr, indices, features
    num_patches = patches_for_cache(graph.num_nodes) if method == "l2g2g" else None
    split = keep_all(graph)

    def run(epochs: int) -> tuple[list[float], Row]:
        """Stamps of the clock after every epoch, and what the run says of itself."""
        stamps: list[float] = []
        config = make_config(method, "paper", patches=num_patches, epochs=epochs, **options)
        done = run_split(split, config, on_epoch=lambda _: stamps.append(CLOCKS[clock]()))
        said = {"kept_edge_fraction": done.kept_edge_fraction, "node_duplication": done.patch_set.node_duplication}
        return stamps, {**done.seconds, **said}

    first, _ = run(3)
    guess = max(first[2] - first[1], 1e-4)
    more = 10 * max(1, math.ceil(1.0 / (10 * guess)))  # whole rounds of the alignment, which comes every ten epochs
    stamps, said = run(2 + more * repeats)
    spent = [(stamps[1 + more * (turn + 1)] - stamps[1 + more * turn]) / more for turn in range(repeats)]
    arcs, nodes = graph.adjacency.nnz, graph.num_nodes
    bound = 40 * arcs + 3 * 4 * nodes * NUM_FEATURES + 12 * 4 * nodes * DIM
    peak = peak_bytes()
    return {
        "method": method,
        "arcs": arcs,
        "num_nodes": nodes,
        "num_patches": num_patches or 1,
        "node_duplication": said["node_duplication"],
        "kept_edge_fraction": said["kept_edge_fraction"],
        "epoch_seconds": median(spent),
        "epoch_range": [min(spent), max(spent)],
        "nanoseconds_per_arc": 1e9 * median(spent) / arcs,
        "partition_seconds": said["partition"],
        "peak_bytes": peak,
        "peak_bytes_above_start": peak - before,
        "memory_bound": bound,
        "peak_over_bound": (peak - before) / bound,
        "bytes_per_arc": (peak - before) / arcs,
        "threads": threads,
        "clock": clock,
        "load_average": os.getloadavg()[0],
    }


def fit_exponent(arcs: list[int], seconds: list[float]) -> float | None:
    """Slope of log seconds over log arcs by least squares; None for a single size."""
    if len(arcs) < 2:
        return None
    return float(np.polyfit(np.log(arcs), np.log(seconds), 1)[0])


def run_process(*arguments: str) -> Row | None:
    """This script in a process of its own; its last line as JSON, if it has one."""
    done = subprocess.run(
        [sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True, check=False, env=os.environ
    )
    if done.returncode != 0:
        return {"skipped": f"the process ended with {done.returncode}"}
    lines = done.stdout.strip().splitlines()
    return json.loads(lines[-1]) if lines else None


def render(rows: list[Row]) -> Table:
    """One line per size and method."""
    table = Table(title="Growth: epoch time and peak memory against arcs")
    for name in (
        "method",
        "arcs",
        "patches",
        "kept",
        "epoch s",
        "ns per arc",
        "peak GB",
        "bytes per arc",
        "of the bound",
    ):
        table.add_column(name, justify="right")
    for row in rows:
        if "skipped" in row:
            table.add_row(row["method"], f"{row['wanted']:,}", "skipped")
            continue
        kept = f"{row['kept_edge_fraction']:.2f}"
        times = f"{row['epoch_seconds']:.4f}", f"{row['nanoseconds_per_arc']:.1f}"
        memory = f"{row['peak_bytes'] / 1e9:.2f}", f"{row['bytes_per_arc']:.1f}", f"{row['peak_over_bound']:.2f}"
        table.add_row(row["method"], f"{row['arcs']:,}", f"{row['num_patches']:,}", kept, *times, *memory)
    return table


def main(arguments: list[str] | None = None) -> None:
    """Parse, measure each size in its own processes, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arcs", default="1000000,10000000", help="sizes, with commas")
    parser.add_argument("--largest", action="store_true", help="1e8 arcs too")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0, help="0: what ours chooses")
    parser.add_argument(
        "--clock", choices=list(CLOCKS), default="wall", help="cpu: for --threads 1 on a machine that is not idle"
    )
    parser.add_argument("--partition", choices=("fennel", "metis"), default="fennel")
    parser.add_argument("--draw", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--measure", choices=METHODS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.draw:
        draw_graph(options.draw, options.folder)
        return
    if options.measure:
        print(
            json.dumps(
                measure(
                    options.folder, options.measure, options.partition, options.threads, options.repeats, options.clock
                )
            )
        )
        return
    print(json.dumps({"machine": describe_machine()}), flush=True)
    sizes = [int(float(text)) for text in options.arcs.split(",")] + ([100_000_000] if options.largest else [])
    rows: list[Row] = []
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="l2g2g-growth-") as folder:
            progress(f"{size:,} arcs: drawing")
            failed = run_process("--draw", str(size), "--folder", folder)
            for method in METHODS:
                progress(f"{size:,} arcs: {method}")
                chosen = ["--threads", str(options.threads), "--repeats", str(options.repeats)]
                chosen += ["--partition", options.partition, "--clock", options.clock]
                row = failed or run_process("--measure", method, "--folder", folder, *chosen)
                assert row is not None
                rows.append({"method": method, "wanted": size, **row})
                print(json.dumps(rows[-1]), flush=True)
    for method in METHODS:
        own = [row for row in rows if row["method"] == method and "skipped" not in row]
        found = fit_exponent([row["arcs"] for row in own], [row["epoch_seconds"] for row in own])
        print(json.dumps({"method": method, "exponent": found, "limit": LIMITS[method]}), flush=True)
        progress(f"{method}: exponent {'–' if found is None else f'{found:.3f}'}, at most {LIMITS[method]}")
    Console(stderr=True, width=None if sys.stderr.isatty() else 140).print(render(rows))


if __name__ == "__main__":
    main()
