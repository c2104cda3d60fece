"""Spectral vectors: eigenvectors of the graph as the embedding, with scalings chosen on the validation pairs."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch

from l2g2g.config import Config
from l2g2g.evaluation.links import judge_scores
from l2g2g.graphs.graph_store import GraphStore
from l2g2g.graphs.splits import Pairs
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.decoders.factors import SignedDecoder
from l2g2g.models.inputs import InputMap, fit_source
from l2g2g.models.shared_rows import SharedRows
from l2g2g.models.structure import StructureMap, scale_rows
from l2g2g.parallel.communicator import LOCAL, Communicator
from l2g2g.runs.fitted import make_autoencoder
from l2g2g.runs.ranks import share_inputs
from l2g2g.training.rows import TrainingRows
from l2g2g.training.whole_pass import RowSource

LEAST_GAIN = 0.002  # AUC
# Rows are divided by a power of their length (inner product, between both, cosine), columns multiplied by a power of
# their eigenvalue (unchanged, or noisy columns damped).
_ROW_POWERS = (0.0, 0.5, 1.0)
_EIGENVALUE_POWERS = (0.0, 1.5)
_ROW_POWER, _EIGENVALUE_POWER = 0.5, 0.0  # without validation pairs
_USUAL_WIDTH = 16  # eigenvectors that are tried beside as many as the vectors have dimensions: the rest may be noise
_NARROW_WIDTHS = (4, 1)  # tried too: one alone scores a pair by the product of its degrees
_LEAST_SPREAD = 0.5  # standard deviation of the degrees over their mean; below, the split itself causes much of it
_log = logging.getLogger(__name__)


def needed_gain(auc: float, num_edges: int) -> float:
    """Return how much more than `auc` another candidate must score on the validation pairs to replace it.

    0.2 points, and half a standard error with few edges: candidates are scored on the same pairs, so their difference
    varies less than each AUC. The margin makes other seeds choose the same.
    """
    return max(LEAST_GAIN, 0.5 * math.sqrt(auc * (1 - auc) / max(1, num_edges)))


class StructuralColumns:
    """Structural columns of the training graph, computed once per width. Each rank has the rows of a node range.

    Args:
        graph: The training graph.
        config: Gives seed and widths, and tells whether negative eigenvalues are allowed.
        communicator: Connects the ranks that compute the columns together.
    """

    def __init__(self, graph: GraphStore, config: Config, communicator: Communicator) -> None:
        self._graph, self._config, self._communicator = graph, config, communicator
        self._found: dict[int, StructureMap] = {}

    @property
    def num_features(self) -> int:
        """Number of features of the graph."""
        return self._graph.num_features

    def for_spectral(self) -> StructureMap:
        """Return the columns that spectral vectors are chosen from, with negative eigenvalues if these are allowed."""
        width = self._config.spectral_width(self.num_features)
        if width not in self._found:
            found = self._found[width] = self._fit(width)
            if found.num_dropped:
                message = "%s: %d eigenvectors are left out: they had not converged after %d passes over the graph"
                _log.info(message, self._graph.name, found.num_dropped, found.num_passes)
        return self._found[width]

    def rough_spectral(self) -> StructureMap:
        """Return approximate columns from a few passes over the graph."""
        return self._fit(self._config.spectral_width(self.num_features), rough=True)

    def for_encoder(self, width: int) -> StructureMap | None:
        """Return the leading columns if at least `width` of them are known already."""
        return next((found.leading(width) for known, found in self._found.items() if known >= width), None)

    def _fit(self, width: int, *, rough: bool = False) -> StructureMap:
        num_negative = min(self._config.dim, width) if self._config.can_be_signed else 0
        return fit_columns(self._graph, width, self._config, self._communicator, num_negative, rough=rough)


def fit_columns(
    graph: GraphStore,
    width: int,
    config: Config,
    communicator: Communicator,
    num_negative: int = 0,
    *,
    rough: bool = False,
) -> StructureMap:
    """Compute structural columns of a graph; each rank returns those of its range of nodes. A collective call.

    num_negative, rough: see `fit_products`.
    """
    source = RowSource(TrainingRows(graph), communicator, 1 << 62 if config.memory is None else 0)
    found = fit_source(source, width, num_negative=num_negative, rough=rough, seed=config.seed)
    shared = share_inputs(communicator, InputMap(0, "raw", structure=found)).structure
    assert shared is not None
    return shared


@dataclass(frozen=True, eq=False)
class SpectralVectors:
    """A model whose vectors are the leading eigenvectors: only its skip connection has weights other than zero.

    Attributes:
        inputs: Selects and scales the structural columns.
        model: The model.
        auc: On the validation pairs; None without validation.
        row_power, eigenvalue_power: Exponents that scale rows and columns.
        width: Number of eigenvectors; the other coordinates are zero.
        slope: Factor that turns inner products of vectors with mean square length 1 into log-odds.
        num_edges: Number of validation edges.
        scores: (num_pairs,) scores of the validation pairs of all ranks, on the first one; None without validation.
        is_coded: True if small components have codes instead of zeros, see `StructureMap.coded`.
    """

    inputs: InputMap
    model: Autoencoder
    auc: float | None
    row_power: float
    eigenvalue_power: float
    width: int
    slope: float = 1.0
    num_edges: int = 0
    scores: np.ndarray | None = None
    is_coded: bool = False

    @property
    def is_signed(self) -> bool:
        """True if the decoder has signs: some eigenvalues were negative. After `refitted` none need be."""
        return isinstance(self.model.decoder, SignedDecoder)

    def settings(self, config: Config) -> Config:
        """Return the config of a run with these vectors, which are scored by inner product."""
        return _spectral_settings(config, is_signed=self.is_signed)

    def refitted(self, structure: StructureMap, config: Config, communicator: Communicator = LOCAL) -> SpectralVectors:
        """Return the same choice on the columns of a graph with more edges; the bias stays."""
        chosen = structure.leading(self.width, signed=self.is_signed)
        inputs = replace(self.inputs, structure=(chosen.coded() if self.is_coded else None) or chosen)
        model = make_autoencoder(config, inputs.num_columns, 1)
        model.decoder.load_state_dict(self.model.decoder.state_dict())
        _set_weights(model, inputs, self.eigenvalue_power, self.slope, SharedRows(communicator))
        return replace(self, inputs=inputs, model=model)


class _Scaling(NamedTuple):
    """A candidate for spectral vectors: AUC, number of eigenvectors, use of signs, and both powers."""

    auc: float
    width: int
    is_signed: bool
    row_power: float
    eigenvalue_power: float


@dataclass(frozen=True, eq=False)
class _PairEnds:
    """The validation pairs of this rank with the structural columns of their nodes.

    Attributes:
        structure: Columns of the nodes of the pairs, or of all nodes.
        sources, targets: (num_pairs,) rows of these columns.
        pairs: The pairs.
    """

    structure: StructureMap
    sources: np.ndarray
    targets: np.ndarray
    pairs: Pairs

    @classmethod
    def of(cls, structure: StructureMap, pairs: Pairs, shared: SharedRows) -> _PairEnds:
        """Fetch the columns of the nodes of the pairs. A collective call."""
        sources, targets, _ = pairs.endpoints()
        if structure.span is None:
            return cls(structure, sources, targets, pairs)
        found = structure.with_rows(np.unique(np.concatenate([sources, targets])).astype(np.int64), shared)
        assert found.nodes is not None
        return cls(found, np.searchsorted(found.nodes, sources), np.searchsorted(found.nodes, targets), pairs)


def find_spectral(
    structure: StructureMap,
    num_features: int,
    validation: Pairs | None,
    config: Config,
    communicator: Communicator = LOCAL,
) -> SpectralVectors:
    """Find the spectral vectors that separate the validation pairs best. A collective call.

    num_features: of the graph; the model skips them. The first rank decides, since sums may be rounded differently on
    another processor.
    """
    shared = SharedRows(communicator)
    most = min(config.dim, config.spectral_width(num_features))
    # Without validation: signs only if a finished run has chosen them.
    best = _Scaling(0.0, most, structure.is_signed and config.decoder == "signed", _ROW_POWER, _EIGENVALUE_POWER)
    ends, is_coded = None, False
    if validation is not None:
        ends = _PairEnds.of(structure, validation, shared)
        best = _find_best(ends, _widths(most, _degrees_differ(structure, shared)), config)
        usual = min(_USUAL_WIDTH, most)
        coded = structure.leading(usual).coded()
        if coded is not None:
            coded_ends = _PairEnds.of(coded, validation, shared)
            better = _find_best(coded_ends, [usual], config)
            is_coded = better.auc > best.auc + needed_gain(best.auc, validation.num_edges)
            if is_coded:
                structure, ends, best = coded, coded_ends, better
    chosen = structure.leading(best.width, signed=best.is_signed)
    inputs = InputMap(num_features, "raw", structure=chosen, structure_only=True, row_power=best.row_power)
    model = make_autoencoder(_spectral_settings(config, is_signed=chosen.is_signed), inputs.num_columns, 1)
    _set_weights(model, inputs, best.eigenvalue_power, 1.0, shared)
    found = SpectralVectors(inputs, model, None, best.row_power, best.eigenvalue_power, best.width)
    if ends is None:
        return found
    ends = replace(ends, structure=ends.structure.leading(best.width, signed=best.is_signed))
    slope, scores = _calibrate(model, ends, best.row_power)
    num_edges = ends.pairs.num_edges
    return replace(found, auc=best.auc, slope=slope, num_edges=num_edges, scores=scores, is_coded=is_coded)


def _widths(most: int, degrees_differ: bool) -> list[int]:
    """List the numbers of eigenvectors to try, the usual one first."""
    usual = min(_USUAL_WIDTH, most)
    narrow = [width for width in _NARROW_WIDTHS if width < usual and (width > 1 or degrees_differ)]
    return [usual, *narrow, *([most] if most > usual else [])]


def _degrees_differ(structure: StructureMap, shared: SharedRows) -> bool:
    """Return True if degrees vary so much that the first eigenvector alone tells nodes apart. A collective call."""
    degrees = structure.found_rows[:, 0].astype(np.float64) ** 2  # up to a factor
    count, total, squares = shared.sums(float(len(degrees)), float(degrees.sum()), float((degrees**2).sum()))
    return squares * count - total**2 > (_LEAST_SPREAD * total) ** 2


def _find_best(ends: _PairEnds, widths: list[int], config: Config) -> _Scaling:
    """Compare numbers of eigenvectors. widths: the usual one first. A collective call."""
    usual, *others = (_best_of_width(ends, width, config) for width in widths)
    best, num_edges = usual, ends.pairs.num_edges
    for found in others:
        # Fewer eigenvectors replace the usual ones only if those are noise. More of them fit the validation pairs a
        # little better even if they are noise.
        is_narrow = found.width < usual.width
        known = usual.auc if is_narrow else best.auc
        if found.auc > known + needed_gain(known, num_edges) and not (is_narrow and found.auc <= best.auc):
            best = found
    return best


def _best_of_width(ends: _PairEnds, width: int, config: Config) -> _Scaling:
    """Find the best signs and scalings for a number of eigenvectors. A collective call."""
    structure, pairs = ends.structure, ends.pairs
    tried: list[_Scaling] = []
    for is_signed in (False, True) if structure.is_signed and config.can_be_signed else (False,):
        columns = structure.leading(width, signed=is_signed)
        values = columns.eigenvalues.astype(np.float64)
        for row_power in _ROW_POWERS:
            rows = scale_rows(columns.columns, row_power)[:, :-1].astype(np.float64)
            products = rows[ends.sources] * rows[ends.targets]
            for power in _EIGENVALUE_POWERS:
                scores = products @ (np.sign(values) * np.abs(values) ** (2 * power))
                auc = judge_scores(pairs, pairs.gather(scores)).auc
                tried.append(_Scaling(auc, width, is_signed, row_power, power))
    return max(tried, key=lambda each: each.auc)


def _spectral_settings(config: Config, *, is_signed: bool) -> Config:
    return replace(config, structure="spectral", decoder="signed" if is_signed else "inner", direct_width=0)


def _set_weights(
    model: Autoencoder, inputs: InputMap, eigenvalue_power: float, slope: float, shared: SharedRows
) -> None:
    """Make column i coordinate i, times a power of its eigenvalue, with mean square length `slope` of a vector."""
    structure = inputs.structure
    assert structure is not None
    values = torch.from_numpy(structure.eigenvalues.astype(np.float32))
    weights = values.abs() ** eigenvalue_power
    rows = scale_rows(structure.found_rows, inputs.row_power)[:, :-1]
    squares, num_rows = float(np.square(rows).sum(dtype=np.float64)), float(len(rows))
    if structure.span is not None:
        squares, num_rows = shared.sums(squares, num_rows)
    mean_length = math.sqrt(squares / num_rows)
    encoder = model.encoder_of(0)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.zero_()
        assert encoder.skip is not None
        size = len(weights)
        encoder.skip[:size, :size] = torch.diag(weights * (math.sqrt(slope) / max(mean_length, 1e-30)))
        if isinstance(model.decoder, SignedDecoder):
            model.decoder.weights.fill_(1.0)[:size] = values.sign()


def _calibrate(model: Autoencoder, ends: _PairEnds, row_power: float) -> tuple[float, np.ndarray]:
    """Scale the vectors and set the bias so that scores are log-odds of the validation pairs. A collective call.

    Returns the slope and the scores before calibration, (num_pairs,) on the first rank.
    """
    encoder, bias = model.encoder_of(0), getattr(model.decoder, "bias", None)
    assert encoder.skip is not None
    vectors = torch.from_numpy(scale_rows(ends.structure.columns, row_power)) @ encoder.skip.detach()
    scores = ends.pairs.gather(model.decoder.score(vectors.numpy(), ends.sources, ends.targets))
    is_edge = np.arange(len(scores)) < ends.pairs.num_edges
    slope, intercept = ends.pairs.communicator.decide(lambda: fit_log_odds(scores, is_edge))
    with torch.no_grad():
        encoder.skip.mul_(math.sqrt(slope))
        if isinstance(bias, torch.Tensor):
            bias.fill_(intercept)
    return slope, scores


def fit_log_odds(scores: np.ndarray, is_edge: np.ndarray, *, num_steps: int = 25) -> tuple[float, float]:
    """Fit (slope, bias) of slightly regularised logistic regression on one score; (1, 0) if the slope is not positive.

    Example:
        >>> slope, bias = fit_log_odds(np.array([0.0, 1.0, 2.0, 3.0]), np.array([False, True, False, True]))
        >>> slope > 0
        True
    """
    spread = float(scores.std()) or 1.0
    design = np.stack([(scores - scores.mean()) / spread, np.ones(len(scores))], axis=1)
    found = np.zeros(2)
    for _ in range(num_steps):
        chance = 1 / (1 + np.exp(-np.clip(design @ found, -30, 30)))
        gradient = design.T @ (is_edge - chance) - found
        curvature = (design * (chance * (1 - chance))[:, None]).T @ design + np.eye(2)
        found = found + np.linalg.solve(curvature, gradient)
    slope = float(found[0] / spread)
    return (slope, float(found[1] - slope * scores.mean())) if slope > 0 else (1.0, 0.0)
