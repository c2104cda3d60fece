"""Patches one at a time: the embedding of stacked patches, by hand, and residuals of known disagreements."""

import numpy as np
import pytest
import torch

from l2g2g.alignment.frame import Frame
from l2g2g.alignment.patch_input import read_patches
from l2g2g.alignment.streaming import SharedNodes, measure_residuals, stream_embedding
from l2g2g.errors import InputError

FIRST = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]])
SECOND = np.array([[2.0, 0.0], [2.0, 3.0], [9.0, 9.0]])
PATCHES = [(["a", "b", "c"], FIRST), (["c", "d", "b"], SECOND)]


def open_patches(patches=PATCHES):
    source = read_patches(patches)
    return source, SharedNodes.gather(source)


def frame_with(translation, scale=1.0):
    frame = Frame.identity(2, 2)
    return Frame(
        frame.rotations,
        torch.tensor([[0.0, 0.0], translation], dtype=torch.float64),
        torch.tensor([1.0, scale]).double(),
    )


def test_shared_nodes_are_those_in_both_patches():
    source, shared = open_patches()
    assert sorted(str(source.names[number]) for number in shared.numbers) == ["b", "b", "c", "c"]
    assert shared.offsets.tolist() == [0, 2, 4]
    assert shared.overlaps.sizes.tolist() == [2]


@pytest.mark.parametrize("out", [False, True])
def test_copies_are_averaged_and_others_placed_by_their_frame(tmp_path, out):
    source, shared = open_patches()
    path = tmp_path / "vectors.npy" if out else None
    found = stream_embedding(source, shared, frame_with([1.0, -1.0], 2.0), "mean", None, path)
    # Patch 2 is doubled, then shifted: c to (5, -1), d to (5, 5), b to (19, 17).
    expected = {"a": (0, 0), "b": ((1 + 19) / 2, 17 / 2), "c": ((2 + 5) / 2, -0.5), "d": (5, 5)}
    assert {name: tuple(row) for name, row in zip(source.names, np.asarray(found).tolist(), strict=True)} == expected
    if out:
        assert (np.load(path) == np.asarray(found)).all()


def test_a_fixed_patch_keeps_its_bits():
    source, shared = open_patches()
    found = stream_embedding(source, shared, frame_with([1.0, -1.0]), "mean", 1, None)
    places = {name: place for place, name in enumerate(source.names)}
    assert np.asarray(found)[[places["c"], places["d"], places["b"]]].tolist() == SECOND.tolist()


def test_residuals_are_distances_of_copies():
    source, shared = open_patches()
    found = measure_residuals(source, shared, frame_with([0.0, 0.0]))
    gap = np.hypot(8, 9)  # b is (1, 0) and (9, 9); c agrees
    assert found.before == found.after == pytest.approx(np.sqrt(gap**2 / 2))
    by_name = dict(zip(source.names, np.asarray(found.per_node).tolist(), strict=True))
    assert by_name == pytest.approx({"a": 0, "b": gap / 2, "c": 0, "d": 0})


def test_coordinates_that_are_not_finite_name_node_and_patch():
    broken = SECOND.copy()
    broken[2, 0] = np.nan
    with pytest.raises(InputError, match="node b has coordinates in patch 1 that are not finite"):
        open_patches([PATCHES[0], (PATCHES[1][0], broken)])
