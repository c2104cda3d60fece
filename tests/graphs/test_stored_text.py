"""Text in array folders: names of any script come back, in parts too, and damage is told."""

import numpy as np
import pytest

from l2g2g.errors import InputError
from l2g2g.graphs import array_folder
from l2g2g.graphs.array_folder import blocks_of, decode_text, open_folder, read_text, text_arrays
from l2g2g.graphs.array_writer import write_folder

NAMES = np.array(["a", "", "Müller & Söhne", "日本", "x" * 300, "\n"], object)


def write(folder, names):
    with write_folder(folder, "names") as writer:
        writer.save_names("ids", blocks_of(names))
    return open_folder(folder, "names").arrays


@pytest.mark.parametrize("at_once", [2, 1 << 16])
def test_names_come_back_in_parts(tmp_path, monkeypatch, at_once):
    monkeypatch.setattr(array_folder, "_NAMES_AT_ONCE", at_once)
    arrays = write(tmp_path / "text", NAMES)
    assert read_text(arrays, "ids", 0, None).tolist() == NAMES.tolist()
    assert read_text(arrays, "ids", 2, 4).tolist() == NAMES[2:4].tolist()
    assert read_text(arrays, "ids", 3, 3).tolist() == []


def test_nothing_is_an_offset_alone(tmp_path):
    assert [(name, rows.tolist()) for name, rows in text_arrays("ids", [])] == [("ids_offsets", [0])]
    assert decode_text(np.empty(0, np.uint8), np.zeros(1, np.int64)).tolist() == []


def test_damaged_bytes_are_refused_with_their_file(tmp_path):
    arrays = write(tmp_path / "text", NAMES)
    path = arrays["ids_bytes"].path
    data = bytearray(path.read_bytes())
    data[-302] = 0xFF  # in the last characters of 日本
    path.write_bytes(bytes(data))
    with pytest.raises(InputError, match=rf"{path.name}: is damaged \(no UTF-8\)"):
        read_text(open_folder(tmp_path / "text", "names").arrays, "ids", 0, None)
