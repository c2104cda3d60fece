"""How long missing links and neighbours of a large graph take, and what the index finds: JSON lines.

    OMP_NUM_THREADS=2 python benchmarks/neighbours.py --data-dir DIR --work FOLDER

Trains a quick embedding of the graph in FOLDER (kept there for the next time), then runs `l2g2g predict --top 1000` as
a user would, and measures the recall@10 of the index against exact search on 2,000 nodes. Each line says the load of
the machine before it: seconds on a busy machine are an upper bound.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

TOP, K, SAMPLES = 1000, 10, 2000


def say(what: str, load: float, started: tuple[float, float], **more: object) -> None:
    wall, cpu = time.perf_counter() - started[0], cpu_seconds() - started[1]
    line = {"what": what, "seconds": round(wall, 2), "cpu_seconds": round(cpu, 2), "load": load, **more}
    print(json.dumps(line), flush=True)


def cpu_seconds() -> float:
    """Of this process and of those it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def start() -> tuple[float, tuple[float, float]]:
    return os.getloadavg()[0], (time.perf_counter(), cpu_seconds())


def call(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "l2g2g", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True)


def measure_top(out: Path, graph: str, data_dir: Path) -> None:
    load, started = start()
    done = call("predict", out, "--top", TOP, "--graph", graph, "--data-dir", data_dir, "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    scores = [row["score"] for row in rows]
    say(f"predict --top {TOP}", load, started, num_links=len(rows), recall=rows[0]["recall"], lowest=min(scores))


def measure_search(vectors: np.ndarray, metric: str, threads: int) -> None:
    from l2g2g.neighbours.factors import factors_by
    from l2g2g.neighbours.index import NeighbourIndex
    from l2g2g.neighbours.search import nearest

    factors = factors_by(vectors, metric)
    rows = np.random.default_rng(0).choice(len(vectors), SAMPLES, replace=False)
    nearest(factors, rows[:10], K, method="exact")  # compiled, or read from the cache
    load, started = start()
    nearest(factors, rows, K, method="exact")
    say("exact search", load, started, metric=metric, num_queries=SAMPLES)
    load, started = start()
    index = NeighbourIndex.build(factors, threads)
    say("index built", load, started, metric=metric, num_nodes=len(vectors))
    load, started = start()
    index.search(rows, K)
    say("index asked", load, started, metric=metric, num_queries=SAMPLES)
    load, started = start()
    recall = index.recall(K, num_samples=SAMPLES)
    say("recall", load, started, metric=metric, k=K, num_samples=SAMPLES, recall=recall)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graph", default="npm_deps")
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--metrics", nargs="*", default=["cosine", "inner"])
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    out = options.work / f"{options.graph}.parquet"
    if not out.exists():
        load, started = start()
        call("embed", options.graph, "--data-dir", options.data_dir, "--epochs", options.epochs, "-o", out, "--json")
        say("embed", load, started, epochs=options.epochs)
    measure_top(out, options.graph, options.data_dir)
    from l2g2g.graphs.node_columns import read_embedding

    vectors = read_embedding(out)[1]
    for metric in options.metrics:
        measure_search(vectors, metric, int(os.environ.get("OMP_NUM_THREADS", "0")))


if __name__ == "__main__":
    main()
