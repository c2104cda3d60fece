import numpy as np
import pytest
import torch

from l2g2g.alignment.align import align, align_sequence
from l2g2g.errors import InputError, NumericalError


def test_noiseless_patches_give_the_truth(known):
    data = known("random", 12, 3)
    aligned = align(data.pairs)
    assert data.error(torch.from_numpy(aligned.embedding)) < 1e-10
    assert aligned.nodes.tolist() == list(range(len(data.truth)))
    assert aligned.residuals.after < 1e-10 < aligned.residuals.before
    assert float(np.max(aligned.residuals.per_node)) < 1e-10


def test_the_transforms_reproduce_the_embedding_and_residuals_are_distances(known):
    data = known("ring", 4, 2, noise=0.1)
    aligned = align(data.pairs, scale=True)
    moved = [
        aligned.scales[i] * patch @ aligned.rotations[i] + aligned.translations[i]
        for i, patch in enumerate(data.patches)
    ]
    copies = {}
    for nodes, rows in zip(data.nodes, moved, strict=True):
        for node, row in zip(nodes.tolist(), rows, strict=True):
            copies.setdefault(node, []).append(row)
    mean = np.stack([np.mean(copies[node], axis=0) for node in aligned.nodes.tolist()])
    np.testing.assert_allclose(aligned.embedding, mean, atol=1e-12)
    spread = [np.sqrt(np.mean(np.sum((np.array(copies[n]) - mean[n]) ** 2, 1))) for n in aligned.nodes.tolist()]
    np.testing.assert_allclose(aligned.residuals.per_node, spread, atol=1e-12)
    i, j = aligned.residuals.pairs[0]
    shared = np.intersect1d(data.nodes[i], data.nodes[j])
    gaps = [moved[i][data.nodes[i] == n][0] - moved[j][data.nodes[j] == n][0] for n in shared]
    np.testing.assert_allclose(aligned.residuals.per_pair[0], np.sqrt(np.mean(np.sum(np.square(gaps), 1))))
    own = np.isin(data.nodes[0], [n for n, rows in copies.items() if len(rows) > 1])
    distance = np.sum((moved[0][own] - mean[data.nodes[0][own]]) ** 2, 1)
    np.testing.assert_allclose(aligned.residuals.per_patch[0], np.sqrt(distance.mean()))


@pytest.mark.parametrize("kind", ["numpy64", "numpy32", "torch", "torch32"])
def test_the_result_is_of_the_kind_of_the_input(known, kind):
    data = known("ring", 3, 2, dtype=np.float32 if "32" in kind else np.float64)
    patches = data.pairs
    if "torch" in kind:
        patches = [(torch.from_numpy(n), torch.from_numpy(z)) for n, z in patches]
    aligned = align(patches)
    for part in (aligned.embedding, aligned.rotations, aligned.translations, aligned.scales):
        assert isinstance(part, torch.Tensor if "torch" in kind else np.ndarray)
        assert str(part.dtype).endswith("32" if "32" in kind else "64")
    assert data.error(torch.as_tensor(aligned.embedding)) < 1e-5


def test_string_ids_and_sparse_integer_ids_give_the_same(known):
    data = known("ring", 4, 2, noise=0.1)
    plain = align(data.pairs)
    for rename in (lambda n: [f"node {int(v):04d}" for v in n], lambda n: n * 10**12 - 5):
        other = align([(rename(nodes), patch) for nodes, patch in data.pairs])
        np.testing.assert_allclose(other.embedding, plain.embedding, atol=1e-12)
        assert list(other.nodes) == list(rename(plain.nodes))


def test_the_order_of_patches_and_nodes_does_not_matter_with_an_anchor(known):
    data = known("random", 8, 3, noise=0.05)
    generator = np.random.default_rng(0)
    order = generator.permutation(8)
    shuffled = []
    for i in order:
        rows = generator.permutation(len(data.nodes[i]))
        shuffled.append((data.nodes[i][rows], data.patches[i][rows]))
    one = align(data.pairs, anchor=3)
    two = align(shuffled, anchor=int(np.flatnonzero(order == 3)[0]))
    np.testing.assert_allclose(two.embedding, one.embedding, atol=1e-5)
    assert (one.nodes == two.nodes).all()


def test_an_anchor_patch_and_a_finished_embedding_stay_to_the_bit(known):
    data = known("random", 6, 3, noise=0.1, dtype=np.float32)
    aligned = align(data.pairs, anchor=2)
    assert (aligned.embedding[data.nodes[2]] == data.patches[2]).all()
    np.testing.assert_array_equal(aligned.rotations[2], np.eye(3))
    finished = (data.nodes[0], data.patches[0])
    later = align(data.pairs[1:], anchor=finished)
    assert (later.embedding[np.searchsorted(later.nodes, data.nodes[0])] == data.patches[0]).all()
    assert later.rotations.shape == (5, 3, 3)
    clean = known("random", 6, 3)
    exact = align(clean.pairs[1:], anchor=(clean.nodes[0], clean.patches[0]), scale=True)
    expected = (clean.truth.numpy() - clean.truth[clean.nodes[0][0]].numpy()) @ clean.rotations[0].numpy().T
    np.testing.assert_allclose(exact.embedding, expected + clean.patches[0][0], atol=1e-9)


