"""A graph larger than memory, from a folder of Parquet parts with text ids to vectors on disk, in one command.

    python benchmarks/large.py FOLDER                             # 10 M nodes, 100 M edges, 64 features: 12 GB of disk
    python benchmarks/large.py FOLDER --scale 0.1 --memory 1500MB
    python benchmarks/large.py FOLDER --keep                      # leave the input there for another run

Writes the input (`scale_input.py`, unless it is there), runs `l2g2g embed` in a process of its own, and prints one JSON
line: the seconds of each stage, beside those of the first version with integer ids, and the peak memory that the system
reports for the process. The run directory and the output lie in FOLDER too; all is deleted in the end without --keep.
Exit code 1 where the command fails or the peak is above the limit.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from l2g2g.config import parse_size
from machine import describe_machine, progress
from scale_input import write_input

NODES, EDGES, FEATURES, PARTS = 10_000_000, 100_000_000, 64, 16
# Of the first version on the full size, integer ids in one file and features by number (docs/scale.md).
FIRST_VERSION = {"read": 47, "partition": 92, "split": 4, "prepare": 10, "epoch": 38, "assemble": 28, "write": 4}


def embed(folder: Path, memory: str, epochs: int, more: list[str]) -> dict[str, Any]:
    """Run the command; returns its JSON line, with the peak memory that the system saw and the seconds of the clock."""
    places = [str(folder / "edges"), "--features", str(folder / "features"), "-o", str(folder / "vectors.npy")]
    limits = ["--memory", memory, "--epochs", str(epochs), "--run-dir", str(folder / "run"), "--json", *more]
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "l2g2g", "embed", *places, *limits], stdout=subprocess.PIPE)
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"l2g2g embed ended with exit code {process.returncode}")
    row = json.loads(output)
    return {**row, "peak_bytes": 1024 * usage.ru_maxrss, "clock_seconds": time.perf_counter() - started}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the nodes and edges")
    parser.add_argument("--memory", default="6GB")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--keep", action="store_true", help="leave the input, and use one that is there")
    options, more = parser.parse_known_args()
    folder = options.folder
    try:
        if not (folder / "features").is_dir():
            progress("input")
            sizes = {"num_nodes": int(options.scale * NODES), "num_edges": int(options.scale * EDGES)}
            progress(json.dumps(write_input(folder, **sizes, num_features=FEATURES, num_parts=PARTS)))
        progress("embed")
        row = embed(folder, options.memory, options.epochs, more)
    finally:
        for name in ("run", "vectors.npy", "vectors.npy.ids.txt", *([] if options.keep else ["edges", "features"])):
            place = folder / name
            shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
    limit = parse_size(options.memory)
    told = ("num_nodes", "num_edges", "num_patches", "epochs", "seconds", "clock_seconds", "peak_bytes")
    facts = {name: row[name] for name in told}
    first = {"first_version_seconds": FIRST_VERSION} if options.scale == 1 else {}
    print(json.dumps({**facts, "limit_bytes": limit, **first, "machine": describe_machine()}))
    raise SystemExit(row["peak_bytes"] > limit)


if __name__ == "__main__":
    main()
