"""Stand-ins: the size that was asked for, hubs, communities that edges and features show."""

import numpy as np
import pytest

from l2g2g.errors import InputError
from l2g2g.graphs.datasets import list_datasets, load_dataset
from l2g2g.graphs.stand_ins import STAND_INS, StandIn, find_stand_in


@pytest.fixture(scope="module")
def graph():
    return load_dataset("sized-4000-40000-32")


def test_size_is_exact_and_the_draw_repeats(graph):
    assert (graph.num_nodes, graph.num_edges, graph.num_features) == (4000, 40_000, 32)
    again = load_dataset("sized-4000-40000-32")
    assert (again.adjacency != graph.adjacency).nnz == 0
    assert (again.features == graph.features).all()
    assert (load_dataset("sized-4000-40000-32", seed=1).adjacency != graph.adjacency).nnz > 0


def test_dense_graphs_have_all_their_edges_too():
    graph = load_dataset("sized-1000-40000-4")
    assert graph.num_edges == 40_000
    with pytest.raises(InputError, match="1,000 wanted"):
        load_dataset("sized-30-1000-4")  # there are 435 pairs


def test_degrees_are_heavy_tailed_and_edges_stay_inside_communities(graph):
    assert graph.degrees.max() > 15 * graph.degrees.mean()
    sources, targets = graph.edges()
    inside = (graph.labels[sources] == graph.labels[targets]).mean()
    assert 0.6 < inside < 0.75  # 0.7 of the events; hubs of one community meet twice more often


def test_features_carry_a_weak_signal():
    model = StandIn(3000, 9000, 64, num_blocks=2, description="small")
    graph = model.sample(0, "small")
    centres = np.stack([graph.features[graph.labels == block].mean(axis=0) for block in (0, 1)])
    guess = (graph.features @ (centres[1] - centres[0])) > (centres.sum(axis=0) / 2) @ (centres[1] - centres[0])
    right = (guess == graph.labels).mean()
    assert 0.6 < right < 0.99


def test_the_two_named_ones_have_the_size_of_the_paper():
    infos = {info.name: info for info in list_datasets() if info.kind == "stand-in"}
    assert {name: (info.num_nodes, info.num_features) for name, info in infos.items()} == {
        "reddit-like": (232_965, 602),
        "yelp-like": (716_847, 300),
    }
    assert infos["reddit-like"].num_edges == 23_213_838 // 2
    assert infos["yelp-like"].num_edges == 13_954_819 // 2
    assert all("stand-in" in item.description for item in STAND_INS.values())


def test_names():
    assert find_stand_in("sized-10-x-3") is None
    assert find_stand_in("yelp") is None
    with pytest.raises(InputError, match="no direction"):
        load_dataset("sized-100-200-3", directed=True)
