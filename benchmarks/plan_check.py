"""What `l2g2g plan` says beside what a run takes: peak memory, seconds of an epoch, and all stages after reading.

Each plan and each run is a process of its own, through the command line, one after the other. Some epochs are enough,
for the plan is made for as many; the first few take longer than all others, because memory is new to the process.
Runs are plain ones, without the trials by which validation chooses among settings: plans do not count these.

    python benchmarks/plan_check.py                                        # six runs, three of them on ranks
    python benchmarks/plan_check.py npm-codep --epochs 3 --memory 1200MB   # one graph, within a limit
    python benchmarks/plan_check.py npm-deps@2 --threads 1                 # two ranks

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

MEDIUM = "sized-200000-2000000-32"
RUNS = ("sbm-large", "npm-deps", MEDIUM, f"{MEDIUM}@2", f"{MEDIUM}@4", "npm-deps@2")
MEMORY_TOLERANCE, TIME_FACTOR = 0.25, 1.5
Row = dict[str, Any]


def call(*arguments: str, ranks: int = 1) -> Row:
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else []
    line = [sys.executable, *launcher, "-m", "l2g2g", *arguments]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"l2g2g {' '.join(arguments)}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def check(run_name: str, options: argparse.Namespace) -> Row:
    """One row. run_name: a graph, with @ and a number of ranks where there are several."""
    graph, _, wanted = run_name.partition("@")
    ranks = int(wanted or 1)
    shared = [graph, "--data-dir", str(options.data_dir), "--epochs", str(options.epochs), "--json"]
    shared += [] if options.memory is None else ["--memory", options.memory]
    shared += ["--partition", options.partition, "--structure", "none"]
    shared += [] if options.threads is None else ["--threads", str(options.threads)]
    planned = call("plan", *shared, "--ranks", str(ranks))
    with tempfile.TemporaryDirectory() as folder:
        run = call("embed", *shared, "-o", str(Path(folder) / "vectors.npy"), ranks=ranks)
    peak = max(run["peak_memory_bytes"], *run.get("rank_memory_bytes", [0]))
    seconds = {stage: value for stage, value in run["seconds"].items() if stage not in ("read", "write")}
    total = sum(seconds.get(stage, 0.0) for stage in ("split", "partition", "prepare", "train", "assemble"))
    return {
        "dataset": graph,
        "ranks": ranks,
        "memory": options.memory,
        "epochs": options.epochs,
        "planned": planned,
        "seconds": run["seconds"],
        "peak_memory_bytes": peak,
        "num_patches": run["num_patches"],
        "memory_ratio": planned["memory_bytes"] / peak,
        "epoch_ratio": planned["seconds"]["epoch"] / run["seconds"]["epoch_median"],
        "total_ratio": planned["seconds"]["total"] / total,
        "bytes_ratio": planned["epoch_bytes"] / sent_bytes(run, ranks) if ranks > 1 else None,
        "load_average": os.getloadavg()[0],
    }


def sent_bytes(run: Row, ranks: int) -> float:
    """Bytes that an average rank sends to others in an epoch."""
    kinds = ("gradient", "overlap_sums", "overlap_gradients", "pair_requests", "pair_rows", "pair_gradients")
    kinds += ("far_ends", "far_ends_told")
    return sum(run["messages"].get(kind, {"bytes": 0})["bytes"] for kind in kinds) / ranks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graphs", nargs="*", default=RUNS)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--memory")
    parser.add_argument("--partition", default="fennel")
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
