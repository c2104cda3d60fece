"""Estimators: fit a graph, read `embedding_`, embed new nodes. One class per method, all of scikit-learn's shape.

Methods import what needs torch, so that `from l2g2g import L2G2G` does not wait for it.
"""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from l2g2g.config import OPTIONS, Config, make_config
from l2g2g.errors import InputError, Interrupted
from l2g2g.estimators.link_methods import LinkMethods
from l2g2g.estimators.parameters import FIT_OPTIONS, describe_parameters, make_init

if TYPE_CHECKING:
    from l2g2g.estimators.torch_module import EncoderModule
    from l2g2g.graphs.graph import Graph, NewNodes
    from l2g2g.graphs.graph_store import GraphStore
    from l2g2g.runs.artefact import Artefact
    from l2g2g.runs.fitted import Fitted
    from l2g2g.runs.run import Run
    from l2g2g.runs.warm_start import Movement
    from l2g2g.training.loop import EpochReport, OnEpoch

_UPDATE_SECONDS = 0.2  # at least, between two updates
_WIDTH = 30
_TRAINING = "embed"  # its name among the trainings of a run directory, as the command gives it


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook; a terminal of IPython is none."""
    ipython = sys.modules.get("IPython")
    shell: Any = None if ipython is None else ipython.get_ipython()
    return type(shell).__name__ == "ZMQInteractiveShell"


@contextmanager
def show_progress(label: str, epochs: int) -> Iterator[OnEpoch]:
    """A listener that shows the epochs of a training as a bar, which is updated in place and stays when it ends."""
    from IPython.display import display

    def show(text: str) -> dict[str, str]:
        return {"text/plain": text}

    handle: Any = display(show(f"{label}: {epochs} epochs"), raw=True, display_id=True)
    shown_at, line = 0.0, f"{label}: no epoch"

    def update(report: EpochReport) -> None:
        nonlocal shown_at, line
        filled = _WIDTH * report.epoch // max(1, epochs)
        bar = "█" * filled + "░" * (_WIDTH - filled)
        line = f"{label} {bar} {report.epoch}/{epochs}, loss {report.loss:.4f}"
        if time.monotonic() - shown_at > _UPDATE_SECONDS:
            shown_at = time.monotonic()
            handle.update(show(line), raw=True)

    try:
        yield update
    finally:
        handle.update(show(line), raw=True)


class GraphEmbedding(LinkMethods, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """What the estimators have in common. The parameters are those of the method, see `parameters`.

    Attributes set by `fit`:
        embedding_: (num_nodes, dim) float32, rows in input order.
        node_ids_: Ids of the rows, or None where a node is its row number.
        history_: Loss and time of every epoch.
        config_: All settings as they were used.
        n_features_in_: Columns of the features, or of the adjacency where there are none.
        movement_: After `partial_fit`, how far nodes went whose edges did not change; otherwise None.
    """

    _method: ClassVar[str]
    _module: EncoderModule | None = None
    lr: float | None
    random_state: int | np.random.RandomState | None
    validation_fraction: float
    run_dir: str | Path | None
    resume: bool

    if TYPE_CHECKING:

        def __init__(self, dim: int | None = None, **parameters: Any) -> None: ...

    def __init_subclass__(cls, **options: Any) -> None:
        """Give the estimator of a method its parameters: `__init__`, signature and docstring."""
        super().__init_subclass__(**options)
        if "_method" in vars(cls):
            cls.__init__ = make_init(cls._method)  # type: ignore[method-assign]
            cls.__doc__ = f"{inspect.cleandoc(cls.__doc__ or '')}\n\n{describe_parameters(cls._method)}\n"

    def __sklearn_tags__(self) -> Tags:
        """What scikit-learn should know: a matrix of pairs, sparse or dense, without negative weights."""
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = tags.input_tags.sparse = tags.input_tags.positive_only = True
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def make_config(self) -> Config:
        """The settings of this estimator: its preset with the given parameters."""
        parameters = self.get_params()
        for name, each in FIT_OPTIONS.items():
            each.check(parameters[name])
        options = {name: value for name, value in parameters.items() if name in OPTIONS}
        if self.random_state is not None:
            state = self.random_state
            options["seed"] = state.randint(2**31 - 1) if isinstance(state, np.random.RandomState) else state
        return make_config(self._method, options.pop("preset"), **options)

    def fit(self, graph: Any, y: Any = None, *, on_epoch: OnEpoch | None = None) -> GraphEmbedding:
        """Embed a graph: a path, Graph, scipy matrix, (edges, features), networkx or PyG graph, or an adjacency.

        on_epoch: called with an `EpochReport` (loss, validation AUC, residual of the alignment) after every epoch.
        """
        from l2g2g.estimators.graph_input import read_training, set_columns
        from l2g2g.graphs.store import is_store
        from l2g2g.runs.embed import embed_graph
        from l2g2g.runs.run_directory import open_run
        from l2g2g.runs.sources import open_source

        config = self.make_config()
        with _as_python_signals(), open_run(self.run_dir, resume=self.resume) as directory, ExitStack() as stack:
            if isinstance(graph, str | Path) and (config.memory is not None or is_store(graph)):
                graph = stack.enter_context(open_source(str(graph), None, config, directory=directory))
            if getattr(graph, "stored", None) is None:
                graph = read_training(self, graph, directed=config.directed)
            else:
                set_columns(self, graph)
            if on_epoch is None and is_notebook():
                length = config.num_epochs(graph.num_edges)
                on_epoch = stack.enter_context(show_progress(type(self).__name__, length))
            run = embed_graph(
                graph,
                config,
                validation_fraction=self.validation_fraction,
                on_epoch=on_epoch,
                directory=directory,
                keep=True,
            )
            self.remember(run, graph)
        return self

    def fit_transform(self, graph: Any, y: Any = None) -> np.ndarray:
        """Fit, and return the embedding."""
        return self._output(self.fit(graph).embedding_, self.node_ids_)

    def transform(self, graph: Any, *, new_graph: bool = False) -> np.ndarray:
        """(num_nodes, dim) vectors of a graph of known and new nodes, in the coordinates of `embedding_`.

        Known nodes are found by their ids; without ids the first nodes are the known ones.
        Their vectors are those of `embedding_`, to the bit. New nodes need the features the model was trained on, if
        any, and their edges; edges between known nodes are not looked at. A (num_new, num_known) matrix holds the edges
        of new nodes only, with features as (matrix, features).

        new_graph: no node is known, whatever the ids or numbers say.
        """
        from l2g2g.graphs.graph import NewNodes
        from l2g2g.runs.new_nodes import embed_grown, embed_new_nodes

        source = self._read_grown(graph, None if new_graph else self._known_ids())
        if isinstance(source, NewNodes):
            return self._output(embed_new_nodes(self.fitted, source), None)
        vectors = embed_grown(self.fitted, self.embedding_, self.node_ids_, source, all_new=new_graph)[0]
        return self._output(vectors, source.node_ids)

    def _output(self, vectors: np.ndarray, node_ids: np.ndarray | None) -> Any:
        """The vectors, as a DataFrame with the ids as index where `set_output` asks for pandas."""
        from l2g2g.graphs.write_table import embedding_frame

        return embedding_frame(vectors, node_ids, self._titles()) if self._wants_frames() else vectors

    def partial_fit(self, graph: Any, y: Any = None) -> GraphEmbedding:
        """Continue training on a graph that has grown, in the coordinates of `embedding_`.

        `movement_` says how far vectors moved. Unless `lr` was given, steps are a tenth of those of `fit`. Without a
        fit before it this is `fit`.
        """
        from l2g2g.estimators.graph_input import set_columns
        from l2g2g.graphs.graph import NewNodes
        from l2g2g.runs.run_directory import open_run
        from l2g2g.runs.warm_start import continue_training

        if not hasattr(self, "embedding_"):
            return self.fit(graph)
        source = self._read_grown(graph)
        if isinstance(source, NewNodes):
            raise InputError("partial_fit needs the whole graph as it is now, known nodes and new ones with all edges")
        config = self.make_config()
        with _as_python_signals(), open_run(self.run_dir, resume=self.resume) as directory:
            run, movement = continue_training(
                self.fitted,
                self.embedding_,
                self.node_ids_,
                source,
                config,
                best_epoch=self.history_.best_epoch,
                small_steps=self.lr is None,
                validation_fraction=self.validation_fraction,
                directory=directory,
            )
            set_columns(self, source)
            self.remember(run, source, movement)
        return self

    def score(self, graph: Any, y: Any = None) -> float:
        """The AUC of links against pairs without one.

        Of new nodes, where there are some, a fifth of their links to known ones is hidden, and found again by vectors
        made from the rest. Of known nodes alone all links are taken: give those that training has not seen.
        """
        from l2g2g.graphs.graph import NewNodes
        from l2g2g.graphs.new_nodes import match_nodes
        from l2g2g.runs.link_prediction import score_links, score_new_nodes

        source = self._read_grown(graph, self._known_ids())
        fitted, embedding = self.fitted, self.embedding_
        if isinstance(source, NewNodes):
            return score_new_nodes(fitted, embedding, source)
        matched = match_nodes(source, self.node_ids_, len(embedding))
        if matched.new_nodes.num_new:
            return score_new_nodes(fitted, embedding, matched.new_nodes)
        return score_links(fitted, embedding, source, matched.known)

    @property
    def module_(self) -> EncoderModule:
        """A copy of the encoder as a `torch.nn.Module` of (features, edges), to train on; this model stays as it is."""
        from l2g2g.estimators.torch_module import EncoderModule

        fitted = self.fitted
        if self._module is None:
            self._module = EncoderModule(fitted)
        return self._module

    def save(self, folder: str | Path) -> None:
        """Write vectors, weights, settings and what new nodes need to a folder, which every command reads."""
        from l2g2g.runs.artefact import write_artefact

        check_is_fitted(self, "embedding_")
        values = {"estimator": type(self).__name__, "parameters": self._saved_parameters()}
        write_artefact(Path(folder), _TRAINING, self._artefact.contents(**values))

    @classmethod
    def load(cls, folder: str | Path) -> GraphEmbedding:
        """Read what `save` wrote, or the directory of a finished run."""
        from l2g2g.runs.artefact import open_artefact

        artefact = open_artefact(Path(folder))
        name = artefact.values.get("estimator")
        if name != cls.__name__:
            raise InputError(f"{folder}: holds a {name}, not a {cls.__name__}")
        return cls._from_artefact(artefact)

    @classmethod
    def _from_artefact(cls, artefact: Artefact) -> GraphEmbedding:
        from l2g2g.runs.saved_model import read_config

        artefact, config = artefact.in_memory(), read_config(artefact)
        with artefact.explained():
            parameters = artefact.values["parameters"]
            model = estimator_of(config) if parameters is None else cls(**parameters)
        model.run_, model.movement_ = None, None
        model._set_results(artefact)
        model.n_features_in_ = model.fitted.inputs.num_features or len(model.embedding_)
        return model

    def remember(self, run: Run, graph: GraphStore, movement: Movement | None = None) -> None:
        """Take over a finished run on a graph, as `fit` does, and keep it in the run directory."""
        from l2g2g.runs.artefact import write_artefact
        from l2g2g.runs.finished import describe_run

        row = {
            **run.describe(),
            **run.describe_validation(),
            "seconds": run.seconds,
            **({} if movement is None else movement.describe()),
        }
        edges = True if graph.resident else None
        contents = describe_run(graph, run, row, parameters=self._saved_parameters(run.config.seed), keeps_edges=edges)
        self.run_: Run | None = replace(run, fitted=None)
        self.movement_ = movement
        self._set_results(contents.in_memory())
        if self.run_dir is not None:
            write_artefact(Path(self.run_dir), _TRAINING, self._artefact.contents())

    def _saved_parameters(self, seed: int | None = None) -> dict[str, Any]:
        """Parameters for JSON. seed: what a generator among them was asked for, and gave."""
        parameters = {**self.get_params(), "run_dir": None, "resume": False}
        if not isinstance(parameters["random_state"], (int, type(None))):
            parameters["random_state"] = self.config_.seed if seed is None else seed
        return parameters

    def _set_results(self, artefact: Artefact) -> None:
        from l2g2g.runs.record import read_ids, read_training_history, read_vectors
        from l2g2g.runs.saved_model import read_config, read_fitted

        self._artefact = artefact
        self.embedding_ = read_vectors(artefact)
        self.node_ids_ = read_ids(artefact)
        self.history_ = read_training_history(artefact)
        self.config_ = read_config(artefact)
        self._n_features_out = self.embedding_.shape[1]
        self._fitted = read_fitted(artefact)
        self._module = None

    @property
    def fitted(self) -> Fitted:
        """What new nodes need: model, frame, the way nodes are read and the state of the known ones."""
        check_is_fitted(self, "embedding_")
        return self._fitted

    def _known_ids(self) -> np.ndarray | None:
        check_is_fitted(self, "embedding_")
        return self.node_ids_

    def _read_grown(self, graph: Any, known_ids: np.ndarray | None = None) -> Graph | NewNodes:
        """Read a graph that contains the known nodes, or new nodes alone. known_ids: nodes that need no features."""
        from l2g2g.estimators.graph_input import read_grown
        from l2g2g.runs.record import read_columns_of

        check_is_fitted(self, "embedding_")
        return read_grown(
            self,
            graph,
            len(self.embedding_),
            directed=self.config_.directed,
            known_ids=known_ids,
            columns=read_columns_of(self._artefact),
        )


@contextmanager
def _as_python_signals() -> Iterator[None]:
    """Turn the end by a signal into what Python itself raises for it."""
    try:
        yield
    except Interrupted as stop:
        raise (KeyboardInterrupt(str(stop)) if stop.exit_code == 130 else SystemExit(stop.exit_code)) from stop


class GAE(GraphEmbedding):
    """The graph autoencoder: one encoder over the whole graph (Kipf and Welling 2016)."""

    _method = "gae"


class VGAE(GraphEmbedding):
    """The variational graph autoencoder; `embedding_` holds the means."""

    _method = "vgae"


class FastGAE(GraphEmbedding):
    """A GAE whose loss looks at the subgraph of a degree-weighted node sample (Salha et al. 2021)."""

    _method = "fastgae"


class GAEL2G(GraphEmbedding):
    """GAE+L2G: one autoencoder per patch, trained apart and aligned once (Jeub et al. 2023)."""

    _method = "gae+l2g"


class L2G2G(GraphEmbedding):
    """L2G2G: patches share an encoder and are synchronised while it trains (Ouyang et al. 2023).

    Example:
        >>> edges = [(i, (i + step) % 40) for i in range(40) for step in (1, 2)]
        >>> L2G2G(dim=4, patches=2, epochs=3).fit_transform((edges, None)).shape
        (40, 4)
    """

    _method = "l2g2g"


class VL2G2G(L2G2G):
    """L2G2G with a variational encoder; `embedding_` holds the means."""

    _method = "vl2g2g"


def estimator_of(config: Config) -> GraphEmbedding:
    """An estimator of these settings; parameters that are the preset's stay None."""
    from l2g2g.runs.finished import ESTIMATORS

    kind: type[GraphEmbedding] = globals()[ESTIMATORS[config.method]]
    usual = make_config(config.method, config.preset)
    names = [name for name in kind._get_param_names() if name in OPTIONS and name != "preset"]
    changed = {name: getattr(config, name) for name in names if getattr(config, name) != getattr(usual, name)}
    return kind(preset=config.preset, **changed)


def load_model(folder: str | Path) -> GraphEmbedding:
    """Read a saved model, or the directory of a finished run, whatever its method."""
    from l2g2g.runs.artefact import open_artefact
    from l2g2g.runs.finished import ESTIMATORS

    artefact = open_artefact(Path(folder))
    name = str(artefact.values.get("estimator"))
    if name not in ESTIMATORS.values():
        raise InputError(f"{folder}: holds a {name}, which this version does not know")
    kind: type[GraphEmbedding] = globals()[name]
    return kind._from_artefact(artefact)
