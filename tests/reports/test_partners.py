"""Nearest nodes and likeliest links against all pairs scored one by one, for every decoder."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from l2g2g.models.autoencoder import Autoencoder
from l2g2g.reports.map_data import SHORTLIST, Partners

KINDS = ["inner", "cosine", "distance", "product", "asymmetric"]


def all_scores(record):
    """(num_nodes, num_nodes) probabilities by the model itself."""
    kind, count = record.decoder_kind, record.num_nodes
    model = Autoencoder(3, record.vectors.shape[1], decoder=kind, learn_bias=True)
    sources, targets = (torch.from_numpy(part.ravel().copy()) for part in np.indices((count, count)))
    vectors = torch.from_numpy(record.vectors)
    parameters = {name: torch.from_numpy(np.array(value)) for name, value in record.decoder.items()}
    with torch.no_grad():
        model.decoder.load_state_dict(parameters)
        scores = model.decoder(vectors, sources, targets)
    return torch.sigmoid(scores).numpy().reshape(count, count)


@pytest.mark.parametrize("kind", KINDS)
def test_links_are_the_likeliest_that_are_no_edges(with_decoder, kind):
    record = with_decoder(kind)
    probabilities = all_scores(record)
    known = (record.edges + record.edges.T).toarray() | np.eye(40, dtype=bool)
    nodes, found = Partners(record).links(np.array([3, 21]), 6)
    for place, row in enumerate((3, 21)):
        allowed = np.where(known[row], -1, probabilities[row])
        assert np.allclose(found[place], np.sort(allowed)[::-1][:6], atol=1e-5)
        assert np.allclose(found[place], probabilities[row, nodes[place]], atol=1e-5)
        assert not known[row, nodes[place]].any()


def test_neighbours_are_the_nearest_by_angle(record):
    unit = record.vectors / np.linalg.norm(record.vectors, axis=1, keepdims=True)
    cosines = unit @ unit.T - 5 * np.eye(40)
    nodes, found = Partners(record).neighbours(np.arange(40), 5)
    assert np.array_equal(nodes, np.argsort(-cosines, axis=1)[:, :5])
    assert np.allclose(found, -np.sort(-cosines, axis=1)[:, :5], atol=1e-5)


def test_without_edges_known_links_are_not_left_out(record):
    nodes, _ = Partners(replace(record, edges=None)).links(np.array([3]), 39)
    assert set(nodes[0].tolist()) == set(range(40)) - {3}


@pytest.mark.parametrize("kind", ["inner", "product"])
def test_fewer_nodes_than_asked_for(with_decoder, kind):
    assert SHORTLIST > 60
    nodes, found = Partners(with_decoder(kind)).links(np.array([0]), 60)
    num_known = int((with_decoder(kind).edges + with_decoder(kind).edges.T)[[0]].nnz)
    assert (nodes >= 0).sum() == 39 - num_known
    assert (found[nodes < 0] == 0).all()
