import numpy as np
import pytest

from l2g2g.errors import InputError
from l2g2g.graphs.block_model import BlockModel, _draw_distinct


def test_certain_probabilities_give_the_only_possible_graph():
    # Two blocks {0, 1, 2} and {3, 4}: full inside the first, empty inside the second, full between.
    graph = BlockModel([3, 2], [[1, 1], [1, 0]]).sample(seed=0)
    expected = [[0, 1, 1, 1, 1], [1, 0, 1, 1, 1], [1, 1, 0, 1, 1], [1, 1, 1, 0, 0], [1, 1, 1, 0, 0]]
    assert graph.adjacency.toarray().tolist() == expected
    assert graph.labels.tolist() == [0, 0, 0, 1, 1]
    assert graph.features.toarray().tolist() == [[1, 0], [1, 0], [1, 0], [0, 1], [0, 1]]
    assert graph.block_model.num_nodes == 5


@pytest.mark.parametrize("size", [2, 3, 4, 5, 8, 9])
def test_every_pair_inside_a_block_has_one_number(size):
    model = BlockModel([size], [[1.0]])
    numbers = np.arange(size * (size - 1) // 2)
    block = np.zeros_like(numbers)
    sources, targets = model._endpoints(numbers, block, block)
    pairs = {frozenset(pair) for pair in zip(sources.tolist(), targets.tolist(), strict=True)}
    assert len(pairs) == len(numbers)
    assert all(len(pair) == 2 and max(pair) < size for pair in pairs)


@pytest.mark.slow
def test_every_pair_is_drawn_with_its_own_probability():
    # The last block always has its one edge, so that no draw is without any.
    model = BlockModel([3, 2, 2], [[0.7, 0.2, 0.9], [0.2, 0.4, 0], [0.9, 0, 1]])
    num_draws = 3000
    generator = np.random.default_rng(1)
    total = sum(model.sample(generator).adjacency.toarray() for _ in range(num_draws))
    first, second = np.triu_indices(7, k=1)
    frequency = total[first, second] / num_draws
    expected = model.edge_probability(first, second)
    assert np.abs(frequency - expected).max() < 5 * np.sqrt(0.25 / num_draws)


def test_draws_are_distinct_also_when_nearly_all_are_wanted():
    sizes, counts = np.array([10, 1000, 7, 5]), np.array([9, 20, 0, 5])
    numbers, groups = _draw_distinct(sizes, counts, np.random.default_rng(0))
    assert np.bincount(groups, minlength=4).tolist() == [9, 20, 0, 5]
    assert len(set(zip(numbers.tolist(), groups.tolist(), strict=True))) == 34
    assert (numbers < sizes[groups]).all()


def test_seed_decides_the_graph_and_the_size_is_as_expected():
    model = BlockModel.planted(num_blocks=100, block_size=100, inside=0.02, outside=1e-4)
    assert model.expected_num_edges == pytest.approx(100 * 4950 * 0.02 + 4950 * 10_000 * 1e-4)
    one, same, other = model.sample(3), model.sample(3), model.sample(4)
    assert (one.adjacency != same.adjacency).nnz == 0
    assert (one.adjacency != other.adjacency).nnz > 0
    assert abs(one.num_edges - 14_850) < 5 * np.sqrt(14_850)
    assert one.adjacency.has_sorted_indices
    assert (one.adjacency != one.adjacency.T).nnz == 0


def test_edge_probability_of_pairs():
    model = BlockModel([2, 1], [[0.5, 0.1], [0.1, 0.9]])
    assert model.edge_probability([0, 0, 1, 2], [1, 2, 1, 2]).tolist() == [0.5, 0.1, 0.0, 0.0]


@pytest.mark.parametrize(
    ("sizes", "probabilities", "message"),
    [
        ([0], [[0.5]], "positive whole"),
        ([2, 2], [[0.5]], r"2 blocks but probabilities of shape \(1, 1\)"),
        ([2], [[1.5]], "between 0 and 1"),
        ([2, 2], [[0.1, 0.2], [0.3, 0.1]], "symmetric"),
    ],
)
def test_impossible_models_are_refused(sizes, probabilities, message):
    with pytest.raises(InputError, match=message):
        BlockModel(sizes, probabilities)


def test_a_model_that_draws_no_edge_says_so():
    with pytest.raises(InputError, match="no edge"):
        BlockModel([3], [[0.0]]).sample()
