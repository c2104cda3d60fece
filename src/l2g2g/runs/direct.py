"""Direct coordinates: what an encoder loses, put beside its coordinates and weighted by validation pairs.

An encoder mixes a node's features with those of its neighbours, and training hides more edges than are missing in the
end, so it knows little of nodes with few neighbours. Two kinds of coordinates say it without training: principal
directions of the features, and a term of the degree, f(u) + f(v) = ((1 + f(u))(1 + f(v)) − (1 − f(u))(1 − f(v))) / 2.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch

from l2g2g.config import Config
from l2g2g.core import score_inner_products
from l2g2g.evaluation.link_scorer import deal_folds, fit_logistic
from l2g2g.evaluation.links import fetch_ends, link_scores
from l2g2g.graphs.splits import Pairs
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.decoders.product import ProductDecoder
from l2g2g.models.inputs import InputMap
from l2g2g.models.structure import DegreeTerm
from l2g2g.runs.fitted import make_autoencoder
from l2g2g.runs.preparation import FeatureCounts, scales_numbers, should_compress

DEGREE_COORDINATES = 2
_LEAST_EDGES = 10  # validation edges below which nothing is fitted


def choose_width(counts: FeatureCounts | None, num_edges: int, config: Config) -> int:
    """Direct coordinates of a training, from the graph alone. counts: None for a graph without features.

    num_edges: validation edges. Directions of the features only where the encoder reads single words: compressed
    features reach its vectors as they are.
    """
    if num_edges < _LEAST_EDGES or config.structure == "spectral" or config.epochs == 0:
        return 0
    has_words = counts is not None and counts.has_many_entries and not should_compress(counts, config)
    has_words = has_words and not scales_numbers(counts, config)
    return config.most_direct if has_words else min(DEGREE_COORDINATES, config.most_direct)


@dataclass(frozen=True)
class DirectWeights:
    """How much direct coordinates count.

    Attributes:
        trained_auc, auc: Validation AUC without and with them, each fifth scored by weights of the other four.
        slope, bias: Make the trained score log-odds of the validation pairs.
        features: Weight of the inner product of the directions of the features.
        degrees: Of `DegreeTerm.basis`.
    """

    trained_auc: float
    auc: float
    slope: float = 1.0
    bias: float = 0.0
    features: float = 0.0
    degrees: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0)

    @property
    def helps(self) -> bool:
        """Whether there is anything to add."""
        return self.auc > self.trained_auc


def widen(
    trained: Autoencoder, inputs: InputMap, directions: InputMap | None, term: DegreeTerm, config: Config
) -> tuple[Autoencoder, InputMap]:
    """The trained model with coordinates for directions of the features beside its own, each with the weight 1.

    inputs: what the trained model reads. directions: has the centre and projection of the features; None for none.
    config: that of the wider model. The coordinates of the degree are there, and are 0.
    """
    read = replace(inputs, degree_term=term)
    before = trained.encoder_of(0)
    scale = 1.0 if before.feature_mean is None else float(before.feature_scale)
    before_mean = None if before.feature_mean is None else before.feature_mean.cpu()
    mean = None if before_mean is None else torch.cat([before_mean, torch.zeros(1)])
    model = make_autoencoder(config, read.num_columns, 1, mean, scale)
    encoder = model.encoder_of(0)
    with torch.no_grad():
        for parameter, given in zip(model.parameters(), trained.parameters(), strict=True):
            parameter.zero_()
            parameter[tuple(slice(size) for size in given.shape)] = given.detach().cpu()
        if directions is not None:
            assert directions.projection is not None
            assert directions.centre is not None
            projection, centre = torch.from_numpy(directions.projection), torch.from_numpy(directions.centre)
            there = slice(trained.dim, trained.dim + projection.shape[1])
            assert encoder.skip is not None
            encoder.skip[: directions.num_features, there] = projection / scale
            known = 0.0 if before_mean is None else before_mean[: directions.num_features]
            encoder.biases[-1][there] = (known - centre) @ projection
    return model, read


def fit_direct(
    model: Autoencoder, vectors: np.ndarray, term: DegreeTerm, validation: Pairs, num_trained: int, *, seed: int
) -> DirectWeights:
    """Weigh the direct coordinates. A collective call; each measures its own pairs, and all get the same weights.

    vectors: (num_nodes, dim) of the model that `widen` gave, as in `fetch_ends`. seed: of the folds.
    """
    sources, targets, _ = validation.endpoints()
    rows, *pairs = fetch_ends(vectors, validation)
    products = score_inner_products(np.ascontiguousarray(rows[:, num_trained:]), *pairs)
    rows[:, num_trained:] = 0
    scores = model.decoder.score(rows, *pairs)
    basis = term.basis(term.degrees[sources]) + term.basis(term.degrees[targets])
    columns = [validation.gather(each) for each in (scores, products, basis)]
    found = validation.communicator.decide(
        lambda: asdict(_weigh(model, *columns, num_edges=validation.num_edges, seed=seed))
    )
    return DirectWeights(**{**found, "degrees": tuple(found["degrees"])})


def _weigh(
    model: Autoencoder, scores: np.ndarray, products: np.ndarray, basis: np.ndarray, *, num_edges: int, seed: int
) -> DirectWeights:
    """The weights. scores, products, basis: (num_pairs, ...) of the pairs of all ranks, edges first."""
    is_edge = np.arange(len(scores)) < num_edges
    spreads = [float(scores.std()), float(products.std())]
    design = np.concatenate([_over(scores, spreads[0]), _over(products, spreads[1]), basis], axis=1)
    weights, bias = fit_logistic(design, is_edge)
    if weights[1] <= 0:  # unlike features: nothing that an inner product of equal vectors can say
        design[:, 1] = 0
        weights, bias = fit_logistic(design, is_edge)
    plain, crossed = [], []
    for fold in deal_folds(is_edge, seed):
        found, _ = fit_logistic(design[~fold], is_edge[~fold])
        crossed.append(link_scores(is_edge[fold], design[fold] @ found).auc)
        plain.append(link_scores(is_edge[fold], scores[fold]).auc)
    trained_auc, auc = float(np.mean(plain)), float(np.mean(crossed))
    inner_weight = getattr(model.decoder, "inner_weight", None)
    if weights[0] <= 0 or inner_weight is None or float(inner_weight.detach()) <= 0 or auc <= trained_auc:
        return DirectWeights(trained_auc, min(auc, trained_auc))
    slope, features = (float(weight / (spread or 1.0)) for weight, spread in zip(weights, spreads, strict=False))
    bias -= slope * float(scores.mean()) + features * float(products.mean())  # the design is centred
    return DirectWeights(trained_auc, auc, slope, bias, features, tuple(float(each) for each in weights[2:]))


def set_weights(
    model: Autoencoder, inputs: InputMap, found: DirectWeights, num_trained: int
) -> tuple[Autoencoder, InputMap]:
    """The same model and inputs with these weights. model: what `widen` gave; it is changed."""
    encoder, decoder, term = model.encoder_of(0), model.decoder, inputs.degree_term
    assert isinstance(decoder, ProductDecoder)
    assert encoder.skip is not None
    assert term is not None
    degree_places = slice(model.dim - DEGREE_COORDINATES, model.dim)
    signs = torch.tensor([1.0, -1.0])
    with torch.no_grad():
        for parameter in (decoder.inner_weight, decoder.out_weight, decoder.out_bias):
            parameter.mul_(found.slope)
        decoder.out_bias.add_(found.bias)
        inner = float(decoder.inner_weight.detach())
        factor = (found.features / inner) ** 0.5 if found.helps else 0.0
        for direct in (encoder.skip[:, num_trained:], encoder.biases[-1][num_trained:]):
            direct.mul_(factor)
        if found.helps:
            height, scale = (0.5 / inner) ** 0.5, 1.0 if encoder.feature_mean is None else float(encoder.feature_scale)
            encoder.skip[-1, degree_places] = height / scale
            encoder.biases[-1][degree_places] = height * signs
            decoder.signs[degree_places] = signs
    weights = np.array(found.degrees)
    return model, replace(inputs, degree_term=replace(term, weights=weights))


def direct_auc(chosen: dict[str, Any]) -> float | None:
    """Return the cross-fitted validation AUC of vectors with weights fitted to the validation pairs; None for others.

    These are direct coordinates and a term of the degree. chosen: of a run.
    """
    if chosen.get("direct"):
        return float(chosen["validation_auc"]["direct"])
    if chosen.get("degree_term"):
        return float(chosen["validation_auc"]["spectral" if chosen["vectors"] == "spectral" else "degree term"])
    return None


def _over(column: np.ndarray, spread: float) -> np.ndarray:
    """(num_pairs, 1) a column of about the length of the others; no spread: it says nothing."""
    return (column - column.mean())[:, None] / (spread or 1.0)
