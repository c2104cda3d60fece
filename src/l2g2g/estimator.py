"""Estimators: fit a graph, read `embedding_`. One class per method, all of the same shape."""

from __future__ import annotations

import inspect
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from l2g2g.config import Config, make_config
from l2g2g.errors import InputError, Interrupted
from l2g2g.experiment import Run, embed_graph
from l2g2g.graphs.node_ids import as_node_ids
from l2g2g.graphs.read import read_graph
from l2g2g.graphs.write import write_text, write_whole
from l2g2g.run_directory import open_run
from l2g2g.training.state import History, read_history

_FORMAT = "l2g2g model 1"


class GraphEmbedding(BaseEstimator):
    """What the estimators have in common. Parameters that are None take the preset's value.

    run_dir: a directory in which `fit` keeps the state of training; resume: go on with the training in it.

    Attributes set by `fit`:
        embedding_: (num_nodes, dim) float32, rows in input order.
        node_ids_: Ids of the rows, or None where a node is its row number.
        history_: Loss and time of every epoch.
        config_: All settings as they were used.
    """

    _method: ClassVar[str] = "gae"

    def __init__(
        self,
        dim: int | None = None,
        *,
        seed: int = 0,
        preset: str = "default",
        hidden: int | None = None,
        layers: int | None = None,
        encoder: str | None = None,
        activation: str | None = None,
        residual: bool | None = None,
        epochs: int | None = None,
        lr: float | None = None,
        schedule: str | None = None,
        negatives: str | None = None,
        negative_sampling: str | None = None,
        pairs: str | None = None,
        weighted_loss: bool | None = None,
        directed: bool = False,
        feature_scaling: str | None = None,
        structure: str | None = None,
        learn_bias: bool | None = None,
        decoder: str | None = None,
        mask: float | None = None,
        mask_by: str | None = None,
        score_fraction: float | None = None,
        feature_dropout: float | None = None,
        feature_width: int | None = None,
        feature_storage: str | None = None,
        skip: bool | None = None,
        patience: int | None = None,
        validation_fraction: float = 0.05,
        device: str | None = None,
        threads: int | None = None,
        run_dir: str | None = None,
        resume: bool = False,
    ) -> None:
        self.dim = dim
        self.seed = seed
        self.preset = preset
        self.hidden = hidden
        self.layers = layers
        self.encoder = encoder
        self.activation = activation
        self.residual = residual
        self.epochs = epochs
        self.lr = lr
        self.schedule = schedule
        self.negatives = negatives
        self.negative_sampling = negative_sampling
        self.pairs = pairs
        self.weighted_loss = weighted_loss
        self.directed = directed
        self.feature_scaling = feature_scaling
        self.structure = structure
        self.learn_bias = learn_bias
        self.decoder = decoder
        self.mask = mask
        self.mask_by = mask_by
        self.score_fraction = score_fraction
        self.feature_dropout = feature_dropout
        self.feature_width = feature_width
        self.feature_storage = feature_storage
        self.skip = skip
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.device = device
        self.threads = threads
        self.run_dir = run_dir
        self.resume = resume

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """scikit-learn reads one signature; ours are spread over the classes a name is inherited from."""
        names: set[str] = set()
        for ancestor in cls.__mro__:
            if issubclass(ancestor, GraphEmbedding) and "__init__" in vars(ancestor):
                parameters = inspect.signature(ancestor.__init__).parameters.values()
                names |= {item.name for item in parameters if item.name != "self" and item.kind != item.VAR_KEYWORD}
        return sorted(names)

    def make_config(self) -> Config:
        """The settings of this estimator: its preset with the given parameters."""
        options = {name: value for name, value in self.get_params().items() if name in Config.names()}
        return make_config(self._method, options.pop("preset"), **options)

    def fit(self, graph: Any, y: None = None) -> GraphEmbedding:
        """Embed a graph: a path, Graph, scipy matrix, (edges, features), networkx or PyG graph."""
        config = self.make_config()
        try:
            with open_run(self.run_dir, resume=self.resume) as directory:
                graph = read_graph(graph, directed=self.directed)
                fraction = self.validation_fraction
                run = embed_graph(graph, config, validation_fraction=fraction, directory=directory)
        except Interrupted as stop:  # what Python itself raises for these signals
            raise (KeyboardInterrupt(str(stop)) if stop.exit_code == 130 else SystemExit(stop.exit_code)) from stop
        self._remember(run.embedding, graph.node_ids, run.trained.history, run.config)
        self.run_: Run | None = run
        return self

    def fit_transform(self, graph: Any, y: None = None) -> np.ndarray:
        """Fit, and return the embedding."""
        return self.fit(graph).embedding_

    def save(self, folder: str | Path) -> None:
        """Write vectors, weights and settings to a folder (safetensors and JSON, no pickle)."""
        check_is_fitted(self, "embedding_")
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {"embedding": torch.from_numpy(self.embedding_)}
        if self.run_ is not None:
            frame = self.run_.trained.frame
            tensors |= {f"model.{name}": value.cpu() for name, value in self.run_.trained.model.state_dict().items()}
            tensors |= {"frame.rotations": frame.rotations.cpu(), "frame.translations": frame.translations.cpu()}
            tensors |= {"frame.scales": frame.scales.cpu()}
        else:
            tensors |= self._loaded_tensors
        held = {name: value.contiguous() for name, value in tensors.items()}
        write_whole(folder / "model.safetensors", lambda file: save_file(held, file))
        manifest = {
            "format": _FORMAT,
            "estimator": type(self).__name__,
            "parameters": {**self.get_params(), "run_dir": None, "resume": False},
            "config": self.config_.to_dict(),
            "node_ids": None if self.node_ids_ is None else self.node_ids_.tolist(),
            "history": asdict(self.history_),
        }
        write_text(folder / "model.json", json.dumps(manifest))

    @classmethod
    def load(cls, folder: str | Path) -> GraphEmbedding:
        """Read what `save` wrote."""
        folder = Path(folder)
        manifest, tensors = _read_saved(folder)
        if manifest.get("format") != _FORMAT:
            raise InputError(f"{folder}: saved as '{manifest.get('format')}', this version reads '{_FORMAT}'")
        if manifest.get("estimator") != cls.__name__:
            raise InputError(f"{folder}: holds a {manifest.get('estimator')}, not a {cls.__name__}")
        try:
            model = cls(**manifest["parameters"])
            history, config = read_history(manifest["history"]), Config(**manifest["config"])
            vectors, ids = tensors.pop("embedding").float().numpy(), manifest["node_ids"]
            node_ids = None if ids is None else as_node_ids(list(ids), str(folder))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError(
                f"{folder}: is not a model that was saved here ({type(error).__name__}: {error})"
            ) from error
        if vectors.ndim != 2 or not np.isfinite(vectors).all() or len(vectors) != len(vectors if ids is None else ids):
            raise InputError(f"{folder}: its vectors do not fit its nodes; fetch or save it again")
        model._remember(vectors, node_ids, history, config)
        model.run_ = None
        model._loaded_tensors = tensors
        return model

    def _remember(self, embedding: np.ndarray, node_ids: np.ndarray | None, history: History, config: Config) -> None:
        self.embedding_ = embedding
        self.node_ids_ = node_ids
        self.history_ = history
        self.config_ = config


