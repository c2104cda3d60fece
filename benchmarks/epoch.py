"""An epoch of ours beside PyG's and beside the floor, on the same data in one run: `make bench`.

GAE and L2G2G (10 patches, fresh negatives) train the paper's model (F → 32 → 16, binary features, as many negatives as
arcs, Adam) and the default preset (masks, dropout; without its validations). Wall time: the difference of a long and
a short run. PyG trains its own GAE with GCNConv on the same training graph and features; on small graphs with one
thread and with all, and the faster counts. The floor is described in floor.py. All are measured in turn; medians.

Prints a JSON line for the machine and one for each graph; the table goes to stderr.

    python benchmarks/epoch.py                      # everything
    python benchmarks/epoch.py --check              # compare with benchmarks/baseline.json; exit 1 on a loss above 25 %
    python benchmarks/epoch.py --write-baseline
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from statistics import median
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from baseline import BASELINE, count_compared, find_losses, write_baseline
from floor import Floor, build_floor
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.splits import split_links
from l2g2g.models.encoding import prepare_input
from machine import CLOCKS, DATA, describe_machine, load_graph, progress
from ours import Ours
from pyg_peer import PyGPeer, PyGSkipped

DATASETS = ("sbm-small", "cora-ml", "amazon-photo", "sbm-large", "npm-codep")
SETTINGS = (("gae", "paper"), ("l2g2g", "paper"), ("gae", "default"), ("l2g2g", "default"))
Row = dict[str, Any]


def measure(graph: Graph, options: argparse.Namespace) -> Row:
    """All figures of one graph; the peers take turns, so that a change of load hits all."""
    split = split_links(graph, seed=0)
    clock = CLOCKS[options.clock]
    ours = Ours(split, options.threads, clock)
    spent: dict[str, list[float]] = {}
    skipped: dict[str, str] = {}
    peer = None if options.no_pyg else start_pyg(ours, skipped)
    floors: dict[str, Floor] = {}
    for turn in range(options.repeats):
        progress(f"{graph.name}: turn {turn + 1} of {options.repeats}")
        if peer is not None and "pyg" not in skipped and not (peer.is_large and turn):
            measure_pyg(peer, options, spent, skipped)
        for method, preset in SETTINGS:
            key = method if preset == "paper" else f"{method}_{preset}"
            spent.setdefault(key, []).append(ours.seconds_per_epoch(method, preset))
            if preset == "paper":
                if method not in floors:
                    floors[method] = floor_of(ours, method)
                torch.set_num_threads(ours.threads_used())
                spent.setdefault(f"{method}_floor", []).append(floors[method].measure(clock=clock)[0])
    row: Row = {
        "dataset": graph.name,
        "num_nodes": graph.num_nodes,
        "threads": ours.threads_used(),
        "clock": options.clock,
    }
    row |= {f"{key}_seconds": median(values) for key, values in spent.items()}
    row |= {f"{key}_range": [min(values), max(values)] for key, values in spent.items()}
    row |= {
        "arcs": floors["gae"].num_arcs,
        "l2g2g_arcs": floors["l2g2g"].num_arcs,
        "negatives": floors["gae"].num_negatives,
        "floor_calls": {name: floor.measure(clock=clock)[1] for name, floor in floors.items()},
        "repeats": options.repeats,
        "load_average": os.getloadavg()[0],
        "left_out": skipped,
    }
    return row | ratios(row)


def ratios(row: Row) -> Row:
    """What is compared with the limits and the baseline; null where a part is missing."""

    def over(first: str, second: str) -> float | None:
        return row[first] / row[second] if first in row else None

    return {
        "pyg_over_gae": over("pyg_seconds", "gae_seconds"),
        "gae_over_floor": over("gae_seconds", "gae_floor_seconds"),
        "l2g2g_over_floor": over("l2g2g_seconds", "l2g2g_floor_seconds"),
        "gae_default_over_paper": over("gae_default_seconds", "gae_seconds"),
        "l2g2g_default_over_paper": over("l2g2g_default_seconds", "l2g2g_seconds"),
    }


def floor_of(ours: Ours, method: str) -> Floor:
    """The floor of the paper preset, on the very matrices of the run."""
    config = ours.config(method, "paper")
    patch_set, adjacency = ours.patch_set(config), ours.split.train.adjacency
    rows = ours.features(config)
    if patch_set.num_patches > 1:
        adjacency, rows = patch_set.induce(adjacency), rows[patch_set.global_nodes]
    return build_floor(
        adjacency,
        patch_set.offsets,
        negatives_per_edge=config.negatives_per_edge,
        first_layer=not prepare_input(adjacency, rows).propagated,
        dim=config.dim,
        hidden=config.hidden,
    )


def start_pyg(ours: Ours, skipped: dict[str, str]) -> PyGPeer | None:
    """PyG with the same graph and features."""
    try:
        return PyGPeer(ours.split.train, ours.features(ours.config("gae", "paper")))
    except PyGSkipped as reason:
        skipped["pyg"] = str(reason)
        return None


def measure_pyg(
    peer: PyGPeer, options: argparse.Namespace, spent: dict[str, list[float]], skipped: dict[str, str]
) -> None:
    """One turn of PyG."""
    cores = options.threads or os.cpu_count() or 1
    choices = {1, cores} if peer.num_arcs < 500_000 else {cores}
    try:
        spent.setdefault("pyg", []).append(min(peer.measure(count, options.clock) for count in sorted(choices)))
    except PyGSkipped as reason:
        spent.pop("pyg", None)
        skipped["pyg"] = str(reason)
        progress(f"PyG skipped: {reason}")


def render(rows: list[Row]) -> Table:
    """One line per graph, times in milliseconds."""
    table = Table(title="One epoch: ours, PyG's GAE, and the floor (medians, ms)")
    names = ["graph", "arcs", "threads", "GAE", "floor", "L2G2G", "its floor", "GAE default", "L2G2G default", "PyG"]
    names += ["× PyG", "GAE / floor", "L2G2G / floor", "GAE default / paper", "L2G2G default / paper"]
    for name in names:
        table.add_column(name, justify="right")
    keys = ["gae", "gae_floor", "l2g2g", "l2g2g_floor", "gae_default", "l2g2g_default", "pyg"]
    for row in rows:
        if "skipped" in row:
            table.add_row(row["dataset"], "skipped")
            continue
        times = [f"{1000 * row[f'{key}_seconds']:.2f}" if f"{key}_seconds" in row else "–" for key in keys]
        compared = [f"{value:.2f}" if value is not None else "–" for value in ratios(row).values()]
        table.add_row(row["dataset"], f"{row['arcs']:,}", str(row["threads"]), *times, *compared)
    return table


def main(arguments: list[str] | None = None) -> None:
    """Parse, measure, print; compare with the baseline if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default=",".join(DATASETS))
    parser.add_argument("--data-dir", type=Path, default=DATA, help="folder of the .npz graphs")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0, help="of all; 0: what ours chooses, all cores for PyG")
    parser.add_argument(
        "--clock", choices=list(CLOCKS), default="wall", help="cpu: for --threads 1 on a machine that is not idle"
    )
    parser.add_argument("--no-pyg", action="store_true", help="leave the peer out")
    parser.add_argument("--baseline", type=Path, default=BASELINE)
    parser.add_argument("--write-baseline", action="store_true", help="make these ratios the baseline")
    parser.add_argument("--check", action="store_true", help="fail where a ratio is worse than the baseline's")
    options = parser.parse_args(arguments)
    if options.check and not options.baseline.exists():
        parser.error(f"no {options.baseline.name} to compare with; write one with --write-baseline")
    machine = describe_machine()
    print(json.dumps({"machine": machine}), flush=True)
    rows = []
    for name in options.datasets.split(","):
        graph = load_graph(name, options.data_dir)
        rows.append({"dataset": name, "skipped": graph} if isinstance(graph, str) else measure(graph, options))
        print(json.dumps(rows[-1]), flush=True)
        if "skipped" in rows[-1]:
            progress(f"{name} skipped: {graph}")
    screen = Console(stderr=True, width=None if sys.stderr.isatty() else 200)
    screen.print(render(rows))
    if options.write_baseline:
        write_baseline(rows, machine, options.baseline)
    if options.check:
        losses = find_losses(rows, options.baseline)
        for line in losses:
            progress(line)
        compared = count_compared(rows, options.baseline)
        progress(f"{compared} ratios compared with {options.baseline.name}, {len(losses)} worse by more than 25 %")
        sys.exit(1 if losses or not compared else 0)


if __name__ == "__main__":
    main()
