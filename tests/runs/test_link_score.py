"""Link score: hidden links of new nodes, or links that the user kept back."""

import numpy as np
import pytest
import scipy.sparse as sp

from l2g2g import GAE, InputError
from l2g2g.graphs.splits import split_links


def test_links_that_training_has_not_seen_are_scored(noisy):
    split = split_links(noisy, test_fraction=0.2, validation_fraction=0.0, seed=0)
    unseen = noisy.with_edges(*split.test.positive.T)
    trained, untrained = (GAE(dim=8, epochs=epochs, patience=0).fit(split.train) for epochs in (60, 0))
    assert trained.score(unseen) > untrained.score(unseen) + 0.03
    assert trained.score(unseen) == trained.score(unseen)


def test_links_of_new_nodes_are_hidden_and_found_again(noisy):
    order = np.random.default_rng(0).permutation(noisy.num_nodes)
    graph = noisy.induce(order)
    known = graph.induce(np.arange(90))
    trained, untrained = (GAE(dim=8, epochs=epochs, patience=0).fit(known) for epochs in (60, 0))
    assert trained.score(graph) > untrained.score(graph) + 0.03
    new_nodes = graph[np.ix_(np.arange(90, 120), np.arange(90))]
    assert trained.score(new_nodes) == trained.score(graph)


def test_hidden_links_do_not_help(noisy):
    """Vectors of the scored nodes must not come from the links that are asked for: with one link each, none is left."""
    model = GAE(dim=8, epochs=30).fit(noisy)
    few = sp.csr_array(([1.0], ([0], [3])), shape=(40, noisy.num_nodes), dtype=np.float32)
    with pytest.raises(InputError, match="1 links to known nodes; at least 2"):
        model.score((few, np.zeros((40, noisy.num_features))))
    full = sp.csr_array(np.ones((3, noisy.num_nodes), np.float32))
    with pytest.raises(InputError, match="too dense"):
        model.score((full, np.zeros((3, noisy.num_features))))
