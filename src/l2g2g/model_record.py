"""Model record: what a saved model can say about its training, as the record that reports are made from."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from l2g2g.reports.record import GraphFacts, PatchFacts, RunRecord
from l2g2g.saved_model import SavedModel, read_model

_WHOLE_NUMBER = 1e-3


def read_model_record(folder: Path) -> RunRecord:
    """The record of a folder of `model.save`. It knows no labels, edges, scores or residuals."""
    saved = read_model(folder)
    parameters: dict[str, np.ndarray] = {}
    if saved.fitted is not None:
        parameters = saved.fitted.model.decoder.saved_parameters()
    degrees = _degrees(saved)
    return RunRecord(
        name="model",
        row={},
        settings=saved.config.to_dict(),
        graph=GraphFacts(
            folder.resolve().name,
            len(saved.embedding),
            num_edges=None if degrees is None else int(degrees.sum(dtype=np.int64)) // 2,
            directed=saved.config.directed,
        ),
        history=saved.history,
        patches=PatchFacts([len(saved.embedding)]),
        separation=None,
        vectors=np.ascontiguousarray(saved.embedding, dtype=np.float32),
        degrees=degrees,
        node_ids=saved.node_ids,
        decoder=parameters,
    )


def _degrees(saved: SavedModel) -> np.ndarray | None:
    """(num_nodes,) neighbours of each node; None where edges had weights, of which only the sums are kept."""
    if saved.fitted is None:
        return None
    sums = np.asarray(saved.fitted.known.node_degrees, dtype=np.float64) - 1  # a node counts itself
    degrees = np.rint(sums)
    return degrees.astype(np.int32) if np.abs(sums - degrees).max() < _WHOLE_NUMBER else None