def _read_saved(folder: Path) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """The manifest and the tensors of a saved model."""
    try:
        manifest = json.loads((folder / "model.json").read_bytes())
        tensors = load_file(folder / "model.safetensors")
    except FileNotFoundError as error:
        raise InputError(f"{folder}: no saved model here (no {Path(str(error.filename)).name})") from error
    except (ValueError, RecursionError, SafetensorError) as error:
        raise InputError(f"{folder}: the saved model is damaged ({error}); fetch or save it again") from error
    if not isinstance(manifest, dict):
        raise InputError(f"{folder}: model.json holds no JSON object; fetch or save it again")
    return manifest, tensors


class GAE(GraphEmbedding):
    """The graph autoencoder: one encoder over the whole graph (Kipf and Welling 2016)."""

    _method = "gae"


class VGAE(GraphEmbedding):
    """The variational graph autoencoder; `embedding_` holds the means."""

    _method = "vgae"


class FastGAE(GraphEmbedding):
    """A GAE whose loss looks at the subgraph of a degree-weighted node sample (Salha et al. 2021)."""

    _method = "fastgae"

    def __init__(self, dim: int | None = None, *, sample_size: int | str | None = None, **settings: Any) -> None:
        super().__init__(dim, **settings)
        self.sample_size = sample_size


class PatchEmbedding(GraphEmbedding):
    """What the estimators that cut the graph have in common."""

    def __init__(
        self,
        dim: int | None = None,
        *,
        patches: int | None = None,
        partition: str | None = None,
        fennel_passes: int | None = None,
        min_overlap: int | None = None,
        target_overlap: int | None = None,
        rotate: bool | None = None,
        translate: bool | None = None,
        scale: bool | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(dim, **settings)
        self.patches = patches
        self.partition = partition
        self.fennel_passes = fennel_passes
        self.min_overlap = min_overlap
        self.target_overlap = target_overlap
        self.rotate = rotate
        self.translate = translate
        self.scale = scale


class GAEL2G(PatchEmbedding):
    """GAE+L2G: one autoencoder per patch, trained apart and aligned once (Jeub et al. 2023)."""

    _method = "gae+l2g"


class L2G2G(PatchEmbedding):
    """L2G2G: patches share an encoder and are synchronised while it trains (Ouyang et al. 2023).

    Example:
        >>> edges = [(i, (i + step) % 40) for i in range(40) for step in (1, 2)]
        >>> L2G2G(dim=4, patches=2, epochs=3).fit_transform((edges, None)).shape
        (40, 4)
    """

    _method = "l2g2g"

    def __init__(
        self,
        dim: int | None = None,
        *,
        share_encoder: bool | None = None,
        refresh_every: int | None = None,
        align_gradient: str | None = None,
        together: bool | None = None,
        scope: str | None = None,
        assembly: str | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(dim, **settings)
        self.scope = scope
        self.assembly = assembly
        self.share_encoder = share_encoder
        self.refresh_every = refresh_every
        self.align_gradient = align_gradient
        self.together = together


class VL2G2G(L2G2G):
    """L2G2G with a variational encoder; `embedding_` holds the means."""

    _method = "vl2g2g"
