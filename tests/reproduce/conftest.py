"""A folder with one small graph."""

import numpy as np
import pytest
import scipy.sparse as sp


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
