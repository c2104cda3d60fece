"""Rows 16 to 31 beside the plain bad inputs: odd graphs that work, and files that mean harm."""

import gzip
import hashlib
import http.server
import json
import os
import pickle
import stat
import subprocess
import sys
import threading
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from l2g2g import cli
from l2g2g.graphs import datasets

RING = [(node, (node + step) % 30) for node in range(30) for step in (1, 2)]
FAST = ["-m", "gae", "--epochs", "2", "--dim", "3", "--json"]


def text(pairs):
    return "".join(f"{u},{v}\n" for u, v in pairs)


@pytest.fixture
def embed(command, tmp_path):
    """Embed a file or a text: (exit code, the JSON row or None, stderr, the vectors or None)."""

    def call(graph, *arguments, name="edges.csv"):
        if isinstance(graph, str):
            (tmp_path / name).write_text(graph)
            graph = tmp_path / name
        output = tmp_path / "out.npy"
        output.unlink(missing_ok=True)
        code, rows, err = command("embed", graph, "-o", output, *FAST, *arguments)
        return code, rows[0] if rows else None, err, np.load(output) if output.exists() else None

    return call


def is_refused(result, *words, codes=(2,)):
    code, row, err, vectors = result
    assert code in codes, err
    assert (row, vectors) == (None, None)
    assert len(err.splitlines()) == 1
    assert err.startswith("l2g2g: ")
    assert all(word in err for word in words), err


def is_embedded(result, num_nodes):
    code, row, err, vectors = result
    assert (code, err) == (0, "")
    assert vectors.shape == (num_nodes, 3)
    assert np.isfinite(vectors).all()
    return row


# --- odd graphs -------------------------------------------------------------------------------------


@pytest.mark.fault(16)
def test_ids_beyond_the_features_name_both_numbers(embed, tmp_path):
    np.save(tmp_path / "f.npy", np.ones((20, 2)))
    is_refused(embed(text(RING[50:]), "--features", tmp_path / "f.npy"), "line 1", "25", "20")


@pytest.mark.fault(17)
def test_huge_ids_are_sparse_ids(embed, tmp_path, happened):
    for number in (10**18, 2**63, 2**64 - 1):
        row = is_embedded(embed(text([*RING, (29, number)])), 31)
        assert row["peak_memory_bytes"] < 4e9
        assert (tmp_path / "out.npy.ids.txt").read_text().splitlines()[-1] == str(number)
    is_refused(embed(text([*RING, (29, "1e18")])), "1e18", "whole number")
    happened("31 rows, ids kept; 1e18 as a decimal: exit 2")


@pytest.mark.fault(18)
def test_strings_work_and_decimals_do_not(embed):
    is_embedded(embed(text((f"n{u}", f"n{v}") for u, v in RING)), 30)
    is_embedded(embed(text((f"n{u}", v) for u, v in RING)), 30 + 30)  # n1 and 1 are two names
    is_refused(embed(text([*RING, (3, 1.5)])), "line 61", "1.5", "whole number")


@pytest.mark.fault(18)
def test_leading_zeros_are_kept(embed, tmp_path):
    padded = [(f"{u:03}", f"{v:03}") for u, v in RING]
    is_embedded(embed(text([*padded, ("000", "1")])), 31)  # 001 and 1 are two names
    ids = (tmp_path / "out.npy.ids.txt").read_text().splitlines()
    assert ids == [*(dict.fromkeys(name for pair in padded for name in pair)), "1"]


@pytest.mark.fault(19)
def test_duplicates_are_merged_and_counted(capsys, tmp_path, happened):
    (tmp_path / "edges.csv").write_text(text([*RING, RING[0], RING[5][::-1]]))
    with pytest.raises(SystemExit) as stop:
        cli.main(["embed", str(tmp_path / "edges.csv"), "-o", str(tmp_path / "o.npy"), *FAST[:-1]])
    err = capsys.readouterr().err
    assert stop.value.code == 0
    assert "60 edges" in err
    assert "1 duplicate edges merged, 1 edges given in both directions joined" in err
    happened("merged, told on stderr")


@pytest.mark.fault(20)
def test_self_loops_are_dropped_and_counted(embed, tmp_path):
    from l2g2g import read_graph

    row = is_embedded(embed(text([*RING, (3, 3), (4, 4)])), 30)
    assert row["num_edges"] == 60
    assert read_graph(tmp_path / "edges.csv").cleaning.describe() == "2 self-loops dropped"


@pytest.mark.fault(21)
@pytest.mark.parametrize("method", ["gae", "l2g2g", "gae+l2g", "fastgae"])
def test_isolated_nodes(embed, tmp_path, method):
    np.save(tmp_path / "f.npy", np.random.default_rng(0).normal(size=(45, 4)))
    is_embedded(embed(text(RING), "--features", tmp_path / "f.npy", "-m", method, "--patches", "3"), 45)


@pytest.mark.fault(22)
@pytest.mark.filterwarnings("default")
def test_disconnected_graphs(embed, happened):
    islands = [(u + start, v + start) for start in (0, 30, 60) for u, v in RING]
    row = is_embedded(embed(text(islands), "-m", "l2g2g", "--patches", "3"), 90)
    assert row["num_joined_patches"] == 2
    happened('finite, "num_joined_patches": 2')


@pytest.mark.fault(24)
def test_too_little_to_learn_from(embed, command, tmp_path):
    is_refused(embed("7,7\n"), "self-loops")
    (tmp_path / "edges.csv").write_text("0,1\n")  # held out for the test, nothing is left to train on
    code, rows, err = command("evaluate", tmp_path / "edges.csv", *FAST)
    assert (code, rows, len(err.splitlines())) == (2, [], 1)
    assert "edge" in err