def test_snapshots_land_in_the_frame_of_the_first():
    generator = np.random.default_rng(0)
    truth = generator.normal(size=(30, 4))
    snapshots, drifted = [], truth.copy()
    for _ in range(6):
        turn = np.linalg.qr(generator.normal(size=(4, 4)))[0]
        snapshots.append((np.arange(30), drifted @ turn + generator.normal(size=4)))
        drifted = drifted + 0.01 * generator.normal(size=truth.shape)
    chain = align_sequence(snapshots)
    assert (chain.snapshots[0] == snapshots[0][1]).all()
    assert len(chain.residuals.pairs) == 5
    assert np.abs(chain.snapshots[5] - chain.snapshots[0]).max() < 0.2
    window = align_sequence(snapshots, window=3)
    assert len(window.residuals.pairs) == 5 + 4 + 3
    assert np.abs(window.snapshots[5] - window.snapshots[0]).max() < 0.2
    with pytest.raises(InputError, match="window"):
        align_sequence(snapshots, window=0)


def test_isolated_and_disconnected_patches_are_reported(known):
    data = known([(0, 1), (2, 3)], 5, 2)
    aligned = align(data.pairs)
    assert aligned.isolated == [4]
    assert aligned.components.tolist() == [0, 0, 1, 1, 2]
    np.testing.assert_array_equal(aligned.embedding[data.nodes[4]], data.patches[4])
    summary = aligned.summary()
    assert "3 parts" in summary
    assert "1 isolated patches: 4" in summary
    with pytest.raises(NumericalError, match="3 parts that share no nodes"):
        align(data.pairs, disconnected="raise")


def test_summary_names_overlaps_residuals_and_the_worst_pair(known):
    data = known("ring", 4, 2, noise=0.01, shared=6)
    data.patches[1][:6] += 1  # the nodes of pair (0, 1)
    text = align(data.pairs).summary(worst=1)
    assert "in 2 dimensions from 4 patches" in text
    assert "4 pairs of patches share 6 to 6 (median 6) nodes each" in text
    assert "before" in text
    assert text.count("  patches ") == 1


def test_small_overlaps_are_dropped_on_request_and_named(known):
    data = known("ring", 4, 2)
    nodes = [*data.nodes]
    nodes[0] = np.append(nodes[0], 999)
    nodes[2] = np.append(nodes[2], 999)
    patches = [
        (n, np.vstack([z, [[7.0, 7.0]]]) if len(n) > len(z) else z) for n, z in zip(nodes, data.patches, strict=True)
    ]
    aligned = align(patches, min_overlap=2)
    assert aligned.dropped_pairs.tolist() == [[0, 2]]
    assert "1 pairs dropped for sharing too few nodes: 0-2" in aligned.summary()
    assert aligned.residuals.after < 1e-10


def test_one_patch_comes_back_as_it_is():
    nodes, rows = np.array([7, 3]), np.array([[1.0, 2.0], [3.0, 4.0]])
    aligned = align([(nodes, rows)])
    assert aligned.nodes.tolist() == [3, 7]
    assert aligned.embedding.tolist() == [[3.0, 4.0], [1.0, 2.0]]
    assert aligned.isolated == []
    assert "every patch is as it came" in aligned.summary()


def test_median_assembly_ignores_one_bad_copy():
    truth = np.random.default_rng(0).normal(size=(8, 2))
    patches = [(np.arange(8), truth.copy()) for _ in range(5)]
    patches[4][1][0] += 10
    options = {"rotate": False, "translate": False}
    np.testing.assert_array_equal(align(patches, assembly="median", **options).embedding, truth)
    assert abs(align(patches, **options).embedding[0] - truth[0]).max() == pytest.approx(2.0)


def test_given_pairs_only(known):
    data = known("ring", 4, 2)
    aligned = align(data.pairs, pairs=[(0, 1), (1, 2), (2, 3)])
    assert aligned.residuals.pairs.tolist() == [[0, 1], [1, 2], [2, 3]]
    assert data.error(torch.from_numpy(aligned.embedding)) < 1e-10


def test_memory_mapped_in_and_out(known, tmp_path):
    data = known("random", 6, 3, noise=0.1, dtype=np.float32)
    expected = align(data.pairs)
    patches = []
    for i, (nodes, rows) in enumerate(data.pairs):
        np.save(tmp_path / f"{i}.npy", rows)
        patches.append((nodes, np.load(tmp_path / f"{i}.npy", mmap_mode="r")))
    aligned = align(patches, out=tmp_path / "out.npy")
    assert isinstance(aligned.embedding, np.memmap)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), expected.embedding)


@pytest.mark.parametrize(
    ("patches", "message"),
    [
        ([], "nothing to align"),
        ([([1, 2], [[0.0], [1.0]]), ([1], [[0.0, 1.0]])], "patch 1 has 2 dimensions, patch 0 has 1"),
        ([([1, 2], [[0.0]])], "patch 0 has 2 nodes and 1 coordinate rows"),
        ([(["x", "x"], [[0.0], [1.0]])], "node x stands more than once in patch 0"),
        ([([4, 9, 4], [[0.0], [1.0], [2.0]]), ([9], [[1.0]])], "node 4 stands more than once in patch 0"),
        ([([1], [[0.0]]), (["a"], [[0.0]])], "some patches have integer ids and some have strings"),
        ([([0.5], [[0.0]])], "must be a list of integers or strings"),
        ([([1], [0.0])], "must be a table of numbers"),
        ([([1], [[0.0]], 3)], "not a pair"),
        ([([1], [[np.nan]]), ([1], [[0.0]])], "node 1 has coordinates in patch 0 that are not finite"),
    ],
)
def test_bad_input_is_refused_by_name(patches, message):
    with pytest.raises(InputError, match=message):
        align(patches)


def test_a_bad_anchor_is_refused(known):
    data = known("ring", 3, 2)
    with pytest.raises(InputError, match="anchor 3 is not one of the 3 patches"):
        align(data.pairs, anchor=3)
