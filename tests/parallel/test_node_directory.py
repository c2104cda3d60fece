"""The directory of nodes against lists that one process has."""

import numpy as np
import pytest

from l2g2g.core.randomness import Purpose, stream_key
from l2g2g.core.reference import hash_nodes
from l2g2g.parallel.node_directory import NodeDirectory

from .threads import run_ranks, unlock

unlock(NodeDirectory)
NUM_NODES = 200


@pytest.mark.parametrize("num_ranks", [2, 3, 5])
def test_a_directory_knows_owners_and_the_order_of_hashes(num_ranks):
    generator = np.random.default_rng(num_ranks)
    claims = np.where(generator.random((num_ranks, NUM_NODES)) < 0.4, generator.integers(0, 50, NUM_NODES), 99)
    claims = claims * num_ranks + np.arange(num_ranks)[:, None]  # no two ranks have the same
    owners = claims.argmin(axis=0)
    claimed = (claims < 99 * num_ranks) | (np.arange(num_ranks)[:, None] == owners)
    order = np.argsort(hash_nodes(np.arange(NUM_NODES), stream_key(0, Purpose.NODE_ORDER)), kind="stable")
    asked = [generator.integers(0, NUM_NODES, 60) for _ in range(num_ranks)]
    places = [np.unique(generator.integers(0, NUM_NODES, 40)) for _ in range(num_ranks)]
    asked[1], places[1] = np.empty(0, np.int64), np.empty(0, np.int64)  # a rank may want nothing

    def work(communicator):
        rank = communicator.rank
        nodes = np.flatnonzero(claimed[rank])
        directory = NodeDirectory(communicator, NUM_NODES, nodes, claims[rank, nodes])
        held = [each for each in vars(directory).values() if isinstance(each, np.ndarray)]
        assert max(len(each) for each in held) < NUM_NODES
        return directory.counts, directory.of(asked[rank]), directory.places_of(asked[rank]), directory.at(places[rank])

    for rank, (counts, found, found_places, (nodes, at_places)) in enumerate(run_ranks(num_ranks, work)):
        assert counts == np.bincount(owners, minlength=num_ranks).tolist()
        assert found.tolist() == owners[asked[rank]].tolist()
        assert order[found_places].tolist() == asked[rank].tolist()
        assert nodes.tolist() == order[places[rank]].tolist()
        assert at_places.tolist() == owners[order[places[rank]]].tolist()


def test_every_node_must_be_claimed():
    def work(communicator):
        with pytest.raises(AssertionError, match="claimed by no rank"):
            NodeDirectory(communicator, 4, np.array([communicator.rank]), np.array([communicator.rank]))

    run_ranks(2, work)
