"""Convert: there and back through networkx and PyG."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

from l2g2g import read_graph
from l2g2g.errors import InputError
from l2g2g.graphs.graph import Graph

NAMES = np.array(["a", "b", "c", "d"], dtype=object)


def make_graph(*, directed=False, weighted=False, sparse=False):
    import scipy.sparse as sp

    features = np.arange(8, dtype=np.float32).reshape(4, 2)
    weights = np.array([2.0, 0.5, 1.5]) if weighted else None
    return Graph.from_arcs(
        [0, 1, 3],
        [1, 2, 1],
        weights,
        features=sp.csr_array(features) if sparse else features,
        node_ids=NAMES,
        labels=np.array([1, 0, 1, 2]),
        directed=directed,
    )


@pytest.mark.parametrize("library", ["networkx", "pyg"])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_graph_comes_back(library, directed, weighted):
    pytest.importorskip({"networkx": "networkx", "pyg": "torch_geometric"}[library])
    graph = make_graph(directed=directed, weighted=weighted, sparse=weighted)
    back = read_graph(graph.to_networkx() if library == "networkx" else graph.to_pyg(), directed=directed)
    assert (back.adjacency != graph.adjacency).nnz == 0
    assert back.weighted == weighted
    assert not directed or (back.arcs != graph.arcs).nnz == 0
    assert back.node_ids.tolist() == NAMES.tolist()
    assert back.labels.tolist() == [1, 0, 1, 2]
    assert np.asarray(back.features).tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_vectors_become_attributes_of_the_nodes():
    graph, vectors = make_graph(), np.random.default_rng(0).normal(size=(4, 3)).astype("f4")
    network = graph.to_networkx(vectors)
    assert [network.nodes[name]["embedding"].tolist() for name in NAMES] == vectors.tolist()
    assert set(network.edges) == {("a", "b"), ("b", "c"), ("b", "d")}
    torch_geometric = pytest.importorskip("torch_geometric")
    data = graph.to_pyg(vectors)
    assert isinstance(data, torch_geometric.data.Data)
    assert data.embedding.tolist() == vectors.tolist()
    assert data.edge_index.shape == (2, 6)
    with pytest.raises(InputError, match=r"shape \(3, 3\) for 4 nodes"):
        graph.to_networkx(vectors[:3])


def test_text_labels_become_numbers_for_pyg():
    pytest.importorskip("torch_geometric")
    graph = replace(make_graph(), labels=np.array(["tree", "bush", "tree", "fern"], dtype=object), node_ids=None)
    data = graph.to_pyg()
    assert (data.y.tolist(), data.label_names) == ([2, 0, 2, 1], ["bush", "fern", "tree"])
    assert "node_id" not in data


def test_attributes_of_other_kinds_are_left_alone_or_refused():
    network = nx.path_graph(4)
    nx.set_node_attributes(network, 0.5, "label")
    nx.set_node_attributes(network, {0: [1.0], 1: [2.0]}, "features")  # not of all nodes
    graph = read_graph(network)
    assert graph.labels is None
    assert graph.features is None
    nx.set_node_attributes(network, {node: [1.0] * (node + 1) for node in network}, "features")
    with pytest.raises(InputError, match=r"'features' of node number 1 has shape \(2,\)"):
        read_graph(network)
    assert read_graph((network, np.eye(4))).num_features == 4  # given features win
