"""CPU seconds until something happens: the first and the second `embed` of a small CSV, `--version`, the import.

Before every first run the compiled Python files of the package are deleted, as after an installation that made none.
The native core is compiled when the package is built, so that no run compiles anything. All take turns; medians.

    python benchmarks/start.py

Prints one JSON line.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

import l2g2g
from machine import describe_machine, progress

PACKAGE = Path(l2g2g.__file__).parent


def run(*arguments: str) -> tuple[float, float]:
    """(CPU, wall) seconds of a Python process."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True, env=kept)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - started
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def write_graph(path: Path, num_nodes: int = 5000, num_edges: int = 20000) -> None:
    """A random graph as an edge list with a header."""
    ends = np.random.default_rng(0).integers(0, num_nodes, (num_edges, 2))
    np.savetxt(path, ends, "%d", ",", header="source,target", comments="")


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    spent: dict[str, list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        edges, out = Path(folder) / "edges.csv", Path(folder) / "vectors.npy"
        write_graph(edges)
        embed = "-m", "l2g2g", "embed", str(edges), "-o", str(out), "--quiet"
        commands = {
            "first embed": embed,
            "second embed": embed,
            "version": ("-m", "l2g2g", "--version"),
            "import": ("-c", "from l2g2g import L2G2G"),
            "import torch": ("-c", "import torch"),
        }
        for turn in range(options.repeats):
            progress(f"turn {turn + 1} of {options.repeats}")
            for cache in PACKAGE.rglob("__pycache__"):
                shutil.rmtree(cache)
            for name, command in commands.items():
                spent.setdefault(name, []).append(run(*command))
    row: dict[str, object] = {"machine": describe_machine(), "repeats": options.repeats}
    for name, values in spent.items():
        cpu, wall = (median(side) for side in zip(*values, strict=True))
        row[name] = {"cpu": cpu, "wall": wall}
        progress(f"{name}: {cpu:.2f} s of CPU, {wall:.2f} s")
    first, second = (median(cpu for cpu, _ in spent[name]) for name in ("first embed", "second embed"))
    row |= {"first_over_second": first / second, "load_average": os.getloadavg()[0]}
    print(json.dumps(row))


if __name__ == "__main__":
    main()
