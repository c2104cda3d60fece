"""Degree term: f(degree of u) + f(degree of v) in the score of a pair, weighted on the validation pairs.

Two coordinates carry it, f(u) + f(v) = ((1 + f(u))(1 + f(v)) − (1 − f(u))(1 − f(v))) / 2: an inner product of other
coordinates knows degrees only as products, and training, which hides most edges, says little about nodes of few.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from l2g2g.config import Config
from l2g2g.core import score_inner_products
from l2g2g.evaluation.link_scorer import deal_folds, fit_logistic
from l2g2g.evaluation.links import fetch_ends, link_scores
from l2g2g.graphs.splits import Pairs
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.decoders.factors import SignedDecoder
from l2g2g.models.inputs import InputMap
from l2g2g.models.shared_rows import SharedRows
from l2g2g.models.structure import DegreeTerm
from l2g2g.runs.fitted import make_autoencoder

TERM_COORDINATES = 2
LEAST_TERM_EDGES = 10  # validation edges below which no term is fitted
# Of each coordinate where the term is 0: so little that angles between vectors are those of the other coordinates.
_HEIGHT = 0.2
_MOST_EDGES = 20_000  # that weights are fitted to, and as many non-edges


class TermWeights(NamedTuple):
    """What logistic regression finds for a score and the columns of `DegreeTerm.basis`.

    Attributes:
        slope: Factor of the score; a term is of use only if it is positive.
        intercept: Added to all pairs.
        degrees: (4,) weights of the columns of the degree.
    """

    slope: float
    intercept: float
    degrees: tuple[float, ...]

    @classmethod
    def fit(cls, scores: np.ndarray, basis: np.ndarray, is_edge: np.ndarray) -> TermWeights:
        """Fit to some pairs. scores, basis, is_edge: (num_pairs,), (num_pairs, 4), (num_pairs,)."""
        spread = float(scores.std()) or 1.0
        weights, intercept = fit_logistic(np.concatenate([scores[:, None] / spread, basis], axis=1), is_edge)
        return cls(float(weights[0]) / spread, intercept, tuple(float(each) for each in weights[1:]))

    @classmethod
    def fit_sample(cls, scores: np.ndarray, basis: np.ndarray, num_edges: int) -> TermWeights:
        """Fit to all pairs, or to some of very many. The edges come first."""
        chosen = _sample(len(scores), num_edges)
        return cls.fit(scores[chosen], basis[chosen], chosen < num_edges)

    def apply(self, scores: np.ndarray, basis: np.ndarray) -> np.ndarray:
        """Return (num_pairs,) the log-odds of pairs."""
        return self.slope * scores + basis @ np.array(self.degrees) + self.intercept


def term_auc(scores: np.ndarray, basis: np.ndarray, num_edges: int) -> float:
    """Return the AUC of scores with a term that is fitted to the same pairs; 0 if the scores count for nothing."""
    found = TermWeights.fit_sample(scores, basis, num_edges)
    return link_scores(np.arange(len(scores)) < num_edges, found.apply(scores, basis)).auc if found.slope > 0 else 0.0


def crossed_auc(scores: np.ndarray, basis: np.ndarray, num_edges: int, seed: int) -> float:
    """Return the same with each fifth of the pairs scored by weights of the others.

    Five weights cannot adapt to very many pairs, so nothing is left out there.
    """
    if num_edges > _MOST_EDGES:
        return term_auc(scores, basis, num_edges)
    is_edge, found = np.arange(len(scores)) < num_edges, []
    for fold in deal_folds(is_edge, seed):
        weights = TermWeights.fit(scores[~fold], basis[~fold], is_edge[~fold])
        if weights.slope <= 0:
            return 0.0
        found.append(link_scores(is_edge[fold], weights.apply(scores[fold], basis[fold])).auc)
    return float(np.mean(found))


def _sample(num_pairs: int, num_edges: int) -> np.ndarray:
    """Return the places of the pairs that weights are fitted to, evenly spread over edges and non-edges."""
    parts = []
    for low, high in ((0, num_edges), (num_edges, num_pairs)):
        step = -(-(high - low) // _MOST_EDGES) or 1
        parts.append(np.arange(low, high, step))
    return np.concatenate(parts)


def place_term(model: Autoencoder) -> None:
    """Make the last input column, which is the degree term, the last two coordinates of the vectors."""
    encoder, decoder = model.encoder_of(0), model.decoder
    assert encoder.skip is not None
    assert isinstance(decoder, SignedDecoder)
    places, signs = slice(model.dim - TERM_COORDINATES, model.dim), torch.tensor([1.0, -1.0])
    scale = 1.0 if encoder.feature_mean is None else float(encoder.feature_scale)
    with torch.no_grad():
        encoder.skip[:, places] = 0
        encoder.skip[-1, places] = _HEIGHT / scale
        encoder.biases[-1][places] = _HEIGHT * signs
        decoder.weights[places] = signs / (2 * _HEIGHT**2)


class TermTrial(NamedTuple):
    """What a term of the degree is worth beside trained vectors.

    Attributes:
        plain_auc, auc: Validation AUC of the vectors alone, and cross-fitted with the term.
        turn: (dim, dim - 2) float64: brings the vectors to the coordinates that carry most of their inner products.
        weights: Of the score and the term.
    """

    plain_auc: float
    auc: float
    turn: np.ndarray
    weights: TermWeights


def try_term(vectors: np.ndarray, term: DegreeTerm, validation: Pairs, *, seed: int) -> TermTrial:
    """Fit a term of the degree beside trained vectors, which lose two dimensions to it. A collective call.

    vectors: (num_nodes, dim) with an inner product as their score, as in `fetch_ends`. term: has the degrees. seed: of
    the folds.
    """
    communicator, table = validation.communicator, torch.from_numpy(vectors)
    squares = SharedRows(communicator, "degree term").inner(table, table).double().numpy()
    turn = np.array(communicator.decide(lambda: _leading_turn(squares).tolist()))
    sources, targets, _ = validation.endpoints()
    rows, *ends = fetch_ends(vectors, validation)
    plain = validation.gather(score_inner_products(rows, *ends))
    scores = validation.gather(score_inner_products(np.ascontiguousarray((rows @ turn).astype(np.float32)), *ends))
    basis = validation.gather(term.basis(term.degrees[sources]) + term.basis(term.degrees[targets]))

    def judge() -> list:
        num_edges = validation.num_edges
        plain_auc = link_scores(np.arange(len(plain)) < num_edges, plain).auc
        weights = TermWeights.fit_sample(scores, basis, num_edges)
        return [plain_auc, crossed_auc(scores, basis, num_edges, seed) if weights.slope > 0 else 0.0, *weights]

    plain_auc, auc, slope, intercept, degrees = communicator.decide(judge)
    return TermTrial(plain_auc, auc, turn, TermWeights(slope, intercept, tuple(degrees)))


def _leading_turn(squares: np.ndarray) -> np.ndarray:
    """Return (dim, dim - 2): orthonormal directions that keep most of the inner products of some vectors.

    squares: (dim, dim) Vᵀ V of the vectors V. Of all bases of these directions this one moves the vectors least: signs
    of eigenvectors, and directions of close eigenvalues, would be those of rounding.
    """
    span = np.linalg.eigh(squares)[1][:, TERM_COORDINATES:]
    left, _, right = np.linalg.svd(span.T @ squares[:, :-TERM_COORDINATES])
    return span @ (left @ right)


def add_term(
    trained: Autoencoder, inputs: InputMap, term: DegreeTerm, found: TermTrial, config: Config
) -> tuple[Autoencoder, InputMap]:
    """Return a model of as many dimensions with the term in two of them, and what it reads.

    trained: with an inner product as its decoder. term: without weights. config: has the decoder `signed`.
    """
    read = replace(inputs, degree_term=replace(term, weights=np.array(found.weights.degrees)))
    before = trained.encoder_of(0)
    mean = None if before.feature_mean is None else torch.cat([before.feature_mean.cpu(), torch.zeros(1)])
    model = make_autoencoder(config, read.num_columns, 1, mean, float(before.feature_scale))
    encoder, kept = model.encoder_of(0), model.dim - TERM_COORDINATES
    turn = torch.from_numpy(found.turn * found.weights.slope**0.5).float()
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.zero_()
        layers = zip((encoder.weights, encoder.biases), (before.weights, before.biases), strict=True)
        for new_layers, old_layers in layers:
            for place, (new, old) in enumerate(zip(new_layers, old_layers, strict=True)):
                values = old.detach().cpu()
                values = values @ turn if place == encoder.num_layers - 1 else values
                new[tuple(slice(size) for size in values.shape)] = values
        assert encoder.skip is not None
        assert before.skip is not None
        encoder.skip[:-1, :kept] = before.skip.detach().cpu() @ turn
        decoder = model.decoder
        assert isinstance(decoder, SignedDecoder)
        assert decoder.bias is not None
        decoder.weights.fill_(1.0)
        decoder.bias.fill_(found.weights.intercept)
    place_term(model)
    return model, read
