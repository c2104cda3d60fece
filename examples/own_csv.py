"""A table of your own, from edges to answers: embed, report, neighbours, missing links, and nodes that come later.

Makes a small table of people who share a hobby, with names as ids, and does on the command line what
docs/tutorials/own_csv.md explains. Usage: python examples/own_csv.py [FOLDER]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from l2g2g.cli import main

HOBBIES = ("chess", "choir", "climbing", "cooking", "cycling")
PEOPLE = 40  # of each hobby


def write_tables(folder: Path) -> None:
    """edges.csv: who met whom, and how often; grown.csv: the same with two newcomers, one in two hobbies."""
    generator = np.random.default_rng(0)
    names = np.array([f"{hobby} {number:02d}" for hobby in HOBBIES for number in range(PEOPLE)])
    hobby_of = np.repeat(np.arange(len(HOBBIES)), PEOPLE)
    same = hobby_of[:, None] == hobby_of[None]
    met = np.triu(generator.random(same.shape) < np.where(same, 0.25, 0.01), k=1)
    lines = [f"{names[u]},{names[v]},{generator.integers(1, 9)}" for u, v in np.argwhere(met)]
    head = ["# who met whom in a year", "source,target,weight"]
    # What tables of one's own hold: a person with himself, an edge twice.
    lines += ["chess 00,chess 00,3", lines[0]]
    newcomers = [f"zoë,chess {number:02d},2" for number in range(6)]
    newcomers += [f"yan,{hobby} {number:02d},1" for hobby in ("choir", "cooking") for number in range(4)]
    (folder / "edges.csv").write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")
    (folder / "grown.csv").write_text("\n".join([*head, *lines, *newcomers]) + "\n", encoding="utf-8")


def command(*words: str | Path) -> None:
    """Run one command of l2g2g, as a shell would, and show it."""
    arguments = [str(word) for word in words]
    print(f"\n$ l2g2g {' '.join(arguments)}", flush=True)
    try:
        main(arguments)
    except SystemExit as end:
        if end.code:
            raise


def run(folder: Path = Path("runs/own_csv")) -> dict[str, Path]:
    """All steps, in order; returns what they left."""
    folder.mkdir(parents=True, exist_ok=True)
    write_tables(folder)
    left = {name: folder / name for name in ("vectors.parquet", "report.html", "neighbours.csv", "missing.csv")}
    left |= {name: folder / name for name in ("grown.parquet", "newcomers.csv")}
    runs = folder / "run"
    command("embed", folder / "edges.csv", "-o", left["vectors.parquet"], "--run-dir", runs)
    command("report", runs, "-o", left["report.html"])
    command("neighbours", runs, "chess 07", "-k", "5", "-o", left["neighbours.csv"])
    command("predict", runs, "--top", "10", "-o", left["missing.csv"])
    command("embed", folder / "grown.csv", "--model", runs, "-o", left["grown.parquet"])
    command("neighbours", left["grown.parquet"], "zoë", "yan", "-k", "8", "-o", left["newcomers.csv"])
    return left


if __name__ == "__main__":
    found = run(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("runs/own_csv"))
    print(json.dumps({name: str(path) for name, path in found.items()}, indent=2))
