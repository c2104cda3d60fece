import numpy as np
import pytest
import torch

from l2g2g.alignment.align import align
from l2g2g.alignment.parties import OverlapExport, apply_transform, export_overlaps, solve_transforms
from l2g2g.errors import InputError


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
