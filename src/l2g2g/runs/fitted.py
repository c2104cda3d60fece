"""Fitted: a finished embedding with all that it takes to give new nodes vectors in the same coordinates."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor

from l2g2g.alignment.frame import Frame
from l2g2g.config import Config
from l2g2g.graphs.graph import Features
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.inputs import InputMap
from l2g2g.models.node_states import NodeStates, Parts, StateParts, collect
from l2g2g.patches.overlap import PatchSet


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a training leaves behind.

    Attributes:
        config: The settings as they were used.
        model: The trained model.
        inputs: How nodes are read.
        patches: (num_rows,) nodes and (num_patches + 1,) offsets of the patches that made the vectors; None where a
            pass over the whole graph did.
        frame: What brings the vectors of each of these patches into the published coordinates.
        state_parts: Makes the states of the nodes of training; see `node_states`.
    """

    config: Config
    model: Autoencoder
    inputs: InputMap
    patches: tuple[np.ndarray, np.ndarray] | None
    frame: Frame
    state_parts: StateParts

    @cached_property
    def states(self) -> NodeStates:
        """The states of the nodes of training, in memory."""
        return NodeStates.of_arrays(collect(self.state_parts()), self.patches)

    @property
    def num_patches(self) -> int:
        """Patches that made the vectors; 1 for the whole graph."""
        return 1 if self.patches is None else len(self.patches[1]) - 1

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device


@dataclass(frozen=True, eq=False)
class Start:
    """A model to go on with, and how it reads the nodes of the graph that it goes on with.

    Attributes:
        model: Trained before; training changes it.
        inputs: Its way of reading, with structural columns of all nodes of the graph where there are some.
    """

    model: Autoencoder
    inputs: InputMap

    def digest(self) -> str:
        """SHA-256 of the weights: two trainings that go on with others are not the same."""
        found = hashlib.sha256()
        for value in self.model.state_dict().values():
            found.update(value.cpu().contiguous().numpy().tobytes())
        return found.hexdigest()

    def read(self, features: Features | None) -> Features:
        """(num_nodes, num_columns) what the encoder reads of all nodes."""
        return self.inputs.read_nodes(features, slice(None))


def make_autoencoder(
    config: Config, num_columns: int, num_encoders: int, mean: Tensor | None = None, scale: float = 1.0
) -> Autoencoder:
    """An untrained model of these settings. mean, scale: the centre of what the encoder reads, and its factor."""
    return Autoencoder(
        num_columns,
        config.dim,
        num_encoders=num_encoders,
        hidden=config.trained_hidden,
        layers=config.layers,
        kind=config.encoder,
        variational=config.definition.variational,
        learn_bias=config.learn_bias,
        decoder=config.decoder,
        activation=config.activation,
        skip=config.skip,
        residual=config.residual,
        feature_mean=mean,
        feature_scale=scale,
        seed=config.seed,
    )


def remember(
    model: Autoencoder,
    config: Config,
    inputs: InputMap,
    patch_set: PatchSet,
    frame: Frame,
    state_parts: Callable[[PatchSet | None], Parts],
    *,
    whole: bool,
) -> Fitted:
    """Keep what a training found.

    state_parts: makes the states on the graph that the final vectors were computed on, of these patches; None for the
    whole graph as one. whole: the vectors come from a pass over the whole graph, and no patch has a frame of its own.
    """
    if whole or patch_set.num_patches == 1:
        return Fitted(config, model, inputs, None, Frame.identity(1, config.dim), partial(state_parts, None))
    patches = np.asarray(patch_set.global_nodes), patch_set.offsets
    frame = frame.to("cpu", torch.float32).detach()
    return Fitted(config, model, inputs, patches, frame, partial(state_parts, patch_set))
