"""Memory: the estimate is near what training takes, and what does not fit is refused before it starts."""

import os
import resource
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from l2g2g.config import make_config
from l2g2g.errors import ResourceError
from l2g2g.graphs.graph import Graph
from l2g2g.runs import budget, environment
from l2g2g.runs.budget import StoredSizes, find_needs

# Peak above what the process held before, after a small training that loads all code.
MEASURE = """
import sys
import numpy as np
from l2g2g.config import make_config
from l2g2g.runs.embed import embed_graph
from l2g2g.graphs.graph import Graph
from l2g2g.runs.budget import StoredSizes, estimate_memory

def read(name):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(name))

def make(num_nodes, num_edges):
    sources = generator.integers(0, num_nodes, num_edges)
    targets = (sources + generator.integers(1, 300, num_edges)) % num_nodes
    features = generator.random((num_nodes, 32), dtype=np.float32)
    return Graph.from_arcs(sources, targets, num_nodes=num_nodes, features=features)

generator = np.random.default_rng(0)
widened = {} if sys.argv[1] == "gae" else {"most_patch_share": 0.0}  # nobody knows a cut beforehand
config = make_config(sys.argv[1], epochs=2, threads=1, **widened)
embed_graph(make(2000, 6000), config)
graph = make(60_000, 300_000)
open("/proc/self/clear_refs", "w").write("5")
before = read("VmRSS")
embed_graph(graph, config)
print(estimate_memory(StoredSizes.of(graph), config), read("VmHWM") - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gae", "l2g2g"])
def test_the_estimate_is_near_what_training_takes(method):
    if not os.access("/proc/self/clear_refs", os.W_OK):
        pytest.skip("the system does not tell the peak of a part of a run")
    done = subprocess.run([sys.executable, "-c", MEASURE, method], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    estimate, peak = map(int, done.stdout.split())
    assert 0.65 * peak < estimate < 1.5 * peak


def test_more_of_anything_needs_more():
    small = Graph.from_arcs(np.arange(99), np.arange(99) + 1, features=np.ones((100, 8)))
    base = budget.estimate_memory(StoredSizes.of(small), make_config("gae"))
    assert budget.estimate_memory(StoredSizes.of(small), make_config("gae", dim=32)) > base
    assert budget.estimate_memory(StoredSizes.of(small), make_config("l2g2g", patches=2)) > base
    wide = Graph(small.adjacency, features=np.ones((100, 80), np.float32))
    assert budget.estimate_memory(StoredSizes.of(wide), make_config("gae")) > base
    sparse = Graph(small.adjacency, features=sp.csr_array(np.eye(100, 80, dtype=np.float32)))
    assert budget.estimate_memory(StoredSizes.of(sparse), make_config("gae")) < budget.estimate_memory(
        StoredSizes.of(wide), make_config("gae")
    )
    apart = make_config("gae+l2g", patches=10)
    assert budget.estimate_memory(StoredSizes.of(small), apart) < budget.estimate_memory(
        StoredSizes.of(small), make_config("l2g2g", patches=10)
    )


def test_what_there_is(monkeypatch):
    assert 2**20 < environment.available_memory() < 2**62
    limits = (2**40, resource.RLIM_INFINITY)
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    assert environment.available_memory() < 2**40
    monkeypatch.setattr(resource, "getrlimit", lambda _: (2**20, 2**20))
    assert environment.available_memory() == 0


def test_a_refusal_names_both_numbers(monkeypatch, planted):
    monkeypatch.setattr(budget, "available_memory", lambda: 1000)
    with pytest.raises(ResourceError, match=r"planted: training needs about \d+ MB and 0 MB may be used"):
        budget.check_memory(planted, make_config("gae"))


def test_structural_columns_count_dimensions_negative_eigenvalues_and_spectral_vectors():
    def count(num_nodes=1000, *, has_features=True, **options):
        return budget.structure_bytes(num_nodes, make_config("gae", **options), has_features=has_features)

    nothing = budget.StructureBytes(0, 0)
    assert count(structure="none") == nothing
    assert count(60_000, memory=10**9) == nothing  # none are made within a limit
    assert count(60_000).kept == 0 < count(60_000).found  # a first look
    assert count().kept > 0
    wide = count(has_features=False, dim=128)
    assert wide.found >= 18 * (128 + 16) + 4 * 128  # the lowest are sought when the largest are found
    assert wide.kept == 4 * (64 + 1 + 128 + 128 + 1)
    assert count(has_features=False, dim=128, structure="none").kept == 4 * 65
    assert count(has_features=False, dim=128, patience=0).kept == 4 * 65  # nothing to choose by


def test_a_first_rank_that_writes_its_part_alone_needs_no_room_for_all_vectors():
    config = make_config("l2g2g", "default", dim=16, structure="none")
    sizes = StoredSizes(1_000_000, 10_000_000, 64, 64.0, num_ranks=4)
    all_vectors, own_part = (
        find_needs(replace(sizes, gathers=gathers), config, 10, threads=1, resident=0) for gathers in (True, False)
    )
    assert all_vectors.nodes - own_part.nodes >= 1_000_000 * 16 * 4
