import json
import tracemalloc

import numpy as np
from safetensors.numpy import load

from l2g2g.reports.streamed_files import describe, write_arrays, write_names


def test_arrays_are_safetensors(tmp_path):
    path = tmp_path / "arrays.safetensors"
    arrays = {
        "vectors": np.arange(12, dtype=np.float32).reshape(3, 4),
        "turned": np.arange(6, dtype=np.float64).reshape(2, 3).T,
        "none": np.zeros((0, 4), np.int32),
        "one": np.array(7, np.int64),
        "flags": np.array([True, False, True]),
    }
    found = write_arrays(path, arrays)
    back = load(path.read_bytes())
    assert back.keys() == arrays.keys()
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype
        np.testing.assert_array_equal(back[name], array)
    assert found == describe(path.read_bytes())


def test_names_are_the_same_json_as_at_once(tmp_path):
    path = tmp_path / "names.json"
    for ids in (None, np.arange(70_000), np.array(["a", 'quote " and \\', "ü\n"])):
        for classes in (None, [], ["x", "</script>"]):
            found = write_names(path, ids, classes)
            listed = None if ids is None else ids.tolist()
            assert path.read_text() == json.dumps({"ids": listed, "classes": classes})
            assert found == describe(path.read_bytes())


def test_arrays_are_not_copied(tmp_path):
    array = np.ones((1 << 16, 64), np.float32)
    tracemalloc.start()
    try:
        write_arrays(tmp_path / "arrays", {"vectors": array})
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < array.nbytes / 4
