"""Scratch file: arrays come back as they were written, in any folder, and a full disk ends with a remedy."""

import os
import tempfile

import numpy as np
import pytest

from l2g2g.errors import ResourceError
from l2g2g.graphs.scratch_file import ScratchFile


@pytest.mark.parametrize("named", [True, False])
def test_arrays_come_back_as_they_were_written(tmp_path, named):
    file = ScratchFile(tmp_path if named else None)
    arrays = [np.arange(5000, dtype=np.int32), np.empty((0, 3), np.float32), np.array([[1.5, 2.5]], np.float16)]
    pieces = [file.write(array) for array in arrays]
    for array, piece in zip(arrays, pieces, strict=True):
        file.prefetch(piece)
        found = file.read(piece)
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("named", [True, False])
def test_a_full_disk_ends_with_its_name_and_a_remedy(tmp_path, monkeypatch, named):
    def full(*_):
        raise OSError(28, "No space left on device")

    file = ScratchFile(tmp_path if named else None)
    monkeypatch.setattr(os, "pwrite", full)
    remedy = r"No space left on device\); free space on its disk, or allow more"
    with pytest.raises(ResourceError, match=remedy) as caught:
        file.write(np.arange(3))
    assert f"is written to {tmp_path if named else tempfile.gettempdir()}," in str(caught.value)
