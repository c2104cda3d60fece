"""Torch module: a fitted encoder as a `torch.nn.Module` of features and edges, for those who want to train on."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from l2g2g.errors import InputError, MissingAttributeError
from l2g2g.graphs.graph import Graph
from l2g2g.models.encoding import EncoderInput
from l2g2g.models.features import as_input
from l2g2g.models.sparse import SparseMatrix
from l2g2g.runs.fitted import Fitted


class EncoderModule(nn.Module):
    """Features and edges to vectors, in the coordinates of the model it was taken from.

    Its parameters are a copy: the model stays what it is. Gradients reach the parameters; features and edges are
    constants.

    Example:
        >>> from l2g2g import GAE
        >>> edges = np.array([(i, (i + step) % 40) for i in range(40) for step in (1, 2)])
        >>> features = np.random.default_rng(0).normal(size=(40, 6)).astype("f4")
        >>> module = GAE(dim=4, epochs=2, structure="none").fit((edges, features)).module_
        >>> module(torch.from_numpy(features), torch.from_numpy(edges.T)).shape
        torch.Size([40, 4])
    """

    def __init__(self, fitted: Fitted) -> None:
        super().__init__()
        if not fitted.model.shares_encoder or fitted.num_patches > 1:
            raise MissingAttributeError(
                f"the vectors come from {fitted.num_patches} patches, each in a frame of its own; a module needs "
                f"one shared encoder and assembly='whole'"
            )
        if fitted.inputs.structure is not None:
            raise MissingAttributeError(
                "the model reads columns made from the structure; a module needs features alone, "
                "fit with structure='none'"
            )
        self.encoder = copy.deepcopy(fitted.model.encoder_of(0))
        self.dim = fitted.config.dim
        self.inputs = fitted.inputs
        self.rotation: Tensor
        self.register_buffer("rotation", fitted.frame.rotations[0].clone())

    def forward(self, features: Any, edges: Any) -> Tensor:
        """(num_nodes, dim) vectors.

        features: (num_nodes, num_features) tensor, array or sparse matrix, as the model was fitted on. edges:
        (2, num_edges) integers (PyG's `edge_index`), or a (num_nodes, num_nodes) adjacency, a sparse matrix or tensor.
        """
        rows = _as_array(features)
        self.inputs.check(rows.shape[1], "features")
        device = self.rotation.device
        adjacency = _adjacency(edges, rows.shape[0])
        inputs = EncoderInput(
            SparseMatrix.propagation(adjacency, device),
            as_input(self.inputs.read(rows, None, np.diff(adjacency.indptr)), device),
            propagated=False,
        )
        return self.encoder(inputs)[:, : self.dim] @ self.rotation


def _as_array(features: Any) -> Any:
    if isinstance(features, Tensor):
        features = features.detach().cpu()
        features = _as_scipy(features) if features.layout != torch.strided else features.numpy()
    if sp.issparse(features):
        return sp.csr_array(features).astype(np.float32)
    return np.ascontiguousarray(features, dtype=np.float32)


def _adjacency(edges: Any, num_nodes: int) -> sp.csr_array:
    """Undirected, no loops, each edge once, as a Graph has it."""
    if isinstance(edges, Tensor) and edges.layout != torch.strided:
        edges = _as_scipy(edges.detach().cpu())
    if sp.issparse(edges):
        entries = sp.coo_array(edges)
        (sources, targets), weights = entries.coords, entries.data
    else:
        columns = np.asarray(edges.detach().cpu() if isinstance(edges, Tensor) else edges)
        if columns.ndim != 2 or len(columns) != 2:
            raise InputError(
                f"edges have shape {columns.shape}; give (2, num_edges), or an adjacency as a sparse matrix"
            )
        (sources, targets), weights = columns, None
    return Graph.from_arcs(sources, targets, weights, num_nodes=num_nodes, name="edges").adjacency


def _as_scipy(tensor: Tensor) -> sp.coo_array:
    entries = tensor.to_sparse_coo().coalesce()
    rows, columns = entries.indices().numpy()
    return sp.coo_array((entries.values().numpy(), (rows, columns)), shape=tuple(tensor.shape))
