"""Lines: what the line of a finished cell must hold, checked before tables and figures are made of it."""

from __future__ import annotations

import math
from typing import Any

_COUNTS = ("num_nodes", "num_edges", "num_features")
_RUN_COUNTS = (*_COUNTS, "epochs", "largest_patch_nodes", "peak_memory_bytes")
_SCORES = ("auc", "ap", "best_auc", "mrr", "hits@1", "hits@10", "hits@50", "probe_accuracy", "probe_macro_f1")
_SHARES = (*_SCORES, "kept_edge_fraction")
_SECONDS = ("epoch_median", "synchronise", "partition", "total")
_WORDS = ("dataset", "method", "preset", "protocol")
_LARGEST = 2**53


def line_trouble(row: dict[str, Any]) -> str | None:
    """What is wrong with a line; None if nothing is.

    Example:
        >>> line_trouble({"key": "1", "cell": {"dataset": "cora"}, "error": "it broke", "cell_seconds": 1.0})
        >>> line_trouble({"key": "1", "cell": {}})
        'cell has no dataset'
    """
    cell = row.get("cell")
    if not isinstance(row.get("key"), str) or not isinstance(cell, dict):
        return "it needs key and cell"
    if "dataset" not in cell:
        return "cell has no dataset"
    if not all(isinstance(cell.get(name, ""), str) for name in _WORDS) or not isinstance(cell.get("options", {}), dict):
        return "cell is not what a study writes"
    for name in ("settings", "environment"):
        if not isinstance(row.get(name, {}), dict):
            return f"{name} is no object"
    if not _is_number(row.get("cell_seconds")):
        return "cell_seconds is no number of seconds"
    if "error" in row:
        return None if isinstance(row["error"], str) else "error is no text"
    return _result_trouble(row, is_run="method" in cell)


def _result_trouble(row: dict[str, Any], is_run: bool) -> str | None:
    for name in _RUN_COUNTS if is_run else (*_COUNTS, "largest_degree", "num_isolated"):
        if not _is_number(row.get(name)) or not isinstance(row[name], int):
            return f"{name} is no count"
    if not is_run:
        return None
    for name in _SHARES:
        score = row.get(name, None if name not in ("auc", "ap") else "missing")
        if score is not None and not (_is_number(score) and score <= 1):
            return f"{name} is no score"
    if row["auc"] is None or row["ap"] is None:
        return "auc and ap are missing"
    seconds = row.get("seconds")
    if not isinstance(seconds, dict) or not all(_is_number(seconds.get(name)) for name in _SECONDS):
        return "seconds are not those of a run"
    if not isinstance(row.get("seed"), int) or not _is_number(row.get("node_duplication")):
        return "seed or node_duplication is missing"
    return None if _is_number(row.get("settings", {}).get("threads")) else "settings have no threads"


def _is_number(value: Any) -> bool:
    """Whether this is a number from 0 to what a float holds exactly."""
    return isinstance(value, (int, float)) and math.isfinite(value) and 0 <= value <= _LARGEST
