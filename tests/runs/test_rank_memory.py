"""No rank holds anything for every node of the graph: no array in memory has its length."""

import gc
import json
from dataclasses import replace

import numpy as np
import pytest

from l2g2g.graphs.block_model import BlockModel
from l2g2g.graphs.store import write_graph

from . import rank_memory_jobs
from .rank_memory_jobs import CASES, find_long

NUM_RANKS = 4


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Sixteen blocks of 101 nodes, with few edges between them: neighbours elsewhere are few too."""
    graph = BlockModel.planted(num_blocks=16, block_size=101, inside=0.08, outside=0.0004).sample(0, name="blocks")
    features = np.random.default_rng(0).standard_normal((graph.num_nodes, 6), dtype=np.float32)
    return write_graph(replace(graph, features=features), tmp_path_factory.mktemp("blocks") / "store").directory


def test_arrays_of_all_nodes_are_found():
    gc.freeze()  # what other tests left takes seconds to look through
    try:
        held = {"a name": [np.zeros(17)]}
        matrix = np.ones((3, 18), np.float32)
        assert len(find_long(17)) >= 2
        assert find_long(1234567) == set()
        assert held
        assert matrix.any()
    finally:
        gc.unfreeze()


@pytest.fixture(scope="module")
def told(processes, store, tmp_path_factory):
    """What every rank of one job found, by case."""
    folder = tmp_path_factory.mktemp("told")
    processes.run_ranks(NUM_RANKS, rank_memory_jobs.__file__, store, folder)
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(NUM_RANKS)]


@pytest.mark.slow
@pytest.mark.parametrize("case", list(CASES))
def test_no_rank_has_an_array_of_all_nodes(told, case):
    assert sum(each[case]["here"] for each in told) == 16 * 101
    assert [each[case]["found"] for each in told] == [[]] * NUM_RANKS
    assert all(each[case]["watched"] for each in told) == (case != "aligned patches")  # which scores inside patches