# --- damaged files ----------------------------------------------------------------------------------


def write_graph(path):
    if path.name.endswith(".npz"):
        targets = [v for _, v in RING]
        np.savez_compressed(path, adj_indptr=np.arange(31) * 2, adj_indices=targets, adj_shape=[30, 30])
    elif path.name.endswith(".parquet"):
        pq.write_table(pa.table({"a": [u for u, _ in RING], "b": [v for _, v in RING]}), path)
    else:
        path.write_bytes(gzip.compress(text(RING).encode()))
    return path


@pytest.mark.fault(27)
@pytest.mark.parametrize("ending", ["npz", "parquet", "csv.gz"])
def test_files_that_are_cut_off(embed, tmp_path, ending):
    path = write_graph(tmp_path / f"g.{ending}")
    assert embed(path)[0] == 0
    data = path.read_bytes()
    for share in (0.1, 0.5, 0.9, 0.99):
        path.write_bytes(data[: int(share * len(data))])
        is_refused(embed(path), path.name)


MEASURE = """
import resource, sys
from l2g2g.errors import L2G2GError
from l2g2g.graphs.read import read_graph
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
for path in sys.argv[2:]:  # what an idle process holds, imports included
    read_graph(path)
idle = peak()
try:
    read_graph(sys.argv[1], memory_limit=100_000_000)
    code = 0
except L2G2GError as error:
    code = error.exit_code
print(code, peak() - idle)
"""


@pytest.mark.slow
@pytest.mark.fault(28)
@pytest.mark.parametrize("ending", ["npz", "csv.gz", "header.npz"])
def test_archives_that_unpack_to_a_thousand_times_their_size(tmp_path, happened, ending):
    bomb = tmp_path / f"bomb.{ending}"
    if ending == "npz":
        with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a.npy", "w") as member:
            for _ in range(400):
                member.write(bytes(1_000_000))
        assert bomb.stat().st_size < 0.41e6
    elif ending == "csv.gz":
        bomb.write_bytes(gzip.compress(b"1,2\n" * 1_000_000) * 200)
        assert bomb.stat().st_size < 0.9e6
    else:  # forty bytes that say they are a billion numbers
        head = b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000,), }"
        with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("adj_indptr.npy", head.ljust(127) + b"\n" + bytes(40))
    small = [write_graph(tmp_path / name) for name in ("g.npz", "g.csv.gz")]
    done = subprocess.run([sys.executable, "-c", MEASURE, bomb, *small], capture_output=True, text=True, check=True)
    code, grown = map(int, done.stdout.split())
    happened(f"{ending}: exit {code}, {grown / 1e6:.0f} MB above idle")
    assert code in (2, 3)
    assert grown < 300e6


@pytest.mark.fault(29)
def test_archives_that_point_outside(embed, tmp_path, happened):
    inner = tmp_path / "inner"
    inner.mkdir()
    good = write_graph(inner / "good.npz").read_bytes()
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    link = zipfile.ZipInfo("adj_indptr.npy")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    for name, entry, content in (("up.npz", "../x.npy", good), ("link.npz", link, b"/etc/passwd")):
        with zipfile.ZipFile(inner / name, "w") as archive:
            archive.writestr(entry, content)
        is_refused(embed(inner / name), name)
        (inner / name).unlink()
    left = {path for path in tmp_path.rglob("*") if path.is_file()} - before
    assert left == set()
    happened("exit 2, no file outside")


class Payload:
    def __init__(self, canary):
        self.canary = canary

    def __reduce__(self):
        return os.mkdir, (str(self.canary),)


@pytest.mark.fault(30)
def test_pickles_never_run(embed, tmp_path, happened):
    canary = tmp_path / "canary"
    hostile = np.empty(30, dtype=object)
    hostile[:] = Payload(canary)
    np.save(tmp_path / "x.npy", hostile)
    np.savez(tmp_path / "x.npz", adj_data=hostile, adj_indptr=hostile, labels=hostile, attr_data=hostile)
    for name in ("x.pt", "raw.npz", "raw.npy"):
        (tmp_path / name).write_bytes(pickle.dumps(Payload(canary)))
    for name in ("x.npy", "x.npz", "x.pt", "raw.npz", "raw.npy"):
        is_refused(embed(tmp_path / name))
        is_refused(embed(text(RING), "--features", tmp_path / name))
    assert not canary.exists()
    pickle.loads((tmp_path / "x.pt").read_bytes())
    assert canary.exists()  # so the payload was real
    happened("10 refusals, no canary")


@pytest.fixture
def server(tmp_path):
    (tmp_path / "web").mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments):
            super().__init__(*arguments, directory=str(tmp_path / "web"))

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.fault(31)
def test_downloads_with_a_wrong_checksum(server, command, tmp_path, monkeypatch, happened):
    write_graph(tmp_path / "web" / "cora.npz")
    address = f"http://127.0.0.1:{server.server_port}/cora.npz"
    monkeypatch.setitem(datasets.SOURCES, "cora", datasets.PublicSource(address))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    code, _, err = command("datasets", "--fetch", "cora", "--sha256", "0" * 64, "--json")
    assert code == 2
    assert "nothing was kept" in err
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == []
    right = hashlib.sha256((tmp_path / "web" / "cora.npz").read_bytes()).hexdigest()
    code, rows, _ = command("datasets", "--fetch", "cora", "--sha256", right, "--json")
    assert code == 0
    assert json.loads(json.dumps(rows))
    happened("exit 2, nothing kept")
