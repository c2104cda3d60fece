"""Spectral vectors: eigenvectors of the graph as the embedding, with scalings chosen on the validation pairs.

Two coordinates may carry a term of the degree in place of two eigenvectors, see `degree_term`.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

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
from l2g2g.models.structure import DegreeTerm, StructureMap, scale_rows
from l2g2g.parallel.communicator import LOCAL, Communicator
from l2g2g.runs.degree_term import (
    LEAST_TERM_EDGES,
    TERM_COORDINATES,
    TermWeights,
    crossed_auc,
    place_term,
    term_auc,
)
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
_MANY_EDGES = 100  # validation edges
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


def final_gain(auc: float, num_edges: int) -> float:
    """Return the same for candidates that are finished: 0.2 points suffice from a hundred validation edges on.

    With half a standard error GAE and L2G2G, whose trainings differ a little, more often choose differently.
    """
    return LEAST_GAIN if num_edges >= _MANY_EDGES else needed_gain(auc, num_edges)


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
        is_signed: True if eigenvectors with negative eigenvalues may be among them.
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
    is_signed: bool = False

    @property
    def has_degree_term(self) -> bool:
        """True if the last two coordinates carry a term of the degree."""
        return self.inputs.degree_term is not None

    def settings(self, config: Config) -> Config:
        """Return the config of a run with these vectors, which are scored by inner product."""
        return _spectral_settings(config, has_signs=self.is_signed or self.has_degree_term)

    def refitted(self, structure: StructureMap, config: Config, communicator: Communicator = LOCAL) -> SpectralVectors:
        """Return the same choice on the columns of a graph with more edges; the bias stays."""
        chosen = structure.leading(self.width, signed=self.is_signed)
        inputs = replace(self.inputs, structure=(chosen.coded() if self.is_coded else None) or chosen)
        model = make_autoencoder(config, inputs.num_columns, 1)
        model.decoder.load_state_dict(self.model.decoder.state_dict())
        _set_weights(model, inputs, self.eigenvalue_power, self.slope, SharedRows(communicator))
        return replace(self, inputs=inputs, model=model)


class _Scaling(NamedTuple):
    """A candidate for spectral vectors: AUC, number of eigenvectors, use of signs, both powers, use of degrees."""

    auc: float
    width: int
    is_signed: bool
    row_power: float
    eigenvalue_power: float
    has_degree_term: bool = False


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

    def degree_basis(self, term: DegreeTerm) -> np.ndarray:
        """Return (num_pairs, 4) columns that weights of a degree term multiply, of the pairs of all ranks.

        On the first rank; a collective call.
        """
        basis = term.basis(self.structure.degrees_of(self.structure.columns))
        return self.pairs.gather(basis[self.sources] + basis[self.targets])


def find_spectral(
    structure: StructureMap,
    num_features: int,
    validation: Pairs | None,
    config: Config,
    communicator: Communicator = LOCAL,
    *,
    tries_degrees: bool = True,
) -> SpectralVectors:
    """Find the spectral vectors that separate the validation pairs best. A collective call.

    num_features: of the graph; the model skips them. tries_degrees: also with a term of the degree. The first rank
    decides, since sums may be rounded differently on another processor.
    """
    shared = SharedRows(communicator)
    most = min(config.dim, config.spectral_width(num_features))
    # Without validation: signs only if a finished run has chosen them.
    best = _Scaling(0.0, most, structure.is_signed and config.decoder == "signed", _ROW_POWER, _EIGENVALUE_POWER)
    ends, is_coded, term = None, False, None
    if validation is not None:
        ends = _PairEnds.of(structure, validation, shared)
        widths = _widths(most, _degrees_differ(structure, shared))
        best = _find_best(ends, widths, config)
        usual = min(_USUAL_WIDTH, most)
        coded = structure.leading(usual).coded()
        if coded is not None:
            coded_ends = _PairEnds.of(coded, validation, shared)
            better = _find_best(coded_ends, [usual], config)
            is_coded = better.auc > best.auc + needed_gain(best.auc, validation.num_edges)
            if is_coded:
                structure, ends, best = coded, coded_ends, better
        if tries_degrees and config.may_weigh_degrees and validation.num_edges >= LEAST_TERM_EDGES:
            blank = _blank_term(structure, shared)
            better = _find_best_with_term(ends, widths, config, ends.degree_basis(blank))
            if better.auc > best.auc + final_gain(best.auc, validation.num_edges):
                best, term = better, blank
    chosen = structure.leading(best.width, signed=best.is_signed)
    how: dict[str, Any] = {"structure": chosen, "structure_only": True, "row_power": best.row_power}
    inputs = InputMap(num_features, "raw", **how, degree_term=term)
    has_signs = chosen.is_signed or term is not None
    model = make_autoencoder(_spectral_settings(config, has_signs=has_signs), inputs.num_columns, 1)
    _set_weights(model, inputs, best.eigenvalue_power, 1.0, shared)
    powers = best.row_power, best.eigenvalue_power
    found = SpectralVectors(inputs, model, None, *powers, best.width, is_signed=chosen.is_signed)
    if ends is None:
        return found
    ends = replace(ends, structure=ends.structure.leading(best.width, signed=best.is_signed))
    inputs, slope, scores = _calibrate(model, inputs, ends)
    values: dict[str, Any] = {"slope": slope, "num_edges": ends.pairs.num_edges, "scores": scores}
    return replace(found, inputs=inputs, auc=best.auc, is_coded=is_coded, **values)


def _blank_term(structure: StructureMap, shared: SharedRows) -> DegreeTerm:
    """Return a term of the degree without weights, for the degrees that structural columns tell. A collective call."""
    degrees = structure.degrees_of(structure.found_rows)
    most = -shared.lowest(-float(degrees.max(initial=0.0)))
    least = min(most, shared.lowest(float(degrees[degrees > 1].min(initial=np.inf))))
    scale = structure.degree_mean, structure.degree_spread
    return DegreeTerm(np.zeros(4), *scale, int(least), int(most), np.empty(0, np.int64))


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


def _find_best_with_term(ends: _PairEnds, widths: list[int], config: Config, degree_basis: np.ndarray) -> _Scaling:
    """Compare the same with a term of the degree; the AUC of the best is cross-fitted. A collective call."""
    fitting = [min(width, config.dim - TERM_COORDINATES) for width in widths]
    best = _find_best(ends, list(dict.fromkeys(fitting)), config, degree_basis)
    columns = ends.structure.leading(best.width, signed=best.is_signed)
    rows = scale_rows(columns.columns, best.row_power)[:, :-1].astype(np.float64)
    factors, pairs = _value_factors(columns.eigenvalues, best.eigenvalue_power), ends.pairs
    scores = pairs.gather((rows[ends.sources] * rows[ends.targets]) @ factors)
    auc = pairs.communicator.decide(partial(crossed_auc, scores, degree_basis, pairs.num_edges, config.seed))
    return best._replace(auc=auc)


def _value_factors(eigenvalues: np.ndarray, power: float) -> np.ndarray:
    """Return (width,) signed factors of the products of coordinates."""
    values = eigenvalues.astype(np.float64)
    return np.sign(values) * np.abs(values) ** (2 * power)


def _find_best(ends: _PairEnds, widths: list[int], config: Config, degree_basis: np.ndarray | None = None) -> _Scaling:
    """Compare numbers of eigenvectors. widths: the usual one first. A collective call.

    degree_basis: as `_PairEnds.degree_basis` gives it, for vectors with a term of the degree.
    """
    usual, *others = (_best_of_width(ends, width, config, degree_basis) for width in widths)
    best, num_edges = usual, ends.pairs.num_edges
    for found in others:
        # Fewer eigenvectors replace the usual ones only if those are noise. More of them fit the validation pairs a
        # little better even if they are noise.
        is_narrow = found.width < usual.width
        known = usual.auc if is_narrow else best.auc
        if found.auc > known + needed_gain(known, num_edges) and not (is_narrow and found.auc <= best.auc):
            best = found
    return best


def _best_of_width(ends: _PairEnds, width: int, config: Config, degree_basis: np.ndarray | None = None) -> _Scaling:
    """Find the best signs and scalings for a number of eigenvectors. A collective call."""
    structure, pairs, has_term = ends.structure, ends.pairs, degree_basis is not None
    tried: list[_Scaling] = []
    for is_signed in (False, True) if structure.is_signed and config.can_be_signed else (False,):
        columns = structure.leading(width, signed=is_signed)
        for row_power in _ROW_POWERS:
            rows = scale_rows(columns.columns, row_power)[:, :-1].astype(np.float64)
            products = rows[ends.sources] * rows[ends.targets]
            for power in _EIGENVALUE_POWERS:
                scores = products @ _value_factors(columns.eigenvalues, power)
                scores = pairs.gather(scores)
                if degree_basis is None:
                    auc = judge_scores(pairs, scores).auc
                else:
                    auc = pairs.communicator.decide(partial(term_auc, scores, degree_basis, pairs.num_edges))
                tried.append(_Scaling(auc, width, is_signed, row_power, power, has_term))
    return max(tried, key=lambda each: each.auc)


def _spectral_settings(config: Config, *, has_signs: bool) -> Config:
    return replace(config, structure="spectral", decoder="signed" if has_signs else "inner", direct_width=0)


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
            if inputs.degree_term is not None:
                place_term(model)


def _calibrate(model: Autoencoder, inputs: InputMap, ends: _PairEnds) -> tuple[InputMap, float, np.ndarray]:
    """Scale the vectors and set the bias so that scores are log-odds of the validation pairs. A collective call.

    Returns the inputs with the weights of the degree term, if there is one, the slope of the inner products of
    eigenvectors, and the scores of the pairs, (num_pairs,) on the first rank.
    """
    encoder, bias, term = model.encoder_of(0), getattr(model.decoder, "bias", None), inputs.degree_term
    assert encoder.skip is not None
    columns = scale_rows(ends.structure.columns, inputs.row_power)
    vectors = torch.from_numpy(columns) @ encoder.skip.detach()[: columns.shape[1]]
    scores = ends.pairs.gather(model.decoder.score(vectors.numpy(), ends.sources, ends.targets))
    is_edge = np.arange(len(scores)) < ends.pairs.num_edges
    basis = None if term is None else ends.degree_basis(term)

    def fit() -> list:
        if basis is None:
            return [*fit_log_odds(scores, is_edge), ()]
        return [*TermWeights.fit_sample(scores, basis, ends.pairs.num_edges)]

    slope, intercept, of_degrees = ends.pairs.communicator.decide(fit)
    with torch.no_grad():
        encoder.skip[: columns.shape[1]] *= math.sqrt(slope)
        if isinstance(bias, torch.Tensor):
            bias.fill_(intercept)
    if term is not None:
        inputs = replace(inputs, degree_term=replace(term, weights=np.array(of_degrees)))
        if basis is not None and len(scores):
            scores = slope * scores + basis @ np.array(of_degrees)
    return inputs, slope, scores


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
