"""Saved model: what new nodes and further training need, as parts of an artefact, and back."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from l2g2g.alignment.frame import Frame
from l2g2g.config import Config
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.inputs import InputMap
from l2g2g.models.node_states import NodeStates, Parts
from l2g2g.models.number_columns import NumberScale
from l2g2g.models.structure import DegreeTerm, StructureMap
from l2g2g.runs.artefact import Artefact
from l2g2g.runs.fitted import Fitted, make_autoencoder

_FRAME = ("rotations", "translations", "scales")
_STATE = "state_"


def model_values(fitted: Fitted) -> dict[str, Any]:
    """What the manifest says of a model."""
    inputs, structure = fitted.inputs, fitted.inputs.structure
    return {
        "config": fitted.config.to_dict(),
        "inputs": {
            "num_features": inputs.num_features,
            "scaling": inputs.scaling,
            "structure_factor": inputs.structure_factor,
            "structure_only": inputs.structure_only,
            "row_power": inputs.row_power,
            "degree_mean": None if structure is None else structure.degree_mean,
            "degree_spread": None if structure is None else structure.degree_spread,
            "degree_term": _describe_term(inputs.degree_term),
        },
        "whole": fitted.patches is None,
    }


def _describe_term(term: DegreeTerm | None) -> dict[str, Any] | None:
    """For JSON; the degrees of the nodes are known from their states."""
    if term is None:
        return None
    ends = {"least": term.least, "most": term.most}
    return {"weights": term.weights.tolist(), "mean": term.mean, "spread": term.spread, **ends}


def model_weights(fitted: Fitted) -> dict[str, Tensor]:
    """Its tensors of fixed size."""
    inputs, structure = fitted.inputs, fitted.inputs.structure
    arrays = {"centre": inputs.centre, "projection": inputs.projection}
    arrays["eigenvalues"] = None if structure is None else structure.eigenvalues
    if inputs.numbers is not None:
        arrays |= {"number_centres": inputs.numbers.centres, "number_spreads": inputs.numbers.spreads}
    tensors = {f"model.{name}": value for name, value in fitted.model.state_dict().items()}
    tensors |= frame_weights("frame", fitted.frame)
    return tensors | {f"inputs.{name}": torch.from_numpy(array) for name, array in arrays.items() if array is not None}


def frame_weights(part: str, frame: Frame) -> dict[str, Tensor]:
    """The tensors of a frame."""
    return {f"{part}.{name}": getattr(frame, name) for name in _FRAME}


def model_parts(fitted: Fitted) -> Parts:
    """What it has rows of: states and structural columns of the nodes of training."""
    if fitted.inputs.structure is not None:
        yield "structure_columns", fitted.inputs.structure.columns
    for name, rows in fitted.state_parts():
        yield f"{_STATE}{name}", rows


def read_config(artefact: Artefact) -> Config:
    """The settings as they were used."""
    with artefact.explained():
        return Config(**artefact.values["config"])


def read_fitted(artefact: Artefact) -> Fitted:
    """The model of an artefact. Raises InputError where anything is missing or does not fit."""
    config = read_config(artefact)
    with artefact.explained():
        inputs = _read_inputs(artefact)
        model = _read_model(config, inputs.num_columns, artefact.weights_of("model"))
        frame = Frame(**{name: value.float() for name, value in artefact.weights_of("frame").items()})
        arrays = artefact.arrays
        patches = None if artefact.values["whole"] else (arrays["patch_nodes"], arrays["patch_offsets"])
        states = {name.removeprefix(_STATE): arrays[name] for name in arrays if name.startswith(_STATE)}
        fitted = Fitted(config, model.eval(), inputs, patches, frame, partial(iter, tuple(states.items())))
        _check_parts(config, model, inputs, fitted.states, frame)
        if fitted.states.num_nodes != artefact.values["graph"]["num_nodes"]:
            raise ValueError(f"states of {fitted.states.num_nodes} nodes")
        return fitted


def _read_inputs(artefact: Artefact) -> InputMap:
    values, arrays = artefact.values["inputs"], artefact.arrays
    tensors = {name: value.float().numpy() for name, value in artefact.weights_of("inputs").items()}
    structure = None
    if "structure_columns" in arrays:
        numbers = float(values["degree_mean"]), float(values["degree_spread"])
        structure = StructureMap(arrays["structure_columns"], tensors["eigenvalues"], *numbers)
    return InputMap(
        int(values["num_features"]),
        values["scaling"],
        tensors.get("centre"),
        tensors.get("projection"),
        structure,
        float(values["structure_factor"]),
        bool(values["structure_only"]),
        float(values["row_power"]),
        _read_term(values["degree_term"]),
        _read_numbers(tensors, int(values["num_features"])),
    )


def _read_numbers(tensors: dict[str, np.ndarray], num_features: int) -> NumberScale | None:
    """How number columns are read, where there are some."""
    centres, spreads = tensors.get("number_centres"), tensors.get("number_spreads")
    if centres is None or spreads is None:
        return None
    if centres.shape != (num_features,) or spreads.shape != (num_features,) or not (spreads >= 0).all():
        raise ValueError("a scale of number columns that does not fit")
    return NumberScale(centres, spreads)


def _read_term(found: dict[str, Any] | None) -> DegreeTerm | None:
    """The term of new nodes, where the model has one."""
    if found is None:
        return None
    weights = np.array(found["weights"], np.float64)
    if weights.shape != (4,) or not np.isfinite(weights).all() or not float(found["spread"]) > 0:
        raise ValueError("a degree term that does not fit")
    ends = int(found.get("least", 0)), int(found["most"])  # models of the first versions with a term have no `least`
    return DegreeTerm(weights, float(found["mean"]), float(found["spread"]), *ends, np.empty(0, np.int64))


def _read_model(config: Config, num_columns: int, state: dict[str, Tensor]) -> Autoencoder:
    """The model of some settings with these weights; nothing is made that is not among them."""
    state = {name: value.float() for name, value in state.items()}
    encoders = {int(name.split(".")[1]) for name in state if name.startswith("encoders.")}
    if encoders != set(range(len(encoders))) or config.layers > len(state):
        raise ValueError(f"{len(state)} weights of {len(encoders)} encoders with {config.layers} layers")
    mean = state.get("encoders.0.feature_mean")
    if mean is not None and mean.shape != (num_columns,):
        raise ValueError(f"a mean of shape {tuple(mean.shape)} for {num_columns} columns")
    with torch.device("meta"):  # shapes only
        model = make_autoencoder(config, num_columns, len(encoders), mean)
    model.load_state_dict(state, assign=True)
    return model


def _check_parts(config: Config, model: Autoencoder, inputs: InputMap, states: NodeStates, frame: Frame) -> None:
    """Parts that belong together have shapes that fit, and numbers that are places are places that exist."""
    dim, nodes, offsets = config.dim, states.nodes, states.offsets
    rows, patches, structure = len(nodes), states.num_patches, inputs.structure
    columns = np.zeros((states.num_nodes, 1)) if structure is None else structure.columns
    weights = list(model.encoder_of(0).weights)
    widths = [weights[min(place, len(weights) - 1)].shape[1] for place in range(config.layers)]
    tables = [columns, states.degrees, states.node_degrees, *(layer.numpy() for layer in states.layers)]
    for fits, what in (
        (frame.rotations.shape == (patches, dim, dim), "rotations"),
        (frame.translations.shape == (patches, dim) and frame.scales.shape == (patches,), "translations or scales"),
        (model.shares_encoder or len(model.encoders) == patches, "encoders"),
        (offsets.ndim == 1 and offsets[0] == 0 and offsets[-1] == rows and (np.diff(offsets) > 0).all(), "patches"),
        (nodes.ndim == 1 and rows > 0 and nodes.min() >= 0 and nodes.max() < states.num_nodes, "nodes of patches"),
        (states.degrees.shape == (rows,) and states.node_degrees.ndim == 1, "degrees"),
        (all((part >= 1).all() for part in (states.degrees, states.node_degrees)), "degrees"),  # a node counts itself
        ([layer.shape for layer in states.layers] == [(rows, width) for width in widths], "states of nodes"),
        (columns.ndim == 2 and len(columns) == states.num_nodes, "structural columns"),
        (structure is None or structure.eigenvalues.shape == (columns.shape[1] - 1,), "eigenvalues"),
        (inputs.centre is None or inputs.centre.shape == (inputs.num_features,), "centre"),
        (inputs.projection is None or inputs.projection.shape[0] == inputs.num_features, "projection"),
        (all(table.dtype.kind == "f" for table in tables), "types"),
    ):
        if not fits:
            raise ValueError(f"{what} that do not fit")
