"""Probe: how much of the nodes' classes a linear classifier reads from their vectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from l2g2g.errors import NumericalError
from l2g2g.graphs.checks import find_classes

_STREAM = 0x960BE  # keeps these draws apart from those of the splits
PENALTIES = (1.0, 0.1, 0.01, 0.001, 0.0001)


@dataclass(frozen=True)
class ProbeScores:
    """How well the classes of the test nodes are predicted, as fractions.

    Attributes:
        accuracy: Share of the test nodes whose class is predicted; predicting the largest class gives its share.
        macro_f1: Mean over the classes of the harmonic mean of precision and recall: small classes count as much.
        penalty: The weight of the L2 penalty that did best on the validation nodes.
        num_classes: Classes that were predicted.
        num_small_classes: Classes of fewer than 3 nodes, left out: each part needs one.
    """

    accuracy: float
    macro_f1: float
    penalty: float
    num_classes: int
    num_small_classes: int


@dataclass(frozen=True)
class NodeSplit:
    """Node numbers for training, validation and test."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray


def probe_labels(
    embedding: np.ndarray, labels: np.ndarray, *, max_nodes: int = 200_000, seed: int = 0
) -> ProbeScores | None:
    """Logistic regression on frozen vectors: 10 % of the nodes train it, 10 % choose its penalty, 80 % test it.

    The parts have the same mix of classes. Columns are standardised by the training nodes. None where fewer than
    two classes have three nodes.

    Args:
        embedding: (num_nodes, dim).
        labels: (num_nodes,) as `check_labels` gives them; nodes of unknown class are left out.
        max_nodes: Of more labelled nodes a uniform sample is used.
        seed: Of the sample and of the parts.

    Example:
        >>> vectors = np.repeat(np.eye(2, dtype=np.float32), 20, axis=0)
        >>> probe_labels(vectors, np.repeat([0, 1], 20)).accuracy
        1.0
    """
    if not np.isfinite(embedding).all():
        raise NumericalError("some vectors are not finite numbers; lower the learning rate (--lr)")
    generator = np.random.default_rng([seed, _STREAM])
    classes = find_classes(labels)[1]
    nodes = np.flatnonzero(classes >= 0)
    if len(nodes) > max_nodes:
        nodes = np.sort(generator.choice(nodes, max_nodes, replace=False))
    counts = np.bincount(classes[nodes])
    num_small = int(((counts > 0) & (counts < 3)).sum())
    large = counts >= 3
    if large.sum() < 2:
        return None
    nodes = nodes[large[classes[nodes]]]
    numbers = (np.cumsum(large) - 1)[classes]  # right for the nodes that are left
    split = split_nodes(nodes, numbers[nodes], generator)
    predicted, penalty = predict_classes(embedding, numbers, split, int(large.sum()))
    truth = numbers[split.test]
    return ProbeScores(
        float((predicted == truth).mean()), macro_f1(truth, predicted), penalty, int(large.sum()), num_small
    )


def macro_f1(truth: np.ndarray, predicted: np.ndarray) -> float:
    """Mean over the classes that occur, in truth or as predicted, of 2 · right / (there + predicted)."""
    size = int(max(truth.max(), predicted.max())) + 1
    there, named = np.bincount(truth, minlength=size), np.bincount(predicted, minlength=size)
    right = np.bincount(truth[truth == predicted], minlength=size)
    occurring = there + named > 0
    return float(np.mean(2 * right[occurring] / (there + named)[occurring]))


def split_nodes(nodes: np.ndarray, classes: np.ndarray, generator: np.random.Generator) -> NodeSplit:
    """Deal the nodes of each class: a tenth, at least one, to training and to validation, the rest to test.

    nodes: (num_nodes,) numbers; classes: (num_nodes,) their classes, each of at least three nodes.
    """
    shuffled = generator.permutation(len(nodes))
    shuffled = shuffled[np.argsort(classes[shuffled], kind="stable")]
    counts = np.bincount(classes)
    place = np.arange(len(nodes)) - np.repeat(np.cumsum(counts) - counts, counts)
    tenth = np.repeat(np.maximum(1, np.rint(0.1 * counts).astype(np.int64)), counts)
    part = (place >= tenth).astype(np.int64) + (place >= 2 * tenth)
    train, validation, test = (np.sort(nodes[shuffled[part == number]]) for number in range(3))
    return NodeSplit(train, validation, test)


def predict_classes(
    embedding: np.ndarray, classes: np.ndarray, split: NodeSplit, num_classes: int
) -> tuple[np.ndarray, float]:
    """(num_test,) classes predicted by the classifier that does best on the validation nodes, and its penalty."""
    train = torch.from_numpy(embedding[split.train]).float()
    mean, deviation = train.mean(0), train.std(0, correction=0)
    deviation = torch.where(deviation > 1e-6 * (mean.abs() + 1e-30), deviation, torch.ones(()))  # a constant column

    def standardised(nodes: np.ndarray) -> Tensor:
        columns = (torch.from_numpy(embedding[nodes]).float() - mean) / deviation
        return functional.pad(columns, (0, 1), value=1.0)  # the last column carries the intercepts

    inputs, truth = standardised(split.train), torch.from_numpy(classes[split.train])
    checks, check_truth = standardised(split.validation), torch.from_numpy(classes[split.validation])
    weight = torch.zeros(inputs.shape[1], num_classes)
    best, best_weight, best_penalty = -1.0, weight, PENALTIES[0]
    for penalty in PENALTIES:  # from the strongest on, each from the answer before
        weight = fit_logistic(inputs, truth, weight, penalty)
        accuracy = float(((checks @ weight).argmax(1) == check_truth).float().mean())
        if accuracy > best:
            best, best_weight, best_penalty = accuracy, weight, penalty
    return (standardised(split.test) @ best_weight).argmax(1).numpy(), best_penalty


def fit_logistic(inputs: Tensor, classes: Tensor, start: Tensor, penalty: float, steps: int = 100) -> Tensor:
    """Minimise the mean of −log softmax(inputs @ weight)[class] + penalty / 2 · |weight without intercepts|².

    inputs: (num_nodes, width), the last column all 1; start: (width, num_classes). L-BFGS on the full batch.
    """
    weight = start.clone().requires_grad_()
    optimiser = torch.optim.LBFGS([weight], max_iter=steps, tolerance_grad=1e-5, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        loss = functional.cross_entropy(inputs @ weight, classes) + 0.5 * penalty * weight[:-1].square().sum()
        loss.backward()
        return loss

    optimiser.step(closure)
    return weight.detach()
