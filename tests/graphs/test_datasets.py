from pathlib import Path

import numpy as np
import pytest

from l2g2g.errors import InputError
from l2g2g.graphs.datasets import list_datasets, load_dataset

DATA = Path(__file__).parents[2].parent / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"the folder of real graphs {DATA} is missing")


def write_triangle(path):
    np.savez(path, adj_indptr=[0, 1, 2, 3], adj_indices=[1, 2, 0], adj_shape=[3, 3])


def test_block_model_by_name():
    graph = load_dataset("SBM_Small", seed=1)
    assert graph.name == "sbm-small"
    assert (graph.num_nodes, graph.num_features) == (10_000, 100)
    assert (load_dataset("sbm-small", seed=1).adjacency != graph.adjacency).nnz == 0


@pytest.mark.parametrize(
    ("name", "num_edges"),
    # Table 2 of the paper says 99,231 edges for the sparse one, 1.49 M and 14.9 M for the others.
    [
        ("sbm-large-sparse", 99_450),
        ("sbm-large-sparse-stated", 544_950),
        ("sbm-large", 1_494_000),
        ("sbm-large-dense", 14_895_000),
    ],
)
def test_expected_edges_of_the_large_models(name, num_edges):
    info = {info.name: info for info in list_datasets()}[name]
    assert (info.kind, info.num_nodes, info.num_edges, info.available) == ("block model", 100_000, num_edges, True)


def test_large_sparse_model_is_drawn():
    graph = load_dataset("sbm-large-sparse")
    assert abs(graph.num_edges - 99_450) < 5 * np.sqrt(99_450)


def test_files_in_the_data_folder_have_names(tmp_path):
    write_triangle(tmp_path / "my_triangle.npz")
    write_triangle(tmp_path / "cora-ml.npz")
    assert load_dataset("my-triangle", tmp_path).num_edges == 3
    assert load_dataset("my_triangle", tmp_path).name == "my-triangle"
    infos = {info.name: info for info in list_datasets(tmp_path)}
    assert infos["my-triangle"].available
    assert infos["cora-ml"].available
    assert not infos["pubmed"].available


def test_unknown_names_get_a_suggestion(tmp_path):
    with pytest.raises(InputError, match="did you mean 'sbm-small'"):
        load_dataset("sbm-smal")
    with pytest.raises(InputError, match="known names: sbm-small"):
        load_dataset("zzzzzz")
    with pytest.raises(InputError, match=r"'pubmed' needs its file; give the folder that holds pubmed.npz"):
        load_dataset("pubmed")
    with pytest.raises(InputError, match="is not in"):
        load_dataset("pubmed", tmp_path)
    with pytest.raises(InputError, match="no such folder"):
        load_dataset("pubmed", tmp_path / "missing")


@pytest.mark.slow
@needs_data
@pytest.mark.parametrize("name", ["cora-ml", "pubmed", "amazon-photo", "coauthor-cs", "npm-deps"])
def test_real_graphs_have_the_sizes_that_are_listed(name):
    graph = load_dataset(name, DATA)
    info = {info.name: info for info in list_datasets(DATA)}[name]
    assert (graph.num_nodes, graph.num_edges, graph.num_features) == (
        info.num_nodes,
        info.num_edges,
        info.num_features,
    )


@pytest.mark.slow
@needs_data
def test_names_of_nodes_are_text():
    graph = load_dataset("npm-deps", DATA)
    assert graph.node_ids[:2].tolist() == ["core-lang", "project-archer"]
