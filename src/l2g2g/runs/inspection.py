"""Inspection: measurements of a trained model while its graph is in memory, for the record of the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from l2g2g.alignment.residuals import Residuals
from l2g2g.alignment.streaming import SharedNodes, compare_copies
from l2g2g.alignment.synchronise import Frame
from l2g2g.evaluation.links import PairScorer
from l2g2g.evaluation.separation import ScoredPairs
from l2g2g.graphs.splits import Pairs
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.neighbours.link_model import LinkModel
from l2g2g.patches.overlap import PatchSet
from l2g2g.patches.overlap_index import OverlapIndex
from l2g2g.training.batches import Batches
from l2g2g.training.loop import LoopSettings, WholePass, embed_nodes, encode_patches
from l2g2g.training.shard import Shard


@dataclass(frozen=True)
class Inspection:
    """scored: the validation pairs with their scores, by vectors that have not seen them; None where there are none.

    residuals: how far patches disagree about the nodes they share; None for one patch.
    link_model: how scores become probabilities, see `LinkModel.to_dict`; None where nothing was fitted.
    """

    scored: ScoredPairs | None = None
    residuals: Residuals | None = None
    link_model: dict[str, Any] | None = None


def inspect_training(
    model: Autoencoder,
    batches: Batches,
    patch_set: PatchSet,
    settings: LoopSettings,
    frame: Frame,
    whole: WholePass | None,
    *,
    validation: Pairs | None,
    scorer: PairScorer | None,
    fit_links: Callable[[np.ndarray], LinkModel | None] | None = None,
) -> Inspection:
    """One more pass over the training graph. whole: as in `embed_nodes`; validation: pairs to be scored, if any.

    fit_links: fits a link model to vectors that have not seen the validation pairs.
    """
    scored, residuals, links = None, None, None
    if validation is not None or whole is None:  # without a whole pass this is what aligns the patches
        embedding, frame = embed_nodes(model, batches, Shard(patch_set), settings, frame, whole)
    if validation is not None:
        vectors = embedding.cpu().numpy()
        scored = ScoredPairs.of("validation", vectors, validation, scorer, settings.seed)
        links = None if fit_links is None else fit_links(vectors)
    if patch_set.num_patches > 1:
        residuals = patch_residuals(encode_patches(model, batches).cpu(), patch_set, frame.to("cpu"))
    return Inspection(scored, residuals, None if links is None else links.to_dict())


def patch_residuals(stacked: Tensor, patch_set: PatchSet, frame: Frame) -> Residuals:
    """Residuals of aligned patches as NumPy arrays. stacked: (num_rows, dim), patch after patch."""
    overlaps = patch_set.overlaps
    rows = torch.unique(torch.cat([overlaps.first_rows, overlaps.second_rows]))
    first, second = (torch.searchsorted(rows, part) for part in (overlaps.first_rows, overlaps.second_rows))
    shared = SharedNodes(
        stacked[rows],
        torch.searchsorted(rows, torch.from_numpy(patch_set.offsets)),
        torch.from_numpy(patch_set.global_nodes)[rows],
        OverlapIndex(overlaps.num_patches, overlaps.edges, overlaps.pointers, first, second),
    )
    found = compare_copies(shared, frame, patch_set.num_patches, patch_set.num_nodes)
    arrays = {name: getattr(found, name).numpy() for name in ("per_patch", "per_pair", "per_node", "pairs")}
    return replace(found, **arrays)
