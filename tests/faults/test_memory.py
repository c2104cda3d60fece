"""Row 10: less address space than the training will need."""

import resource
import subprocess
import sys

import numpy as np
import pytest

PROBE = """
import sys
import l2g2g.cli, l2g2g.runs.evaluate
from l2g2g.graphs.read import read_graph
read_graph(sys.argv[1])
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmPeak")))
"""


@pytest.mark.slow
@pytest.mark.fault(10)
def test_address_space_below_the_estimate(tmp_path, happened):
    num_nodes = 300_000
    ring = (np.arange(num_nodes) + 1) % num_nodes
    graph = tmp_path / "ring.npz"
    np.savez(graph, adj_indptr=np.arange(num_nodes + 1), adj_indices=ring, adj_shape=[num_nodes, num_nodes])
    probe = subprocess.run([sys.executable, "-c", PROBE, graph], capture_output=True, text=True, check=True)
    limit = int(probe.stdout) * 1024 + 250_000_000  # enough to start and to read, not enough to train

    def run(preexec):
        return subprocess.run(
            [sys.executable, "-m", "l2g2g", "embed", graph, "-o", tmp_path / "o.npy", "-q", "--epochs", "1"],
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=preexec,
        )

    done = run(lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
    assert done.returncode == 3, done.stderr
    assert "ring: training needs about" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["ring.npz"]
    happened(done.stderr.split(": ", 2)[2].split(";")[0])
