"""An epoch alone, and beside two processes that do nothing but compute: how gently training degrades on a busy machine.

GAE and L2G2G on SBM-Large, paper and default preset, all cores; the two conditions take turns. Prints a JSON line for
each setting with the medians of all epochs and their ratio.

    python benchmarks/busy.py
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import warnings
from statistics import median

from l2g2g.graphs.splits import split_links
from l2g2g.runs.training import run_split
from machine import describe_machine, load_graph, progress
from ours import Ours

SPIN = "import time\nend = time.time() + 120\nwhile time.time() < end: sum(range(10000))"  # ends by itself


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="sbm-large")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--processes", type=int, default=2, help="busy processes beside the training")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    graph = load_graph(options.dataset)
    if isinstance(graph, str):
        parser.error(graph)
    split = split_links(graph, seed=0)
    ours = Ours(split)
    print(json.dumps({"machine": describe_machine()}), flush=True)
    for method in ("gae", "l2g2g"):
        for preset in ("paper", "default"):
            config = ours.config(method, preset, epochs=options.epochs)
            run_split(split, config)
            epochs: dict[str, list[float]] = {"alone": [], "busy": []}
            for turn in range(options.repeats):
                progress(f"{method} {preset}: turn {turn + 1} of {options.repeats}")
                epochs["alone"].append(median(run_split(split, config).trained.history.epoch_seconds))
                busy = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(options.processes)]
                try:
                    epochs["busy"].append(median(run_split(split, config).trained.history.epoch_seconds))
                finally:
                    for process in busy:
                        process.kill()
                        process.wait()
            alone, busy_median = median(epochs["alone"]), median(epochs["busy"])
            row = {"dataset": graph.name, "method": method, "preset": preset, "cores": os.cpu_count()}
            row |= {"alone_seconds": alone, "busy_seconds": busy_median, "ratio": busy_median / alone}
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
