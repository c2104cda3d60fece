"""Run: a finished training, what is said about it, and what is looked at before it is saved."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from l2g2g.alignment.streaming import Residuals, SharedNodes, compare_copies
from l2g2g.alignment.synchronise import Frame
from l2g2g.config import Config
from l2g2g.evaluation.intervals import Interval
from l2g2g.evaluation.separation import ScoredPairs, Separation
from l2g2g.models.shared_rows import SharedRows
from l2g2g.parallel.communicator import Communicator
from l2g2g.patches.overlap import PatchSet
from l2g2g.patches.overlap_index import OverlapIndex
from l2g2g.runs.fitted import Fitted
from l2g2g.training.loop import Trained


@dataclass(frozen=True)
class Inspection:
    """scored: the validation pairs with their scores, by vectors that have not seen them; None where there are none.

    residuals: how far patches disagree about the nodes they share; None for one patch.
    link_model: how scores become probabilities, see `LinkModel.to_dict`; None where nothing was fitted.
    """

    scored: ScoredPairs | None = None
    residuals: Residuals | None = None
    link_model: dict[str, Any] | None = None


def patch_residuals(stacked: Tensor, patch_set: PatchSet, frame: Frame) -> Residuals:
    """Residuals of aligned patches as NumPy arrays. stacked: (num_rows, dim), patch after patch."""
    overlaps = patch_set.overlaps
    rows = torch.unique(torch.cat([overlaps.first_rows, overlaps.second_rows]))
    first, second = (torch.searchsorted(rows, part) for part in (overlaps.first_rows, overlaps.second_rows))
    shared = SharedNodes(
        stacked[rows],
        torch.searchsorted(rows, torch.from_numpy(patch_set.offsets)),
        torch.from_numpy(np.asarray(patch_set.global_nodes))[rows],
        OverlapIndex(overlaps.num_patches, overlaps.edges, overlaps.pointers, first, second),
    )
    found = compare_copies(shared, frame, patch_set.num_patches, patch_set.num_nodes)
    arrays = {name: getattr(found, name).numpy() for name in ("per_patch", "per_pair", "per_node", "pairs")}
    return replace(found, **arrays)


@dataclass(frozen=True)
class Run:
    """A finished training: the vectors, and all that later questions need.

    Attributes:
        embedding: (num_nodes, dim) float32, rows in input order; on several ranks those of a range of nodes until they
            are gathered, and then those of all nodes on the first rank and none on the others.
        trained: Model, alignment and history.
        patch_set: The patches that were used.
        kept_edge_fraction: Training edges that lie inside at least one patch.
        seconds: Time by stage.
        fitted: What new nodes need, where it was kept.
        inspection: Validation scores and residuals, where a run directory keeps a record of them.
        chosen: What validation pairs decided, see `Choice.describe`; empty where nothing was open.
        messages: What ranks sent each other, see `describe_messages`; empty for one process.
        spectral_auc: Of the validation pairs by the baseline `spectral`; None without validation or above 4 M edges.
        rank_memory: Peak memory of every rank in bytes; empty for one process.
    """

    embedding: np.ndarray
    trained: Trained
    patch_set: PatchSet
    config: Config
    kept_edge_fraction: float
    seconds: dict[str, float]
    fitted: Fitted | None = None
    inspection: Inspection = field(default_factory=Inspection)
    messages: dict[str, dict[str, Any]] = field(default_factory=dict)
    chosen: dict[str, Any] = field(default_factory=dict)
    spectral_auc: float | None = None
    rank_memory: list[int] = field(default_factory=list)

    def gathered(self, communicator: Communicator) -> Run:
        """The same with the vectors of all nodes on the first rank, and none on the others. A collective call."""
        vectors = SharedRows(communicator, "node vectors").on_first(torch.from_numpy(self.embedding))
        return replace(self, embedding=vectors.numpy())

    @property
    def validation(self) -> Separation | None:
        """How well vectors that have not seen the validation pairs tell them apart; None without validation."""
        scored = self.inspection.scored
        return None if scored is None or scored.separation.kind != "validation" else scored.separation

    def describe_validation(self) -> dict[str, Any]:
        """What the JSON line of `embed` says about what was learned; null without validation."""
        found = self.validation
        auc, ap = (None, None) if found is None else (found.auc, found.average_precision)
        return {
            "validation_auc": None if auc is None else auc.value,
            "validation_auc_interval": None if auc is None else [auc.low, auc.high],
            "validation_ap": None if ap is None else ap.value,
            "validation_ap_interval": None if ap is None else [ap.low, ap.high],
            "spectral_auc": self.spectral_auc,
        }

    def tell_validation(self) -> str:
        """The same in words."""
        found = self.validation
        if found is None:
            return "no validation edges: nothing says how good the vectors are; l2g2g evaluate does"

        def show(name: str, interval: Interval) -> str:
            return f"{name} {100 * interval.value:.1f} % ({100 * interval.low:.1f} to {100 * interval.high:.1f})"

        scores = f"{show('AUC', found.auc)}, {show('AP', found.average_precision)}"
        beside = "" if self.spectral_auc is None else f"; spectral baseline AUC {100 * self.spectral_auc:.1f} %"
        return f"validation: {scores} on {sum(found.edges):,} held-out edges{beside}"

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
            **({"messages": self.messages, "rank_memory_bytes": self.rank_memory} if self.messages else {}),
        }
