"""Row batch: the whole graph as one patch, of which this rank has a range of rows, in memory or on disk."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.encoding import EncoderInput
from l2g2g.models.features import FeatureBlocks
from l2g2g.models.local_rows import LocalRows, RowPropagation, VisibleRows
from l2g2g.models.masking import EpochDraws, MaskDraw
from l2g2g.training.batches import Batch
from l2g2g.training.heap import return_freed_memory


class RowBatch:
    """The rows of this rank as a batch; the encoder fetches rows of other ranks layer by layer. See `PatchBatch`.

    Args:
        rows: The training edges of this rank's nodes.
        features: What the encoder reads of these nodes.
        keep_bytes: Visible edges of an epoch stay in memory between its passes if they take at most so many bytes.
        device: Where products are computed.
    """

    def __init__(
        self,
        rows: LocalRows,
        features: FeatureBlocks,
        *,
        keep_bytes: int = 0,
        device: torch.device | str = "cpu",
    ) -> None:
        self.rows, self.features, self.keep_bytes = rows, features, keep_bytes
        self.device = torch.device(device)
        self.patches, self.offsets = np.array([0]), torch.tensor([0, rows.num_owned], device=device)
        self.nodes = np.arange(rows.low, rows.high)
        self.row_share = 1.0 / rows.num_nodes

    @property
    def patch_sizes(self) -> list[int]:
        """Nodes of the one patch, those of other ranks included."""
        return [self.rows.num_nodes]

    @cached_property
    def inputs(self) -> EncoderInput:
        """What the encoder sees when nothing is hidden."""
        return self.training_inputs(EpochDraws(seed=0, epoch=0))

    @cached_property
    def _propagation(self) -> RowPropagation:
        return RowPropagation.symmetric(VisibleRows(self.rows, device=self.device))

    def training_inputs(self, draws: EpochDraws) -> EncoderInput:
        """What the encoder sees in an epoch."""
        propagation = self._mask_rows(draws) if draws.hidden > 0 else self._propagation
        features = self.features.dropped(draws.feature_dropout, seed=draws.seed, epoch=draws.epoch)
        return EncoderInput(propagation, features, propagated=False)

    def _mask_rows(self, draws: EpochDraws) -> RowPropagation:
        nodes, seed, epoch = self.rows.nodes, draws.seed, draws.epoch
        mask = MaskDraw.of_epoch(draws.hidden, draws.scored, nodes, draws.groups_of(nodes), seed=seed, epoch=epoch)
        visible = VisibleRows(self.rows, mask, keep_bytes=self.keep_bytes, device=self.device)
        return RowPropagation.symmetric(visible)


class RowBatches(list[RowBatch]):
    """The one batch of a graph in ranges of rows; the results of layers stay in memory for the gradient."""

    is_block = keeps_states = False

    @property
    def device(self) -> torch.device:
        """Where products are computed."""
        return self[0].device if self else torch.device("cpu")

    def holds(self, batch: Batch) -> bool:
        """Whether the batch stays in memory: always true."""
        return True


class RowPass:
    """Encodes the nodes of a graph, each rank its own.

    Args:
        batch: The rows of this rank.
    """

    def __init__(self, batch: RowBatch) -> None:
        self.batch = batch

    def __call__(self, model: Autoencoder) -> Tensor:
        """(num_owned, dim) mean vectors, computed layer by layer."""
        return_freed_memory()  # of the epochs; the tables of all nodes need it
        with torch.no_grad():
            return model.encode(self.batch.inputs)[0].contiguous()
