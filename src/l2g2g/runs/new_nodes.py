"""New nodes: vectors for nodes that training never saw, in the coordinates that are published already.

A known node keeps its vector to the bit, and its state in every layer of the encoder. A new node is encoded from its
own features and edges beside them. Where vectors come from patches it joins the patches of its neighbours, is brought
into the common frame with each of them, and gets the mean: what known nodes got.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import scipy.sparse as sp
import torch

from l2g2g.alignment.frame import Frame, apply_frame
from l2g2g.errors import InputError
from l2g2g.graphs.graph import Features, Graph, NewNodes
from l2g2g.graphs.new_nodes import Matched, match_nodes
from l2g2g.models.features import as_input
from l2g2g.runs.fitted import Fitted


class NewNodeWarning(UserWarning):
    """Some new nodes are not connected to any known node, so their vectors say little."""


def embed_grown(
    fitted: Fitted, embedding: np.ndarray, known_ids: np.ndarray | None, graph: Graph, *, all_new: bool = False
) -> tuple[np.ndarray, Matched]:
    """(num_nodes, dim) vectors of a graph of known and new nodes, in its order, and which nodes are known.

    embedding: (num_known, dim) the published vectors, which known nodes keep. all_new: no node of it is known.
    """
    matched = match_nodes(graph, known_ids, len(embedding), all_new=all_new)
    found = np.empty((graph.num_nodes, embedding.shape[1]), np.float32)
    found[~matched.is_new] = embedding[matched.known[~matched.is_new]]
    found[matched.is_new] = embed_new_nodes(fitted, matched.new_nodes)
    return found, matched


def embed_new_nodes(fitted: Fitted, new: NewNodes) -> np.ndarray:
    """(num_new, dim) vectors of new nodes."""
    inputs, states = fitted.inputs, fitted.states
    if new.num_new == 0:
        return np.empty((0, fitted.config.dim), np.float32)
    inputs.check(0 if new.features is None else new.features.shape[1], new.name)
    _check_links(fitted, new)
    columns = None
    if inputs.structure is not None:
        columns = inputs.structure.extend(new.propagation(states.node_degrees, loops=False), new.degrees)
    features = inputs.read(new.features, columns, new.degrees)
    shares = share_patches(states.membership(), new)
    total = torch.zeros(new.num_new, fitted.config.dim)
    for patch in range(states.num_patches):
        members = np.flatnonzero(shares[:, patch])
        if len(members):
            vectors = _encode_in_patch(fitted, new, features, members, patch)
            total[members] += torch.from_numpy(shares[members, patch])[:, None] * vectors
    return total.numpy()


def _encode_in_patch(
    fitted: Fitted, new: NewNodes, features: Features, members: np.ndarray, patch: int
) -> torch.Tensor:
    """(num_members, dim) vectors of some new nodes, encoded beside the known ones of a patch, in the common frame."""
    states, device, start = fitted.states, fitted.device, int(fitted.states.offsets[patch])
    nodes = states.nodes[states.rows_of(patch)]
    neighbours = np.unique(new.to_known[members][:, nodes].indices)  # places in the patch; other rows are not read
    part = new.select(members, nodes[neighbours])
    encoder = fitted.model.encoder_of(patch)
    matrix = replace(encoder.propagation_of_new(part, states.degrees[start + neighbours]), device=device)
    frame, own = fitted.frame, slice(patch, patch + 1)
    with torch.no_grad():
        layers = [layer[start + neighbours] for layer in states.layers]
        encoded = encoder.encode_beside(as_input(features[members], device), matrix, layers)[0]
        mean = encoded[:, : fitted.config.dim].cpu()
        transform = Frame(frame.rotations[own], frame.translations[own], frame.scales[own])
        return apply_frame(mean, torch.tensor([0, len(mean)]), transform)


def share_patches(membership: sp.csr_array, new: NewNodes) -> np.ndarray:
    """(num_new, num_patches) float32 shares of the patches in every new node, which add up to 1.

    membership: (num_known, num_patches) the same of the known nodes. A new node takes the shares of its known
    neighbours; without any, those of its new neighbours that have some, and so on; without a path to a known node all
    are equal.
    """
    num_patches = membership.shape[1]
    shares = np.asarray((new.to_known @ membership).todense(), np.float64)
    missing = shares.sum(axis=1) == 0
    while missing.any():
        from_neighbours = new.among[missing] @ shares
        found = from_neighbours.sum(axis=1) > 0
        if not found.any():
            break
        shares[np.flatnonzero(missing)[found]] = from_neighbours[found]
        missing = shares.sum(axis=1) == 0
    shares[missing] = 1.0
    return (shares / shares.sum(axis=1, keepdims=True)).astype(np.float32).reshape(-1, num_patches)


def _check_links(fitted: Fitted, new: NewNodes) -> None:
    """Structure alone says nothing about nodes that are linked to no known one."""
    if fitted.inputs.num_features and not fitted.inputs.structure_only:
        return
    reached = np.diff(new.to_known.indptr) > 0
    if not reached.any():
        raise InputError(
            f"{new.name}: no edge leads to a known node, and the model was trained on structure alone; "
            f"give edges to known nodes, or train with features"
        )
    components = sp.csgraph.connected_components(new.among, directed=False)[1]
    lost = ~np.isin(components, components[reached])
    if lost.any():
        warnings.warn(
            f"{new.name}: {int(lost.sum()):,} new nodes are linked to no known one, directly or through others; "
            f"without features their vectors say nothing but their degree",
            NewNodeWarning,
            stacklevel=4,
        )
