"""`check_store` finds what is wrong in a store that came from elsewhere, though all its checksums are right."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

from l2g2g import cli
from l2g2g.errors import InputError
from l2g2g.graphs.array_folder import manifest_hash
from l2g2g.graphs.array_writer import write_folder
from l2g2g.graphs.check_store import check_store
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.store import GRAPH_FOLDER, KIND, write_graph

GENERATOR = np.random.default_rng(0)
PAIRS = GENERATOR.integers(0, 60, (300, 2))


def make_store(folder, *, directed=False, sparse=False):
    weights = GENERATOR.integers(1, 9, len(PAIRS)) / 4
    features = sp.random_array((60, 5), density=0.4, format="csr", rng=0) if sparse else GENERATOR.normal(size=(60, 5))
    how = {"num_nodes": 60, "features": features, "node_ids": np.array([f"n{node}" for node in range(60)], object)}
    return write_graph(Graph.from_arcs(*PAIRS.T, weights, directed=directed, **how), folder)


def rewrite(stored, folder, name, change):
    """The same store with one array changed, and a manifest that fits it."""
    arrays = {key: array.read() for key, array in stored.arrays.items()}
    array = arrays[name].copy()
    change(array, arrays)
    arrays[name] = array
    with write_folder(folder / GRAPH_FOLDER, KIND) as writer:
        for key, values in arrays.items():
            writer.save(key, values)
        writer.values = stored.folder.values
    return folder


def set_at(place, value):
    return lambda array, arrays: array.__setitem__(place, value)


def swap_first(array, arrays):
    array[[0, 1]] = array[[1, 0]]


def move_one(array, arrays):
    """Another neighbour for node 0, in order and not on the diagonal, but only in its own row."""
    row = array[: arrays["indptr"][1]]
    free = next(node for node in range(59, 0, -1) if node not in row)
    row[:] = np.sort([*row[1:], free])


def turn_first(array, arrays):
    array[0] = array[0] ^ 3 or 1


WRONG = {
    "unsorted": ("indices", swap_first, "columns of row 0 do not ascend"),
    "diagonal": ("indices", lambda array, arrays: array.__setitem__(0, 0), "row 0 has an entry on the diagonal"),
    "one direction": ("indices", move_one, "is not symmetric: row 0 and column 0 differ"),
    "unlike weights": ("weights", lambda array, arrays: array.__setitem__(0, array[0] + 1), "is not symmetric: row 0"),
    "weight of nothing": ("weights", set_at(3, 0), "row 0 has a weight that is not positive"),
    "first row begins late": ("indptr", set_at(0, 1), "begins with 1 and ends with"),
    "number of a node": ("indices", set_at(-1, 60), "number 60 of 60"),
    "rows that fall": ("indptr", set_at(7, 0), "offsets decrease"),
    "nan": ("features", set_at((4, 2), np.nan), "hold NaN or Inf"),
    "no text": ("ids_bytes", set_at(0, 255), "no UTF-8"),
    "directions": ("directions", set_at(0, 4), "a direction that is none"),
    "one-sided direction": (
        "directions",
        lambda array, arrays: array.__setitem__(0, array[0] ^ 3 or 1),
        "not symmetric",
    ),
}


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_a_sound_store_is_accepted(tmp_path, directed, sparse):
    stored = make_store(tmp_path / "s", directed=directed, sparse=sparse)
    assert check_store(tmp_path / "s").sha256 == stored.sha256


@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_named(tmp_path, case):
    name, change, message = case
    stored = make_store(tmp_path / "s", directed=name == "directions")
    with pytest.raises(InputError, match=message) as refused:
        check_store(rewrite(stored, tmp_path / "wrong", name, change))
    assert "\n" not in str(refused.value)


def test_the_command_says_it_in_one_line(tmp_path, capsys):
    stored = make_store(tmp_path / "s")
    path = tmp_path / "s" / GRAPH_FOLDER / "indices.npy"

    def call(*arguments):
        with pytest.raises(SystemExit) as leaving:
            cli.main(["prepare", "--check", str(tmp_path / "s"), *arguments])
        return leaving.value.code, *capsys.readouterr()

    code, out, _ = call("--json")
    assert (code, json.loads(out)["sha256"]) == (0, stored.sha256)
    assert "60 nodes" in call()[1]
    assert call("--store", "x")[0] == 2
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    code, _, err = call()
    assert code == 2
    assert err.count("\n") == 1
    assert "indices.npy: is damaged" in err
    manifest = tmp_path / "s" / GRAPH_FOLDER / "manifest.json"
    content = json.loads(manifest.read_text())
    content["arrays"]["indices"]["dtype"] = "<i8"
    manifest.write_text(json.dumps({**content, "sha256": manifest_hash(content)}))
    code, _, err = call()
    assert (code, err.count("\n")) == (2, 1)
