"""The load line: many cycles of saving and resuming without growth, and a graph of a million nodes."""

import gc
import os
import subprocess
import sys

import pytest

from l2g2g.config import make_config
from l2g2g.runs.embed import embed_graph
from l2g2g.runs.run_directory import open_run

pytestmark = pytest.mark.slow


class Stop(Exception):
    pass


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.fault("load")
def test_cycles_of_saving_and_resuming_do_not_grow(noisy, tmp_path, complete, happened):
    num_cycles = 200 if complete else 20
    config = make_config(
        "l2g2g", dim=4, hidden=8, patches=3, threads=1, structure="none", epochs=num_cycles + 2, patience=num_cycles
    )
    sizes, handles = [], []
    for cycle in range(num_cycles):

        def stop(report, last=cycle + 2):
            if report.epoch == last:
                raise Stop

        with open_run(tmp_path / "run", resume=cycle > 0, interval=0) as directory, pytest.raises(Stop):
            embed_graph(noisy, config, directory=directory, on_epoch=stop)
        gc.collect()
        sizes.append(resident())
        handles.append(len(os.listdir("/proc/self/fd")))
    with open_run(tmp_path / "run", resume=True, interval=0) as directory:
        run = embed_graph(noisy, config, directory=directory)
    assert run.trained.history.resumed_from_epoch == num_cycles
    assert run.embedding.tobytes() == embed_graph(noisy, config).embedding.tobytes()
    middle = num_cycles // 4  # the first cycles fill caches
    growth = sizes[-1] - sizes[middle]
    happened(f"{num_cycles} cycles: {growth / 1e6:+.1f} MB, {handles[-1] - handles[middle]:+d} file handles, same bits")
    assert handles[-1] == handles[middle]
    assert growth < 8e6


LARGE = """
import resource
import numpy as np
from l2g2g.config import make_config
from l2g2g.runs.embed import embed_graph
from l2g2g.graphs.graph import Graph

generator, num_nodes, num_edges = np.random.default_rng(0), 1_000_000, 10_000_000
sources = generator.integers(0, num_nodes, num_edges, dtype=np.int32)
targets = (sources + generator.integers(1, 1000, num_edges, dtype=np.int32)) % num_nodes
features = generator.random((num_nodes, 128), dtype=np.float32)
graph = Graph.from_arcs(sources, targets, num_nodes=num_nodes, features=features)
del sources, targets, features
# Patch by patch, and no edges held back: the least memory there is.
config = make_config("l2g2g", epochs=2, together=False, threads=1)
run = embed_graph(graph, config, validation_fraction=0)
assert np.isfinite(run.embedding).all()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


@pytest.mark.fault("load")
def test_a_million_nodes(complete, happened):
    if not complete:
        pytest.skip("a million nodes: only in `make faults`")
    done = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    peak = int(done.stdout)
    happened(f"1 M nodes, 10 M edges, 128 features, patch by patch, without validation: peak {peak / 1e9:.2f} GB")
    assert peak <= 4e9
