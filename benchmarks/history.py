"""What each optimisation bought: the epoch before and after it, commit by commit, in one run.

Every commit of STEPS is unpacked into a folder of its own and trained by its own command line, all of them in turn, so
that a change of load hits all; an epoch is what the run itself reports as its median. The first commit is the code
before the hot path was worked on.

    python benchmarks/history.py --repeats 5

Prints JSON lines, the table as Markdown at the end on stderr.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from machine import describe_machine, progress

HERE = Path(__file__).resolve().parent.parent
STEPS = {
    "24b1453": "before",
    "362087b": "pair loss and gradient in one compiled pass, each pair once",
    "521514e": "negatives by a filter, masks without branches",
    "72b623d": "sparse products compiled",
    "3f0a562": "dropped features left out inside the product, scored edges bounded",
    "299e4f1": "biases are what sums begin with",
    "4ecf326": "pairs as lists, first tries of negatives in vector code",
    "6cf6be3": "first layer, ReLU and next weights in one pass; sixteen scores at a time",
    "fc657f6": "filter words tested in vector code",
    "9561c9b": "rotations inside patches left out, masks by flat passes, patches moved in place",
    "a195dbf": "states kept by copying into memory that is there",
    "5280df5": "hash of negatives in vector code again, filters of sixteen draws at once",
    "0ce56df": "sums in two sections, as two ranks make them",
    "110b353": "pairs in the order of their columns, a stretch at a time (dropped again)",
    "HEAD": "now",
}
SETTINGS = (("gae", "paper"), ("l2g2g", "paper"), ("gae", "default"), ("l2g2g", "default"))


def unpack(commit: str, folder: Path) -> Path:
    """The source of a commit; its folder for PYTHONPATH."""
    target = folder / commit
    target.mkdir()
    packed = subprocess.run(["git", "archive", commit, "src"], cwd=HERE, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", str(target)], input=packed, check=True)
    return target / "src"


def epoch_seconds(source: Path, dataset: str, method: str, preset: str, options: argparse.Namespace) -> float:
    """The median epoch of one run."""
    call = [sys.executable, "-m", "l2g2g", "evaluate", dataset, "--method", method, "--preset", preset, "--json"]
    call += ["--negatives", "fresh", "--patience", "0", "--epochs", str(options.epochs)]
    call += ["--threads", str(options.threads)] + (["--patches", "10"] if method == "l2g2g" else [])
    environment = os.environ | {"PYTHONPATH": str(source)}
    done = subprocess.run(call, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{source.parent.name}: {done.stderr.strip().splitlines()[-1]}")
    return float(json.loads(done.stdout.splitlines()[0])["seconds"]["epoch_median"])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", default="sbm-large")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--commits", default=",".join(STEPS), help="of the steps; each one compiles its kernels first")
    options = parser.parse_args()
    steps = {commit: STEPS[commit] for commit in options.commits.split(",")}
    print(json.dumps({"machine": describe_machine()}), flush=True)
    spent: dict[tuple[str, str, str], list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="l2g2g-history-") as name:
        sources = {commit: unpack(commit, Path(name)) for commit in steps}
        for turn in range(options.repeats):
            for commit, source in sources.items():
                progress(f"turn {turn + 1} of {options.repeats}: {commit}")
                for setting in SETTINGS:
                    seconds = epoch_seconds(source, options.dataset, *setting, options)
                    spent.setdefault((commit, *setting), []).append(seconds)
    lines = ["| step | " + " | ".join(f"{method} {preset}" for method, preset in SETTINGS) + " |"]
    lines.append("|---|" + "---|" * len(SETTINGS))
    for commit, step in steps.items():
        cells = [median(spent[commit, *setting]) for setting in SETTINGS]
        row = {"commit": commit, "step": step, "dataset": options.dataset, "load_average": os.getloadavg()[0]}
        row |= {f"{method}_{preset}_seconds": cell for (method, preset), cell in zip(SETTINGS, cells, strict=True)}
        print(json.dumps(row | {"repeats": options.repeats, "threads": options.threads}), flush=True)
        lines.append(f"| {step} ({commit}) | " + " | ".join(f"{1000 * cell:.0f}" for cell in cells) + " |")
    progress("\n".join(lines))


if __name__ == "__main__":
    main()
