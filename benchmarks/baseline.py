"""The committed baseline: ratios that must not get worse by more than a quarter."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

BASELINE = Path(__file__).resolve().parent / "baseline.json"
ALLOWED_LOSS = 0.25
# Ratios of two times measured in turn, so that they hold on other machines too. True: higher is better.
RATIOS = {
    "pyg_over_gae": True,
    "gae_over_floor": False,
    "l2g2g_over_floor": False,
    "gae_default_over_paper": False,
    "l2g2g_default_over_paper": False,
}


def write_baseline(rows: list[dict[str, Any]], machine: dict[str, Any], path: Path = BASELINE) -> None:
    """Put the ratios of these rows into the file; other graphs in it stay."""
    kept = json.loads(path.read_text())["graphs"] if path.exists() else {}
    for row in rows:
        if "skipped" not in row:
            kept[row["dataset"]] = {name: round(row[name], 4) for name in RATIOS if row.get(name) is not None}
    path.write_text(json.dumps({"machine": machine, "graphs": kept}, indent=2) + "\n")


def find_losses(rows: list[dict[str, Any]], path: Path = BASELINE) -> list[str]:
    """One line for every ratio that is worse than the baseline by more than is allowed."""
    graphs = json.loads(path.read_text())["graphs"]
    found = []
    for row in rows:
        for name, before in graphs.get(row["dataset"], {}).items():
            now = row.get(name)
            if now is None:
                continue
            loss = before / now - 1 if RATIOS[name] else now / before - 1
            if loss > ALLOWED_LOSS:
                found.append(
                    f"{row['dataset']}: {name} was {before:.3g} and is {now:.3g}, a loss of {100 * loss:.0f} %"
                )
    return found


def count_compared(rows: list[dict[str, Any]], path: Path = BASELINE) -> int:
    """How many ratios of these rows the baseline knows."""
    graphs = json.loads(path.read_text())["graphs"]
    return sum(row.get(name) is not None for row in rows for name in graphs.get(row["dataset"], {}))
