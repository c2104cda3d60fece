"""Columns: structural columns of the training graph; each of several ranks has the rows of a range of nodes."""

from __future__ import annotations

import logging

from l2g2g.config import Config
from l2g2g.graphs.graph_store import GraphStore
from l2g2g.models.inputs import InputMap, fit_source
from l2g2g.models.structure import StructureMap
from l2g2g.parallel.communicator import Communicator
from l2g2g.runs.ranks import share_inputs
from l2g2g.training.rows import TrainingRows
from l2g2g.training.whole_pass import RowSource

_log = logging.getLogger(__name__)


class Columns:
    """Structural columns of a graph, each width found once.

    Args:
        graph: What they are made of.
        config: Seed, widths, and whether eigenvalues may be negative.
        communicator: Of the ranks, which find them together.
    """

    def __init__(self, graph: GraphStore, config: Config, communicator: Communicator) -> None:
        self._graph, self._config, self._communicator = graph, config, communicator
        self._found: dict[int, StructureMap] = {}

    @property
    def num_features(self) -> int:
        """Features of the graph; 0 for none."""
        return self._graph.num_features

    def for_spectral(self) -> StructureMap:
        """Columns that spectral vectors are chosen from, with negative eigenvalues where these matter."""
        width = self._config.spectral_width(self.num_features)
        return self._find(width, num_negative=self._num_negative(width))

    def rough_spectral(self) -> StructureMap:
        """The same not yet converged, in a few passes over the graph."""
        width = self._config.spectral_width(self.num_features)
        return self._fit(width, num_negative=self._num_negative(width), rough=True)

    def for_encoder(self, width: int) -> StructureMap | None:
        """Columns of this width that an encoder reads, where as many are found already; None otherwise."""
        return next((found.leading(width) for known, found in self._found.items() if known >= width), None)

    def _num_negative(self, width: int) -> int:
        return min(self._config.dim, width) if self._config.can_be_signed else 0

    def _find(self, width: int, **how: int) -> StructureMap:
        if width not in self._found:
            found = self._found[width] = self._fit(width, **how)
            if found.num_dropped:
                said = "%s: %d wanted eigenvectors are left out: they had not converged after %d passes over the graph"
                _log.info(said, self._graph.name, found.num_dropped, found.num_passes)
        return self._found[width]

    def _fit(self, width: int, **how: int) -> StructureMap:
        limited = self._config.memory is not None
        return fit_columns(self._graph, width, self._communicator, limited=limited, seed=self._config.seed, **how)


def fit_columns(
    graph: GraphStore, width: int, communicator: Communicator, *, limited: bool, **how: int
) -> StructureMap:
    """Structural columns of a graph, on each rank those of a range of nodes.

    limited: whether memory is; otherwise the rows of a rank stay there. how: see `fit_products`.
    """
    found = fit_source(RowSource(TrainingRows(graph), communicator, 0 if limited else 1 << 62), width, **how)
    shared = share_inputs(communicator, InputMap(0, "raw", structure=found)).structure
    assert shared is not None
    return shared
