"""Run: a finished training, and what is said about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from l2g2g.config import Config
from l2g2g.patches.overlap import PatchSet
from l2g2g.runs.fitted import Fitted
from l2g2g.runs.inspection import Inspection
from l2g2g.training.loop import Trained


@dataclass(frozen=True)
class Run:
    """A finished training: the vectors, and all that later questions need.

    Attributes:
        embedding: (num_nodes, dim) float32, rows in input order.
        trained: Model, alignment and history.
        patch_set: The patches that were used.
        kept_edge_fraction: Training edges that lie inside at least one patch.
        seconds: Time by stage.
        fitted: What new nodes need, where it was asked for.
        inspection: Validation scores and residuals, where a run directory keeps a record of them.
        chosen: What validation pairs decided, see `Choice.describe`; empty where nothing was open.
        messages: What ranks sent each other, see `describe_messages`; empty for one process.
    """

    embedding: np.ndarray
    trained: Trained
    patch_set: PatchSet
    config: Config
    kept_edge_fraction: float
    seconds: dict[str, float]
    fitted: Fitted | None = None
    inspection: Inspection = field(default_factory=Inspection)
    messages: dict[str, dict[str, float]] = field(default_factory=dict)
    chosen: dict[str, Any] = field(default_factory=dict)

    def describe(self) -> dict[str, Any]:
        """What every JSON line says about a run."""
        return {
            "method": self.config.method,
            "preset": self.config.preset,
            "dim": self.config.dim,
            "epochs": self.trained.history.num_epochs,
            "best_epoch": self.trained.history.best_epoch,
            "recoveries": self.trained.history.recoveries,
            "resumed_from_epoch": self.trained.history.resumed_from_epoch,
            "num_patches": self.patch_set.num_patches,
            "kept_edge_fraction": self.kept_edge_fraction,
            "node_duplication": self.patch_set.node_duplication,
            "largest_patch_nodes": int(self.patch_set.sizes.max()),
            "num_joined_patches": self.patch_set.num_joined,
            "structure": self.config.structure,
            "chosen": self.chosen or None,
            **({"messages": self.messages} if self.messages else {}),
        }
