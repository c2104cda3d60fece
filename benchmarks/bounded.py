"""Training within a limit of memory beside training without one, on the same stored patches.

The graph is written to a store by a process of its own (a generated one takes more memory than the limit). Then a
process trains from it within the limit, cutting the patches, and another one without a limit on the same patches.
Compared: the losses of all epochs, the seconds of an epoch (of the clock, and of the processor: what the clock would
say on an idle machine, for one thread), and the peak resident memory that the system reports.

    python benchmarks/bounded.py reddit-like --memory 2GB --epochs 20
    python benchmarks/bounded.py npm-codep --memory 1200MB --epochs 10       # an epoch from disk beside one in memory
    python benchmarks/bounded.py yelp-like --memory 2GB --store runs/yelp    # keep the store, or use it again

Prints a JSON line for each training and one that compares them; exit 1 where a loss differs by more than 1e-5 or the
peak is above 1.15 times the limit.
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
from statistics import median
from typing import Any

from machine import DATA, progress

Row = dict[str, Any]
LOSS_TOLERANCE, PEAK_FACTOR = 1e-5, 1.15


def write_store(dataset: str, folder: str, data_dir: Path) -> Row:
    from l2g2g.graphs.read import read_graph
    from l2g2g.graphs.store import write_graph

    started = time.perf_counter()
    stored = write_graph(read_graph(dataset, data_dir=data_dir), folder)
    return {
        "stage": "store",
        "dataset": dataset,
        "num_nodes": stored.num_nodes,
        "num_edges": stored.num_edges,
        "bytes_on_disk": stored.num_bytes,
        "seconds": time.perf_counter() - started,
    }


def train(folder: str, options: argparse.Namespace, memory: str | None) -> Row:

    from l2g2g.config import make_config
    from l2g2g.graphs.store import open_graph
    from l2g2g.patches.store import open_patches
    from l2g2g.runs.budget import fits_memory
    from l2g2g.runs.embed import embed_graph
    from l2g2g.runs.environment import peak_memory
    from l2g2g.runs.patches import RunPatches
    from l2g2g.training.loop import EpochReport

    config = make_config(
        options.method,
        options.preset,
        epochs=options.epochs,
        threads=options.threads,
        memory=memory,
        patches=options.patches,
        structure="none",  # both train the same: what is tried depends on the memory
    )
    graph = open_graph(folder)
    in_memory = fits_memory(graph, config)
    worked: list[float] = []

    def note(report: EpochReport) -> None:
        now = time.process_time()
        if report.validation is None and note.before is not None:
            worked.append(now - note.before)
        note.before = now if report.validation is None else None

    note.before = None
    fraction = 0.0 if options.no_validation else 0.05
    # Those that the training within the limit has cut.
    same = None if memory else RunPatches(open_patches(folder, graph=graph).patch_set)
    run = embed_graph(graph, config, validation_fraction=fraction, on_epoch=note, patches=same)
    history = run.trained.history
    return {
        "stage": "train",
        "dataset": graph.name,
        "memory": memory,
        "in_memory": in_memory,
        "method": options.method,
        "preset": options.preset,
        "num_patches": run.patch_set.num_patches,
        "largest_patch_nodes": int(run.patch_set.sizes.max()),
        "epochs": history.num_epochs,
        "losses": history.losses,
        "validations": history.validations,
        "epoch_median": median(history.epoch_seconds),
        "epoch_cpu_median": median(worked) if worked else None,
        "seconds": run.seconds,
        "peak_memory_bytes": peak_memory(),
        "load_average": os.getloadavg()[0],
    }


def in_a_process(arguments: list[str]) -> Row:
    done = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(arguments)}: {done.stderr[-2000:]}")
    row = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps(row), flush=True)
    return row


def compare(limited: Row, free: Row, limit: int) -> Row:
    pairs = list(zip(limited["losses"], free["losses"], strict=True))
    return {
        "stage": "compare",
        "dataset": limited["dataset"],
        "largest_loss_difference": max(abs(one - other) / abs(other) for one, other in pairs),
        "epoch_ratio": limited["epoch_median"] / free["epoch_median"],
        "epoch_cpu_ratio": limited["epoch_cpu_median"] / free["epoch_cpu_median"],
        "peak_over_limit": limited["peak_memory_bytes"] / limit,
        "peak_without_limit": free["peak_memory_bytes"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--memory", default="2GB")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--method", default="l2g2g")
    parser.add_argument("--preset", default="default")
    parser.add_argument("--patches", type=int)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--no-validation", action="store_true")
    parser.add_argument("--store", type=Path)
    parser.add_argument("--data-dir", type=Path, default=DATA)
    parser.add_argument("--only-limited", action="store_true", help="do not train without a limit")
    parser.add_argument("--work", choices=["store", "limited", "free"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work is not None:
        if options.work == "store":
            row = write_store(options.dataset, str(options.store), options.data_dir)
        else:
            row = train(str(options.store), options, options.memory if options.work == "limited" else None)
        print(json.dumps(row))
        return
    from l2g2g.config import parse_size
    from l2g2g.graphs.store import is_store

    with tempfile.TemporaryDirectory(prefix="l2g2g-bench-") as scratch:
        store = options.store or Path(scratch)
        given = [*sys.argv[1:], "--store", str(store)]
        if not is_store(store):
            progress(f"{options.dataset}: writing the store")
            in_a_process([*given, "--work", "store"])
        progress(f"{options.dataset}: training within {options.memory}")
        limited = in_a_process([*given, "--work", "limited"])
        if options.only_limited:
            return
        progress(f"{options.dataset}: training without a limit")
        free = in_a_process([*given, "--work", "free"])
    row = compare(limited, free, parse_size(options.memory))
    print(json.dumps(row))
    if row["largest_loss_difference"] > LOSS_TOLERANCE or row["peak_over_limit"] > PEAK_FACTOR:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
