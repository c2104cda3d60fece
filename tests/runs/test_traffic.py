"""Traffic: estimates beside bytes that were counted, and the time of messages on one host and between hosts."""

import json
from pathlib import Path

import pytest

from l2g2g.config import make_config
from l2g2g.runs.budget import StoredSizes
from l2g2g.runs.traffic import Traffic, estimate_traffic, exchange_seconds, local_rate

COUNTED = Path(__file__).parents[2] / "docs/results/weak_growth.jsonl"


@pytest.mark.parametrize(
    "row", [json.loads(line) for line in COUNTED.read_text().splitlines()], ids=lambda row: row["ranks"]
)
def test_estimates_are_near_the_bytes_that_were_counted(row):
    """Of 5,000 nodes and 18 neighbours each on a rank; how many edges are cut is not known before."""
    ranks, num_nodes = row["ranks"], row["num_nodes"]
    config = make_config(patches=2 * ranks, score_fraction=1.0, structure="none")
    found = estimate_traffic(StoredSizes(num_nodes, 9 * num_nodes, 16, 16.0, num_ranks=ranks), config, 2 * ranks)
    counted = {kind: each["counted"] for kind, each in row["bytes"].items()}
    assert found.gradient == pytest.approx(counted["gradient"], rel=0.5)  # biases and the skip connection beside it
    assert found.pairs == pytest.approx(counted["pairs"], rel=0.3)
    assert found.ids == pytest.approx(counted["ids"], rel=0.3)
    assert found.overlaps >= counted["overlaps"]
    assert found.total == pytest.approx(counted["all"], rel=0.3)


def test_a_whole_graph_in_rows_sends_rows_of_layers_and_one_process_nothing():
    sizes = StoredSizes(1000, 50_000, 16, 16.0, num_ranks=4)
    config = make_config("gae", dim=16, hidden=32)
    assert estimate_traffic(sizes, config, 1).layers == 2 * 4 * (32 + 16) * 750
    assert estimate_traffic(StoredSizes(1000, 50_000, 16, 16.0), config, 1).total == 0


def test_ranks_of_a_host_share_its_network():
    traffic = Traffic(0, 10**8, 0, 0, 0)
    assert exchange_seconds(traffic, 1, 1, 1e9) == 0
    apart, together = (exchange_seconds(traffic, 4, hosts, 1e9) for hosts in (4, 2))
    assert together - apart == pytest.approx(0.1)
    assert local_rate() > 1e7
