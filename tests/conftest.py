"""Small named graphs that many tests share, and one thread each: several test runs may share a machine."""

import os
from dataclasses import replace

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import numpy as np
import pytest
import scipy.sparse as sp

from l2g2g.graphs.block_model import BlockModel
from l2g2g.graphs.graph import Graph


@pytest.fixture(scope="session")
def planted():
    """Four blocks of 30 nodes, dense inside and sparse between; one-hot blocks as features."""
    return BlockModel.planted(num_blocks=4, block_size=30, inside=0.4, outside=0.02).sample(0, name="planted")


@pytest.fixture(scope="session")
def plain(planted):
    """The planted graph without features."""
    return Graph(planted.adjacency, name="plain")


@pytest.fixture(scope="session")
def noisy(planted):
    """The planted graph with twelve dense columns that say little about the blocks and span all directions."""
    generator = np.random.default_rng(0)
    hints = planted.features @ generator.normal(size=(4, 12))
    features = (0.3 * hints + generator.normal(size=(planted.num_nodes, 12))).astype(np.float32)
    return replace(planted, features=features, name="noisy")


@pytest.fixture(scope="session")
def islands():
    """Three rings of 20 nodes with no edge between them, and four nodes with no edge at all; dense features."""
    ring = np.arange(20)
    sources = np.concatenate([start + ring for start in (0, 20, 40) for _ in (1, 2)])
    targets = np.concatenate([start + (ring + step) % 20 for start in (0, 20, 40) for step in (1, 2)])
    features = np.random.default_rng(0).normal(size=(64, 5))
    return Graph.from_arcs(sources, targets, num_nodes=64, features=features, name="islands")


@pytest.fixture(scope="session")
def path_of_four():
    """0 - 1 - 2 - 3 as a float32 adjacency."""
    return sp.csr_array(np.diag(np.ones(3), 1) + np.diag(np.ones(3), -1)).astype(np.float32)
