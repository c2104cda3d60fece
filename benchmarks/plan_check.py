"""What `l2g2g plan` says beside what a run takes: peak memory, seconds of an epoch, and all stages after reading.

Each plan and each run is a process of its own, through the command line, one after the other. Some epochs are enough,
for the plan is made for as many; the first few take longer than all others, because memory is new to the process.

    python benchmarks/plan_check.py                                        # sbm-large, npm-deps, npm-codep, reddit-like
    python benchmarks/plan_check.py npm-codep --epochs 3 --memory 1200MB   # one graph, within a limit

Prints a JSON line for each graph; exit 1 where memory is off by more than 25 % or time by more than a factor of 1.5.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from machine import DATA, progress

DATASETS = ("sbm-large", "npm-deps", "npm-codep", "reddit-like")
MEMORY_TOLERANCE, TIME_FACTOR = 0.25, 1.5
Row = dict[str, Any]


def call(*arguments: str) -> Row:
    done = subprocess.run([sys.executable, "-m", "l2g2g", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"l2g2g {' '.join(arguments)}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def check(graph: str, options: argparse.Namespace) -> Row:
    shared = [graph, "--data-dir", str(options.data_dir), "--epochs", str(options.epochs), "--json"]
    shared += [] if options.memory is None else ["--memory", options.memory]
    shared += [] if options.threads is None else ["--threads", str(options.threads)]
    planned = call("plan", *shared)
    with tempfile.TemporaryDirectory() as folder:
        run = call("embed", *shared, "-o", str(Path(folder) / "vectors.npy"))
    seconds = {stage: value for stage, value in run["seconds"].items() if stage not in ("read", "write")}
    total = sum(seconds.get(stage, 0.0) for stage in ("split", "partition", "prepare", "train", "assemble"))
    return {
        "dataset": graph,
        "memory": options.memory,
        "epochs": options.epochs,
        "planned": planned,
        "seconds": run["seconds"],
        "peak_memory_bytes": run["peak_memory_bytes"],
        "num_patches": run["num_patches"],
        "memory_ratio": planned["memory_bytes"] / run["peak_memory_bytes"],
        "epoch_ratio": planned["seconds"]["epoch"] / run["seconds"]["epoch_median"],
        "total_ratio": planned["seconds"]["total"] / total,
        "load_average": os.getloadavg()[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", default=DATASETS)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--memory")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--data-dir", type=Path, default=DATA)
    options = parser.parse_args()
    failed = False
    for graph in options.graphs:
        progress(f"{graph}: plan and run")
        row = check(graph, options)
        print(json.dumps(row), flush=True)
        times = (row["epoch_ratio"], row["total_ratio"])
        failed |= abs(row["memory_ratio"] - 1) > MEMORY_TOLERANCE
        failed |= not all(1 / TIME_FACTOR <= ratio <= TIME_FACTOR for ratio in times)
    raise SystemExit(int(failed))


if __name__ == "__main__":
    main()
