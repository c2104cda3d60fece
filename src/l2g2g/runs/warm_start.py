"""Warm start: continue a finished run on a graph that has grown, in the coordinates of that run."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from l2g2g.alignment.frame import Frame
from l2g2g.config import Config
from l2g2g.errors import InputError
from l2g2g.graphs.graph_store import GraphStore
from l2g2g.graphs.new_nodes import Matched, match_nodes
from l2g2g.models.decoders.base import Decoder
from l2g2g.models.decoders.factors import SignedDecoder
from l2g2g.models.inputs import InputMap
from l2g2g.models.node_states import node_degrees
from l2g2g.parallel.communicator import LOCAL, Communicator
from l2g2g.runs.embed import embed_graph
from l2g2g.runs.fitted import Fitted, Start
from l2g2g.runs.run import Run
from l2g2g.runs.run_directory import RunDirectory, differences
from l2g2g.training.loop import OnEpoch
from l2g2g.training.rows import TrainingRows

# What the weights of a model depend on; all else may change from one training to the next.
_SHAPE = (
    *("method", "dim", "hidden", "layers", "encoder", "activation", "residual", "skip", "decoder", "learn_bias"),
    *("feature_scaling", "directed", "share_encoder"),
)
# Steps of the same size as before would first undo some of what was found: smaller ones end as high (docs/new_nodes.md)
# and move known nodes half as far.
_SMALLER_STEPS = 0.1
_SHARE_OF_EPOCHS = 0.2  # where no validation can tell when to stop


@dataclass(frozen=True)
class Movement:
    """How far the vectors of nodes went whose edges are the same as before.

    Attributes:
        num_known, num_new: Nodes that were there before, and others.
        num_unchanged: Known nodes whose edges weigh as much as before.
        mean: Mean distance between their vectors before and after; None where there are none.
        relative: The same as a fraction of the mean length of their vectors before.
    """

    num_known: int
    num_new: int
    num_unchanged: int
    mean: float | None
    relative: float | None

    def summary(self) -> str:
        """One line for people."""
        text = f"{self.num_new:,} new nodes"
        if self.relative is None:
            return f"{text}; every known one has other edges than before"
        moved = f"{100 * self.relative:.1f} % of their length"
        return f"{text}; {self.num_unchanged:,} known ones with the same edges moved by {moved} on average"

    def describe(self) -> dict[str, Any]:
        """What the JSON line says."""
        return {
            "num_known": self.num_known,
            "num_new": self.num_new,
            "num_unchanged": self.num_unchanged,
            "mean_movement": self.mean,
            "mean_movement_relative": self.relative,
        }


def continue_training(
    fitted: Fitted,
    embedding: np.ndarray,
    known_ids: np.ndarray | None,
    graph: GraphStore,
    config: Config,
    *,
    best_epoch: int,
    small_steps: bool = True,
    validation_fraction: float = 0.05,
    on_epoch: OnEpoch | None = None,
    directory: RunDirectory | None = None,
    communicator: Communicator = LOCAL,
) -> tuple[Run, Movement | None]:
    """Train on a graph that has grown, from the weights of a finished run.

    fitted, embedding, known_ids: the finished run, its vectors (num_known, dim) and ids; it stays as it is.
    best_epoch: the epoch whose weights the run kept. Columns made from the structure have seen the edges that a new
    validation would hold back: a model that reads some goes on for a fifth as many epochs, without one.
    small_steps: train with a tenth of the learning rate of the config, which is that of a training from the start.
    The new vectors are turned onto the old ones of the nodes that both have (orthogonal Procrustes), as far as the
    decoder allows it; the others start from the same weights and are left where they go.
    communicator: of the ranks that train together, as in `embed_graph`; only the first knows what has moved.
    """
    config = check_continues(fitted.config, config)
    fitted.inputs.check(graph.num_features, graph.name)
    keeps_term = fitted.inputs.degree_term is not None and config.decoder == "signed" and config.structure != "spectral"
    if keeps_term and not config.degree_term:
        raise InputError(
            "two coordinates of the finished run carry a term of the degree, and training that goes on keeps it; "
            "leave --no-degree-term out, or fit anew"
        )
    matched = match_nodes(graph, known_ids, len(embedding))
    if matched.is_new.all():
        raise InputError(f"{graph.name}: none of its nodes is known to the finished run; fit it anew")
    start = Start(copy.deepcopy(fitted.model), extend_inputs(fitted, matched))
    training = replace(config, lr=config.lr * (_SMALLER_STEPS if small_steps else 1.0))
    if start.inputs.structure is not None:
        validation_fraction = 0.0
        few = max(1, round(best_epoch * _SHARE_OF_EPOCHS))
        training = replace(training, epochs=few if config.epochs is None else config.epochs)
    run = embed_graph(
        graph,
        training,
        validation_fraction=validation_fraction,
        on_epoch=on_epoch,
        directory=directory,
        keep=True,
        start=start,
        communicator=communicator,
    )
    if not communicator.is_first:
        return run, None
    assert run.fitted is not None
    # The settings of the next training are those of this one before its steps became smaller and fewer.
    settled = replace(run.config, lr=config.lr, epochs=config.epochs)
    continued = replace(run.fitted, config=settled)
    run = replace(run, config=settled, fitted=continued)
    there = ~matched.is_new
    before = embedding[matched.known[there]]
    turn = find_turn(continued.model.decoder, run.embedding[there], before)
    if turn is not None:
        run = _turned(run, turn)
    degrees = np.concatenate([part for _, part in node_degrees(TrainingRows(graph).blocks())])
    unchanged = degrees[there] == fitted.states.node_degrees[matched.known[there]]
    return run, _movement(before[unchanged], run.embedding[there][unchanged], matched)


def check_continues(before: Config, config: Config) -> Config:
    """Refuse settings that need other weights. Returns the config with what the finished run had decided."""
    decided = ["structure", "structure_width", "feature_width", "direct_width"]
    # Spectral vectors have a decoder of their own, whatever the preset's is, and so have those with a degree term.
    if before.structure == "spectral" or (before.decoder, config.decoder) == ("signed", "inner"):
        decided.append("decoder")
    config = replace(config, **{name: getattr(before, name) for name in decided})
    was, now = ({name: getattr(each, name) for name in _SHAPE} for each in (before, config))
    changed = differences(was, now)
    if changed:
        raise InputError(f"cannot go on with the finished run, the model differs: {'; '.join(changed)}; fit it anew")
    if not config.shares_encoder:
        raise InputError(
            f"{config.method} trains one encoder per patch, and a grown graph has other patches; fit it anew, and "
            f"bring it to the old coordinates with `l2g2g align --anchor`"
        )
    return config


def extend_inputs(fitted: Fitted, matched: Matched) -> InputMap:
    """How the run reads nodes, with structural columns of all nodes of the grown graph where it has some."""
    inputs, structure = fitted.inputs, fitted.inputs.structure
    if structure is None:
        return inputs
    new = matched.new_nodes
    columns = np.empty((len(matched.known), structure.columns.shape[1]), np.float32)
    columns[~matched.is_new] = structure.columns[matched.known[~matched.is_new]]
    columns[matched.is_new] = structure.extend(new.propagation(fitted.states.node_degrees, loops=False), new.degrees)
    return replace(inputs, structure=replace(structure, columns=columns))


def find_rotation(moved: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """(dim, dim) float32 orthogonal R that brings moved @ R nearest to wanted, both (num_nodes, dim)."""
    left, _, right = np.linalg.svd(moved.astype(np.float64).T @ wanted.astype(np.float64))
    return (left @ right).astype(np.float32)


def find_turn(decoder: Decoder, moved: np.ndarray, wanted: np.ndarray) -> np.ndarray | None:
    """The same of the rotations that change no score; None where there are none.

    A signed decoder allows those that mix coordinates of one weight only; a single one may change its sign.
    """
    if not decoder.sees_rotation:
        return find_rotation(moved, wanted)
    if not isinstance(decoder, SignedDecoder):
        return None
    weights = decoder.page_weights()
    turn = np.zeros((len(weights), len(weights)), np.float32)
    for weight in np.unique(weights):
        places = np.flatnonzero(weights == weight)
        turn[np.ix_(places, places)] = find_rotation(moved[:, places], wanted[:, places])
    return turn


def _turned(run: Run, rotation: np.ndarray) -> Run:
    """The same run in coordinates that are turned; new nodes will be turned with them."""
    assert run.fitted is not None
    frame, turn = run.fitted.frame, torch.from_numpy(rotation)
    turned = Frame(frame.rotations @ turn, frame.translations @ turn, frame.scales)
    return replace(run, embedding=run.embedding @ rotation, fitted=replace(run.fitted, frame=turned))


def _movement(before: np.ndarray, after: np.ndarray, matched: Matched) -> Movement:
    num_new = matched.new_nodes.num_new
    mean = relative = None
    if len(before):
        mean = float(np.linalg.norm(after - before, axis=1).mean())
        relative = mean / max(float(np.linalg.norm(before, axis=1).mean()), 1e-30)
    return Movement(len(matched.known) - num_new, num_new, len(before), mean, relative)
