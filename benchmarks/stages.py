"""Shares of the stages in a run of 200 epochs, command by command: no stage but training should take more than 20 %.

Runs `l2g2g embed` (read, split, partition, train, assemble, write) and `l2g2g evaluate` (split … evaluate) as a user
does, in processes of their own, with the paper preset, and prints a JSON line each; the table goes to stderr. "start"
is what the process spends beside its stages: the interpreter, imports, compiled code from its cache, the end.

    python benchmarks/stages.py --datasets sbm-large,npm-deps
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from machine import DATA, describe_machine, load_graph, progress

LIMIT = 0.20
INSIDE_OTHERS = ("epoch_median", "synchronise", "total")
Row = dict[str, Any]


def run_command(command: str, dataset: str, method: str, options: argparse.Namespace) -> Row:
    """One command with its stages as shares of the whole process."""
    with tempfile.TemporaryDirectory(prefix="l2g2g-stages-") as folder:
        call = [sys.executable, "-m", "l2g2g", command, dataset, "--data-dir", str(options.data_dir), "--json"]
        call += ["--method", method, "--preset", options.preset, "--epochs", str(options.epochs), "--patience", "0"]
        call += ["--threads", str(options.threads)]
        if method == "l2g2g":
            call += ["--patches", "10"]
        if command == "embed":
            call += ["--output", str(Path(folder) / "vectors.parquet")]
        started = time.perf_counter()
        done = subprocess.run(call, stdout=subprocess.PIPE, text=True, check=False)
        wall = time.perf_counter() - started
    shared = {"command": command, "dataset": dataset, "method": method, "preset": options.preset}
    if done.returncode != 0:
        return {**shared, "skipped": f"exit code {done.returncode}"}
    found = json.loads(done.stdout.splitlines()[-1])
    return {**shared, **describe(found["seconds"], wall, command), "epochs": found["epochs"]}


def describe(seconds: dict[str, float], wall: float, command: str) -> Row:
    """Shares of the stages, and which are above the limit. `evaluate` does not count its reading: it is in start."""
    stages = {name: spent for name, spent in seconds.items() if name not in INSIDE_OTHERS}
    stages["start and read" if command == "evaluate" else "start"] = wall - sum(stages.values())
    shares = {name: spent / wall for name, spent in stages.items()}
    above = [name for name, share in shares.items() if share > LIMIT and name != "train"]
    return {
        "wall_seconds": wall,
        "epoch_median": seconds["epoch_median"],
        "stages": stages,
        "shares": shares,
        "above_limit": above,
        "load_average": os.getloadavg()[0],
    }


def render(rows: list[Row]) -> Table:
    """One line per command, shares in percent."""
    names = list(dict.fromkeys(name for row in rows for name in row.get("shares", {})))
    table = Table("command", "graph", "method", title=f"Stages of a run, % of its wall time (limit {100 * LIMIT:.0f})")
    for name in ["seconds", *names]:
        table.add_column(name, justify="right")
    for row in rows:
        if "skipped" in row:
            table.add_row(row["command"], row["dataset"], row["method"], row["skipped"])
            continue
        shares = [f"{100 * row['shares'][name]:.1f}" if name in row["shares"] else "–" for name in names]
        table.add_row(row["command"], row["dataset"], row["method"], f"{row['wall_seconds']:.1f}", *shares)
    return table


def main(arguments: list[str] | None = None) -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default="sbm-large,npm-deps")
    parser.add_argument("--data-dir", type=Path, default=DATA)
    parser.add_argument("--methods", default="gae,l2g2g")
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--threads", type=int, default=0)
    options = parser.parse_args(arguments)
    print(json.dumps({"machine": describe_machine()}), flush=True)
    rows: list[Row] = []
    for dataset in options.datasets.split(","):
        missing = load_graph(dataset, options.data_dir)
        if isinstance(missing, str):
            progress(f"{dataset} skipped: {missing}")
            continue
        for method in options.methods.split(","):
            for command in ("embed", "evaluate"):
                progress(f"{command} {dataset}, {method}")
                rows.append(run_command(command, dataset, method, options))
                print(json.dumps(rows[-1]), flush=True)
    Console(stderr=True, width=None if sys.stderr.isatty() else 160).print(render(rows))


if __name__ == "__main__":
    main()
