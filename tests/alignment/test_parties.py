import numpy as np
import pytest
import torch

from l2g2g.alignment.align import align
from l2g2g.alignment.parties import OverlapExport, apply_transform, export_overlaps, read_ids, solve_transforms
from l2g2g.errors import InputError, NumericalError


def shared_ids(data):
    nodes, counts = np.unique(np.concatenate(data.nodes), return_counts=True)
    return nodes[counts > 1]


def test_nothing_but_overlap_coordinates_leaves_a_party_and_the_result_is_the_joint_one(known, tmp_path):
    data = known("random", 5, 3, noise=0.1, own=7)
    public = shared_ids(data)
    for party, (nodes, rows) in enumerate(data.pairs):
        export_overlaps(nodes, rows, public).save(tmp_path / f"party-{party}.npz")
    # All that left: the files. They hold shared nodes and one count, and no row of a private node.
    for party, (nodes, rows) in enumerate(data.pairs):
        with np.load(tmp_path / f"party-{party}.npz", allow_pickle=False) as archive:
            assert sorted(archive.files) == ["coordinates", "nodes", "num_nodes"]
            assert set(archive["nodes"].tolist()) == set(nodes.tolist()) & set(public.tolist())
            private = rows[~np.isin(nodes, public)]
            assert len(private) == 7
            assert not np.isin(private, archive["coordinates"]).any()
            assert int(archive["num_nodes"]) == len(nodes)
            size = archive["coordinates"].nbytes + archive["nodes"].nbytes
        assert size == np.isin(nodes, public).sum() * 4 * 8
    transforms = solve_transforms([tmp_path / f"party-{party}.npz" for party in range(5)])
    joint = align(data.pairs)
    for party, transform in enumerate(transforms):
        transform.save(tmp_path / f"back-{party}.npz")
        np.testing.assert_allclose(transform.rotation, joint.rotations[party], atol=1e-12)
        at_home = apply_transform(data.patches[party], tmp_path / f"back-{party}.npz")
        expected = data.patches[party] @ joint.rotations[party] + joint.translations[party]
        np.testing.assert_allclose(at_home, expected, atol=1e-12)


def test_parties_with_an_anchor_scales_and_tensors(known):
    data = known("ring", 4, 2, noise=0.05)
    exports = [export_overlaps(nodes, torch.from_numpy(rows), shared_ids(data)) for nodes, rows in data.pairs]
    transforms = solve_transforms(exports, anchor=1, scale=True)
    joint = align(data.pairs, anchor=1, scale=True)
    for party in range(4):
        moved = apply_transform(torch.from_numpy(data.patches[party]), transforms[party])
        expected = joint.scales[party] * data.patches[party] @ joint.rotations[party] + joint.translations[party]
        np.testing.assert_allclose(moved.numpy(), expected, atol=1e-12)
    assert (apply_transform(data.patches[1], transforms[1]) == data.patches[1]).all()


def test_bad_files_and_shapes_are_refused(tmp_path):
    (tmp_path / "x.npz").write_bytes(b"no archive")
    with pytest.raises(InputError, match=r"x\.npz: is neither"):
        OverlapExport.load(tmp_path / "x.npz")
    with pytest.raises(InputError, match="2 nodes do not go with"):
        export_overlaps([1, 2], np.zeros((3, 2)), [1])


@pytest.mark.parametrize(
    "change",
    [
        {"nodes": np.zeros((2, 2))},
        {"nodes": np.array([1.5, 2.5])},
        {"num_nodes": np.array([3, 4])},
        {"num_nodes": np.int64(1)},
        {"coordinates": np.array([[1.0], [np.nan]])},
        {"coordinates": np.array([["a"], ["b"]])},
        {"coordinates": np.zeros((3, 1))},
    ],
)
def test_exports_that_do_not_fit_together_are_refused(tmp_path, change):
    whole = {"nodes": np.array([1, 2]), "coordinates": np.zeros((2, 1)), "num_nodes": np.int64(5)}
    np.savez(tmp_path / "good.npz", **whole)
    assert OverlapExport.load(tmp_path / "good.npz").num_nodes == 5
    np.savez(tmp_path / "bad.npz", **{**whole, **change})
    with pytest.raises(InputError, match=r"bad\.npz"):
        OverlapExport.load(tmp_path / "bad.npz")


def test_transforms_that_do_not_fit_are_refused(tmp_path):
    points = np.ones((3, 2), np.float32)
    whole = {"rotation": np.eye(2), "translation": np.ones(2), "scale": np.float64(1)}
    np.savez(tmp_path / "t.npz", **whole)
    assert (apply_transform(points, tmp_path / "t.npz") == 2).all()
    for change in ({"rotation": np.eye(3)}, {"translation": np.full(2, np.nan)}, {"scale": np.array(1j)}):
        np.savez(tmp_path / "t.npz", **{**whole, **change})
        with pytest.raises(InputError, match=r"t\.npz"):
            apply_transform(points, tmp_path / "t.npz")
    np.savez(tmp_path / "t.npz", **{**whole, "scale": np.float64(1e300)})
    for values in (points, torch.from_numpy(points)):
        with pytest.raises(NumericalError, match=r"beyond what (torch\.)?float32 holds"):
            apply_transform(values, tmp_path / "t.npz")
    np.savez(tmp_path / "t.npz", rotation=np.eye(3), translation=np.ones(3), scale=np.float64(1))
    with pytest.raises(InputError, match="3 dimensions"):
        apply_transform(points, tmp_path / "t.npz")


def test_shared_ids_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "ids.txt").write_bytes(b"a\n\nb\n")
    assert read_ids(tmp_path / "ids.txt").tolist() == ["a", "b"]
    (tmp_path / "ids.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="damaged"):
        read_ids(tmp_path / "ids.txt")
