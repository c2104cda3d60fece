"""Public files: nothing is kept that nobody vouches for, and without a network the steps are told."""

import hashlib
import http.server
import threading

import numpy as np
import pytest

from l2g2g.cli import main
from l2g2g.errors import InputError, ResourceError
from l2g2g.graphs import datasets
from l2g2g.graphs.datasets import SOURCES, PublicSource, fetch_dataset, list_datasets, load_dataset


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "l2g2g"


@pytest.fixture
def published(tmp_path, monkeypatch):
    """A citation archive as it is published, pickled names included, on a server of our own."""
    folder = tmp_path / "published"
    folder.mkdir()
    names = {"idx_to_node": np.array({0: "a"}, dtype=object), "class_names": np.array([{}, "x"], dtype=object)}
    np.savez_compressed(
        folder / "cora.npz", adj_indptr=[0, 1, 2, 3], adj_indices=[1, 2, 0], adj_shape=[3, 3], adj_data=np.ones(3),
        attr_indptr=[0, 1, 1, 2], attr_indices=[0, 1], attr_shape=[3, 2], attr_data=np.ones(2),
        labels=[0, 1, 1], **names,
    )  # fmt: skip

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(folder))

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/cora.npz"
    monkeypatch.setitem(datasets.SOURCES, "cora", PublicSource(address))
    yield folder / "cora.npz"
    server.shutdown()
    server.server_close()


def test_a_file_with_the_right_sum_comes_into_the_cache_and_is_found_there(cache, published):
    assert not {info.name: info.available for info in list_datasets()}["cora"]
    digest = hashlib.sha256(published.read_bytes()).hexdigest()
    with pytest.raises(SystemExit) as stop:
        main(["datasets", "--fetch", "cora", "--sha256", digest.upper()])
    assert stop.value.code == 0
    graph = load_dataset("cora")
    assert (graph.num_nodes, graph.num_edges, graph.num_features) == (3, 3, 2)
    assert graph.labels.tolist() == [0, 1, 1]
    assert [path.name for path in cache.iterdir()] == ["cora.npz"]


def test_a_file_with_another_sum_is_not_kept(cache, published):
    with pytest.raises(InputError, match=r"its SHA-256 is [0-9a-f]{64}, not 0000"):
        fetch_dataset("cora", "0" * 64)
    assert list(cache.iterdir()) == []


def test_a_known_sum_need_not_be_given(cache, published, monkeypatch):
    address, digest = SOURCES["cora"].address, hashlib.sha256(published.read_bytes()).hexdigest()
    with pytest.raises(InputError, match="the SHA-256 of cora is not known; add --sha256 SUM"):
        fetch_dataset("cora")
    monkeypatch.setitem(SOURCES, "cora", PublicSource(address, digest))
    assert fetch_dataset("cora").read_bytes() == published.read_bytes()
    monkeypatch.setitem(SOURCES, "cora", PublicSource(address, "1" * 64))
    with pytest.raises(InputError, match=r"its SHA-256 is [0-9a-f]{64}, not 1111"):
        fetch_dataset("cora")


def test_without_a_network_the_steps_are_told(cache, monkeypatch):
    monkeypatch.setitem(SOURCES, "cora", PublicSource("http://127.0.0.1:9/cora.npz"))
    with pytest.raises(ResourceError, match=r"cannot be fetched .* save it under that name"):
        fetch_dataset("cora", "0" * 64)
    with pytest.raises(InputError, match=r"'cora' needs its file; .* fetch it from http.*cora.npz"):
        load_dataset("cora")
    with pytest.raises(InputError, match=r"'reddit' needs its file; .*adj_full.npz, feats.npy, role.json"):
        load_dataset("reddit")


def test_what_cannot_be_fetched_is_refused(cache):
    with pytest.raises(InputError, match="64 hexadecimal digits"):
        fetch_dataset("cora", "abc")
    for name in ("reddit", "sbm-small"):
        with pytest.raises(InputError, match="cannot be fetched as one file"):
            fetch_dataset(name, "0" * 64)


def test_the_data_folder_comes_before_the_cache(cache, tmp_path):
    cache.mkdir(parents=True)
    np.savez(cache / "cora.npz", adj_indptr=[0, 1, 2, 3], adj_indices=[1, 2, 0], adj_shape=[3, 3])
    np.savez(tmp_path / "cora.npz", adj_indptr=[0, 1, 1], adj_indices=[1], adj_shape=[2, 2])
    assert load_dataset("cora").num_nodes == 3
    assert load_dataset("cora", tmp_path).num_nodes == 2
