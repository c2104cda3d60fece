"""A folder with one small graph, and stored lines without any training."""

from dataclasses import asdict

import numpy as np
import pytest
import scipy.sparse as sp

from l2g2g.paper.cells import CONTENDERS, Cell
from l2g2g.paper.claims import CLAIMS
from l2g2g.paper.verdicts import Evidence


@pytest.fixture(scope="session")
def data_dir(planted, tmp_path_factory):
    """A folder with the planted graph as tiny.npz."""
    folder = tmp_path_factory.mktemp("data")
    arrays = {}
    for name, matrix in (("adj", planted.adjacency), ("attr", sp.csr_array(planted.features))):
        arrays |= {f"{name}_indptr": matrix.indptr, f"{name}_indices": matrix.indices}
        arrays |= {f"{name}_data": matrix.data, f"{name}_shape": np.array(matrix.shape)}
    np.savez(folder / "tiny.npz", **arrays)
    return folder


@pytest.fixture(scope="session")
def make_row():
    """A stored line without any training: make_row(dataset, contender, auc=..., epoch=..., ...)."""

    def make(dataset, contender, *, options=None, seed=0, protocol="heldout", auc=0.9, epoch=0.01, **fields):
        chosen = CONTENDERS[contender]
        cell = Cell(dataset, chosen.method, chosen.preset, options or {}, seed, protocol)
        row = {
            **{"key": cell.key, "cell": asdict(cell), "settings": {"threads": 1}, "seed": seed, "auc": auc, "ap": auc},
            **{"best_auc": None, "num_nodes": 1000, "num_edges": 5000, "num_features": 10, "epochs": 20},
            **{"node_duplication": 1.5, "largest_patch_nodes": 200, "peak_memory_bytes": 10**9, "cell_seconds": 1.0},
        }
        seconds = {"epoch_median": epoch, "synchronise": 0.0, "partition": 0.5, "total": 2.0}
        return {**row, "seconds": seconds, **fields}

    return make


@pytest.fixture(scope="session")
def judge():
    """What stored lines of one study say about the claim that begins like this: judge(words, study, rows)."""

    def check(words, study, rows):
        (claim,) = [claim for claim in CLAIMS if claim.text.startswith(words)]
        return claim.judge(Evidence({study: rows}))

    return check
