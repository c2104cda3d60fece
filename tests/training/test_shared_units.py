"""Units that ranks share, against those of one process."""

import numpy as np

from l2g2g.models.sampling import TargetUnits
from l2g2g.training.shared_units import SharedUnits

from ..parallel.threads import run_ranks


def test_ranks_find_the_nodes_of_one_process():
    generator = np.random.default_rng(0)
    degrees, owners = generator.integers(0, 30, 101), generator.integers(0, 3, 101)
    expected = TargetUnits.make("degree", degrees, np.array([0, 101]))
    drawn = generator.integers(0, expected.starts[-1], (3, 500))
    asked = generator.integers(0, 101, (3, 40))

    def work(communicator):
        rank = communicator.rank
        own = np.flatnonzero(owners == rank)
        units = SharedUnits(communicator, 101, own, degrees[own], "degree")
        return units.total, units.of(asked[rank]), units.find(drawn[rank])

    for rank, (total, units, nodes) in enumerate(run_ranks(3, work)):
        assert total == expected.starts[-1]
        assert units.tolist() == expected.each[asked[rank]].tolist()
        assert nodes.tolist() == (np.searchsorted(expected.starts, drawn[rank], side="right") - 1).tolist()
