"""Print a Markdown table of JSON lines that `l2g2g evaluate --json` wrote.

Usage: python benchmarks/summarise.py docs/results/heldout-default.jsonl
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import mean, stdev


def percent(values: list[float]) -> str:
    """Mean ± deviation in percent."""
    scaled = [100 * value for value in values]
    return f"{mean(scaled):.2f}" + (f" ± {stdev(scaled):.2f}" if len(scaled) > 1 else "")


def summarise(lines: list[dict]) -> str:
    """One row per data set and method, in order of appearance."""
    groups: dict[tuple, list[dict]] = {}
    for row in lines:
        groups.setdefault((row["dataset"], row["method"], row["preset"]), []).append(row)
    table = [
        "| graph | method | preset | AUC % | AP % | best possible AUC % | patches | seeds | seconds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for (dataset, method, preset), rows in groups.items():
        best = [row["best_auc"] for row in rows if row["best_auc"] is not None]
        cells = [
            dataset,
            method,
            preset,
            percent([row["auc"] for row in rows]),
            percent([row["ap"] for row in rows]),
            percent(best) if best else "–",
            str(rows[0]["num_patches"]),
            str(len(rows)),
            f"{mean(row['seconds']['total'] for row in rows):.1f}",
        ]
        table.append("| " + " | ".join(cells) + " |")
    return "\n".join(table)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(summarise([json.loads(line) for line in Path(name).read_text().splitlines()]))
