"""Node states: a graph in two parts, the second encoded beside the state of the first, is the graph encoded at once."""

from itertools import chain

import numpy as np
import pytest
import torch

from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.encoding import prepare_input
from l2g2g.models.node_states import NodeStates, collect, encode_states, node_degrees, weigh_nodes, whole_states
from l2g2g.models.sparse import SparseMatrix
from l2g2g.patches.overlap import make_patches
from l2g2g.training.patch_source import InducedPatches
from l2g2g.training.rows import TrainingRows

KINDS = [
    {},
    {"skip": True},
    {"layers": 3, "skip": True},
    {"layers": 1},
    {"kind": "linear"},
    {"kind": "linear", "layers": 3, "skip": True},
    {"activation": "elu", "residual": True, "hidden": 3, "skip": True},
    {"layers": 3, "residual": True, "hidden": 4},
    {"variational": True, "skip": True},
    {"kind": "sage", "skip": True},
    {"kind": "sage", "layers": 3, "residual": True, "hidden": 4},
]


def make_model(num_features, **options):
    options = {"hidden": 8, **options}
    mean = torch.linspace(-1, 1, num_features)
    model = Autoencoder(num_features, 4, feature_mean=mean, feature_scale=0.7, seed=3, **options)
    for name, value in model.named_parameters():
        if "bias" in name:
            torch.nn.init.normal_(value)
    return model


def states_of(model, graph, patch_set=None):
    degrees = node_degrees(TrainingRows(graph).blocks())
    if patch_set is None:
        inputs = prepare_input(graph.adjacency, graph.features, propagate_once=False)
        return NodeStates.of_arrays(collect(chain(whole_states(model, inputs), degrees)), None)
    source = InducedPatches(patch_set, graph.adjacency, graph.features)
    loaded = (source.load(np.array([patch])) for patch in range(patch_set.num_patches))
    parts = chain(encode_states(model, ((each.edges.adjacency, each.features) for each in loaded)), degrees)
    return NodeStates.of_arrays(collect(parts), (patch_set.global_nodes, patch_set.offsets))


def beside(encoder, inputs):
    return encoder.encode_beside(inputs.features, encoder.propagation_of(inputs.propagation))


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_without_known_nodes_it_is_the_encoder(noisy, options):
    encoder = make_model(noisy.num_features, **options).encoder_of(0)
    inputs = prepare_input(noisy.adjacency, noisy.features, propagate_once=False)
    with torch.no_grad():
        wanted, (found, read) = encoder(inputs), beside(encoder, inputs)
    assert found.numpy() == pytest.approx(wanted.numpy(), abs=1e-5)
    assert len(read) == options.get("layers", 2)


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_rows_beside_known_ones_get_what_the_whole_gives_them(noisy, options):
    """The state of the known rows is that of the whole graph here, so nothing may differ."""
    model = make_model(noisy.num_features, **options)
    known = states_of(model, noisy)
    num_known = 100
    whole = prepare_input(noisy.adjacency, noisy.features, propagate_once=False)
    with torch.no_grad():
        wanted = model.encoder_of(0)(whole)[num_known:]
        rows = model.encoder_of(0).propagation_of(whole.propagation).to_scipy()[num_known:]
        features = torch.from_numpy(noisy.features[num_known:])
        states = [layer[:num_known] for layer in known.layers]
        found, _ = model.encoder_of(0).encode_beside(features, SparseMatrix.from_scipy(rows), states)
    assert found.numpy() == pytest.approx(wanted.numpy(), abs=1e-5)


def test_patches_have_states_and_degrees_of_their_own(noisy):
    patch_set = make_patches(noisy, np.arange(noisy.num_nodes) % 3, min_overlap=4, target_overlap=6)
    model = make_model(noisy.num_features, num_encoders=3)
    known = states_of(model, noisy, patch_set)
    assert (known.num_nodes, known.num_patches) == (noisy.num_nodes, 3)
    assert (known.node_degrees == noisy.degrees + 1).all()
    for patch in range(3):
        rows, nodes = known.rows_of(patch), patch_set.nodes_of(patch)
        block = noisy.induce(nodes)
        assert (known.nodes[rows] == nodes).all()
        assert (known.degrees[rows] == weigh_nodes(block.adjacency)).all()
        inputs = prepare_input(block.adjacency, block.features, propagate_once=False)
        with torch.no_grad():
            own = beside(model.encoder_of(patch), inputs)[1]
        assert known.layers[1][rows].numpy() == pytest.approx(own[1].numpy(), abs=1e-6)
    shares = known.membership()
    assert shares.sum(axis=1) == pytest.approx(np.ones(noisy.num_nodes))


def test_membership_deals_a_node_to_all_its_patches():
    known = NodeStates(np.array([0, 1, 1, 2]), np.array([0, 2, 4]), np.ones(4), np.ones(3), [])
    assert known.membership().toarray().tolist() == [[1, 0], [0.5, 0.5], [0, 1]]
