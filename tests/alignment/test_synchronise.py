import math
import warnings

import numpy as np
import pytest
import torch

from l2g2g.alignment import polar, rotations
from l2g2g.alignment.synchronise import AlignmentWarning, Frame, apply_frame, assemble, synchronise
from l2g2g.errors import InputError, NumericalError
from l2g2g.patches.overlap_index import index_overlaps

FLOAT64 = {"dtype": torch.float64}


def two_patches(angle: float, shift: tuple[float, float], factor: float = 1.0):
    """A triangle, and the same triangle turned by `angle`, scaled and shifted."""
    first = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], **FLOAT64)
    turn = torch.tensor([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]], **FLOAT64)
    second = factor * first @ turn + torch.tensor(shift, **FLOAT64)
    overlaps = index_overlaps([np.arange(3), np.arange(3)])
    return torch.cat([first, second]), torch.tensor([0, 3, 6]), overlaps, turn


def test_two_patches_by_hand():
    coordinates, offsets, overlaps, _ = two_patches(math.pi / 2, (3.0, -1.0))
    frame = synchronise(coordinates, offsets, overlaps)
    # Patch 0 keeps its axes; patch 1 is turned back: R_01 turns the first triangle into the second, S_0 = R_01 S_1.
    torch.testing.assert_close(frame.rotations[0], torch.eye(2, **FLOAT64))
    torch.testing.assert_close(frame.rotations[1], torch.tensor([[0.0, -1.0], [1.0, 0.0]], **FLOAT64))
    # (3, -1) turned back is (-1, -3); patches of equal size take half of the way each.
    torch.testing.assert_close(frame.translations, torch.tensor([[-0.5, -1.5], [0.5, 1.5]], **FLOAT64))
    aligned = apply_frame(coordinates, offsets, frame)
    torch.testing.assert_close(aligned[:3], aligned[3:])


def test_a_reflection_is_found():
    first = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], **FLOAT64)
    mirrored = first * torch.tensor([1.0, -1.0], **FLOAT64)
    frame = synchronise(
        torch.cat([first, mirrored]), torch.tensor([0, 3, 6]), index_overlaps([np.arange(3), np.arange(3)])
    )
    torch.testing.assert_close(frame.rotations[1], torch.diag(torch.tensor([1.0, -1.0], **FLOAT64)))


def test_scales_by_hand():
    coordinates, offsets, overlaps, _ = two_patches(0.3, (0.0, 5.0), factor=4.0)
    frame = synchronise(coordinates, offsets, overlaps, scale=True)
    torch.testing.assert_close(frame.scales, torch.tensor([2.0, 0.5], **FLOAT64))
    aligned = apply_frame(coordinates, offsets, frame)
    torch.testing.assert_close(aligned[:3], aligned[3:])


def test_each_transform_is_optional():
    coordinates, offsets, overlaps, _ = two_patches(1.0, (3.0, 1.0))
    identity = Frame.identity(2, 2, dtype=torch.float64)
    nothing = synchronise(coordinates, offsets, overlaps, rotate=False, translate=False)
    for part in ("rotations", "translations", "scales"):
        assert torch.equal(getattr(nothing, part), getattr(identity, part))
    assert torch.equal(synchronise(coordinates, offsets, overlaps, rotate=False).rotations, identity.rotations)
    assert torch.equal(synchronise(coordinates, offsets, overlaps, translate=False).translations, identity.translations)


@pytest.mark.parametrize("kind", ["ring", "tree", "grid", "random"])
@pytest.mark.parametrize(
    ("num_patches", "dim"),
    [(2, 2), (10, 16), (100, 2), *(pytest.param(*each, marks=pytest.mark.slow) for each in ((40, 64), (1000, 2)))],
)
@pytest.mark.parametrize(("dtype", "limit"), [(np.float64, 1e-10), (np.float32, 1e-4)])
def test_exact_recovery(known, kind, num_patches, dim, dtype, limit):
    data = known(kind, num_patches, dim, dtype=dtype)
    frame = synchronise(data.stacked, data.offsets, data.overlaps)
    assert data.frame_error(frame) < limit
    eye = torch.eye(dim, dtype=frame.rotations.dtype)
    assert float((frame.rotations.mT @ frame.rotations - eye).abs().max()) < limit
    if num_patches > 10:  # patches differ by reflections: the frame must as well
        assert len(torch.linalg.det(frame.rotations.double()).round().unique()) == 2


@pytest.mark.parametrize("start", ["tree", "spectral", "groups"])
@pytest.mark.parametrize("route", ["svd", "newton-schulz"])
def test_all_starts_and_routes_agree_under_noise(known, start, route):
    data = known("random", 30, 4, noise=0.05)
    reference = synchronise(data.stacked, data.offsets, data.overlaps, tolerance=1e-10, max_steps=200)
    options = {"start": start, "route": route, "tolerance": 1e-10, "max_steps": 200}
    other = synchronise(data.stacked, data.offsets, data.overlaps, **options)
    torch.testing.assert_close(other.rotations, reference.rotations, atol=1e-6, rtol=0)
    torch.testing.assert_close(other.translations, reference.translations, atol=1e-6, rtol=0)


def test_noise_is_spread_over_cycles_and_never_worse_than_the_tree(known):
    ours, tree = 0.0, 0.0
    for seed in range(5):
        data = known("grid", 49, 3, noise=0.1, seed=seed)
        ours += data.frame_error(synchronise(data.stacked, data.offsets, data.overlaps))
        tree += data.frame_error(synchronise(data.stacked, data.offsets, data.overlaps, start="tree", max_steps=0))
    assert ours < 0.9 * tree


def test_the_frame_follows_the_previous_one(known):
    data = known("ring", 8, 3, noise=0.02)
    first = synchronise(data.stacked, data.offsets, data.overlaps)
    turn = torch.linalg.qr(torch.randn(3, 3, generator=torch.Generator().manual_seed(0), **FLOAT64))[0]
    previous = Frame(first.rotations @ turn, first.translations @ turn, first.scales)
    again = synchronise(data.stacked, data.offsets, data.overlaps, previous=previous)
    torch.testing.assert_close(again.rotations, previous.rotations, atol=1e-6, rtol=0)
    torch.testing.assert_close(again.translations, previous.translations, atol=1e-6, rtol=0)


def test_gauge_largest_patch_keeps_its_axes_and_translations_are_centred(known):
    data = known("ring", 5, 3, noise=0.1)
    frame = synchronise(data.stacked, data.offsets, data.overlaps, patch_sizes=torch.tensor([1, 2, 9, 2, 1]))
    torch.testing.assert_close(frame.rotations[2], torch.eye(3, **FLOAT64))
    mean = (torch.tensor([1.0, 2, 9, 2, 1], **FLOAT64)[:, None] * frame.translations).sum(0)
    torch.testing.assert_close(mean, torch.zeros(3, **FLOAT64), atol=1e-12, rtol=0)


def test_order_of_patches_and_nodes_does_not_matter_up_to_the_gauge(known):
    data = known("random", 12, 3, noise=0.1)
    generator = np.random.default_rng(5)
    order = generator.permutation(12)
    shuffles = [generator.permutation(len(part)) for part in data.nodes]
    nodes = [data.nodes[i][shuffles[i]] for i in order]
    patches = torch.from_numpy(np.concatenate([data.patches[i][shuffles[i]] for i in order]))
    offsets = torch.from_numpy(np.cumsum([0] + [len(part) for part in nodes]))
    options = {"tolerance": 1e-11, "max_steps": 300}
    one = synchronise(data.stacked, data.offsets, data.overlaps, **options)
    two = synchronise(patches, offsets, index_overlaps(nodes), **options)
    back = np.argsort(order)
    turn = two.rotations[back[0]].T @ one.rotations[0]
    torch.testing.assert_close(two.rotations[back] @ turn, one.rotations, atol=1e-8, rtol=0)
    torch.testing.assert_close(two.translations[back] @ turn, one.translations, atol=1e-8, rtol=0)


def test_disconnected_parts_are_solved_apart(known):
    edges = [(0, 1), (1, 2), (3, 4)]
    data = known(edges, 6, 3)
    frame = synchronise(data.stacked, data.offsets, data.overlaps)
    aligned = apply_frame(data.stacked, data.offsets, frame)
    overlaps = data.overlaps
    gap = (aligned[overlaps.first_rows] - aligned[overlaps.second_rows]).abs().max()
    assert float(gap) < 1e-12
    torch.testing.assert_close(frame.rotations[5], torch.eye(3, **FLOAT64))
    assert float(frame.translations[5].abs().max()) == 0.0


def test_one_patch_and_no_overlap_give_the_identity():
    coordinates = torch.randn(4, 2)
    for offsets, nodes in (([0, 4], [np.arange(4)]), ([0, 2, 4], [np.arange(2), np.arange(2, 4)])):
        frame = synchronise(coordinates, torch.tensor(offsets), index_overlaps(nodes))
        assert torch.equal(apply_frame(coordinates, torch.tensor(offsets), frame), coordinates)


def test_points_on_a_line_give_a_finite_frame_and_one_warning():
    line = torch.linspace(0, 1, 6, **FLOAT64)[:, None] * torch.tensor([[1.0, 2.0, 3.0]], **FLOAT64)
    coordinates, offsets = torch.cat([line, line + 1]), torch.tensor([0, 6, 12])
    overlaps = index_overlaps([np.arange(6), np.arange(6)])
    with pytest.warns(AlignmentWarning, match="singular values 9.8"):
        frame = synchronise(coordinates, offsets, overlaps)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the same overlaps are reported once
        frame = synchronise(coordinates, offsets, overlaps)
    aligned = apply_frame(coordinates, offsets, frame)
    torch.testing.assert_close(aligned[:6], aligned[6:])
    # The open directions follow the frame before: the identity.
    torch.testing.assert_close(frame.rotations, torch.eye(3, **FLOAT64).expand(2, 3, 3), atol=1e-6, rtol=0)


def test_a_tiny_overlap_does_not_disturb_pairs_that_determine_the_rotation(known):
    data = known([(0, 1), (1, 2)], 3, 5)
    nodes = [np.append(data.nodes[0], 1000), data.nodes[1], np.append(data.nodes[2], 1000)]
    point = np.random.default_rng(0).normal(size=5)
    # Node 1000 is shared by patches 0 and 2 only: one node says nothing about a rotation.
    moved = [
        np.vstack([data.patches[i], (point - _shift(data, i)) @ data.rotations[i].numpy().T])
        if i != 1
        else data.patches[1]
        for i in range(3)
    ]
    stacked = torch.from_numpy(np.concatenate(moved))
    offsets = torch.from_numpy(np.cumsum([0] + [len(part) for part in nodes]))
    overlaps = index_overlaps(nodes)
    aligned = apply_frame(stacked, offsets, synchronise(stacked, offsets, overlaps))
    assert float((aligned[overlaps.first_rows] - aligned[overlaps.second_rows]).abs().max()) < 1e-10


def _shift(data, patch):
    """The shift of a patch, from its first node."""
    rotation = data.rotations[patch].numpy()
    return data.truth[data.nodes[patch][0]].numpy() - data.patches[patch][0] @ rotation


def test_robust_ignores_a_wrong_pair_and_wrong_nodes(known):
    generator = np.random.default_rng(0)
    edges = [(i, j) for i in range(9) for j in range(i) if (i + j) % 2 or i - j < 3]
    data = known(edges, 9, 3, shared=12, noise=0.01)
    clean = synchronise(data.stacked, data.offsets, data.overlaps)
    overlaps, spoilt = data.overlaps, data.stacked
    for pair in generator.choice(overlaps.num_pairs, 3, replace=False):
        rows = overlaps.first_rows[overlaps.pointers[pair] : overlaps.pointers[pair + 1]]
        turn = np.linalg.qr(generator.normal(size=(3, 3)))[0]
        spoilt[rows] = spoilt[rows] @ torch.from_numpy(turn) + 3
    spoilt[overlaps.second_rows[::17]] += 5
    plain = synchronise(spoilt, data.offsets, overlaps)
    robust = synchronise(spoilt, data.offsets, overlaps, robust=True)
    baseline = data.frame_error(clean)
    assert data.frame_error(robust) < 2 * baseline
    assert data.frame_error(plain) > 5 * baseline


def test_uniform_weights_count_pairs_not_nodes():
    # Patches in one dimension: a triangle of shifts that do not add up, one pair with three nodes, two with one.
    nodes = [np.array([0, 1, 2, 3]), np.array([0, 1, 2, 4]), np.array([3, 4])]
    coordinates = torch.tensor([0.0, 0, 0, 0, 0, 0, 0, 0, 3, 0], **FLOAT64)[:, None]
    offsets = torch.tensor([0, 4, 8, 10])
    options = {"rotate": False, "patch_sizes": torch.ones(3)}
    uniform = synchronise(coordinates, offsets, index_overlaps(nodes), weights="uniform", **options).translations
    # The gap of 3 is spread evenly: one for each pair.
    differences = [float(uniform[0] - uniform[1]), float(uniform[2] - uniform[0])]
    np.testing.assert_allclose(differences, [1.0, -2.0], atol=1e-12)
    overlap = synchronise(coordinates, offsets, index_overlaps(nodes), **options).translations
    assert abs(float(overlap[0] - overlap[1])) < 0.5


def test_bad_arguments_are_refused():
    coordinates, offsets, overlaps, _ = two_patches(0.0, (0.0, 0.0))
    with pytest.raises(InputError, match="of 2 patches"):
        synchronise(coordinates, torch.tensor([0, 6]), overlaps)
    with pytest.raises(InputError, match="weights"):
        synchronise(coordinates, offsets, overlaps, weights="many")
    with pytest.raises(InputError, match="route"):
        polar.polar_factor(coordinates[None], route="magic")
    with pytest.raises(NumericalError, match="not finite"):
        synchronise(coordinates * float("nan"), offsets, overlaps)


def _fail(*_args, **_options):
    raise torch.linalg.LinAlgError("forced")


def test_a_failing_svd_falls_back_to_float64_then_to_the_gram_matrix(monkeypatch, known):
    data = known("ring", 5, 3, noise=0.1)
    expected = synchronise(data.stacked, data.offsets, data.overlaps)
    real, calls = torch.linalg.svd, []

    def fail_once(matrices):
        calls.append(matrices.dtype)
        return _fail() if len(calls) == 1 else real(matrices)

    monkeypatch.setattr(torch.linalg, "svd", fail_once)
    again = synchronise(data.stacked, data.offsets, data.overlaps)
    torch.testing.assert_close(again.rotations, expected.rotations)
    monkeypatch.setattr(torch.linalg, "svd", _fail)
    again = synchronise(data.stacked, data.offsets, data.overlaps)
    torch.testing.assert_close(again.rotations, expected.rotations, atol=1e-6, rtol=0)
    monkeypatch.setattr(torch.linalg, "qr", _fail)
    with pytest.raises(NumericalError, match="newton-schulz"):
        synchronise(data.stacked, data.offsets, data.overlaps)


def test_a_failing_eigensolver_falls_back_to_svd_and_then_gives_up(monkeypatch, known):
    data = known("ring", 5, 3, noise=0.1)
    expected = synchronise(data.stacked, data.offsets, data.overlaps, start="spectral")
    monkeypatch.setattr(torch.linalg, "eigh", _fail)
    again = synchronise(data.stacked, data.offsets, data.overlaps, start="spectral")
    torch.testing.assert_close(again.rotations, expected.rotations, atol=1e-5, rtol=0)
    monkeypatch.setattr(torch.linalg, "svd", _fail)
    with pytest.raises(NumericalError, match="start='tree'"):
        rotations.spectral_rotations(torch.tensor([[0, 1]]), torch.eye(2)[None], torch.ones(1), 2)


def test_assemble_mean_median_and_missing_nodes():
    rows = torch.tensor([[0.0], [1.0], [5.0], [7.0]])
    nodes = torch.tensor([0, 0, 0, 1])
    assert assemble(rows, nodes, 2).tolist() == [[2.0], [7.0]]
    assert assemble(rows, nodes, 2, "median").tolist() == [[1.0], [7.0]]
    assert assemble(rows[:2], nodes[:2], 1, "median").tolist() == [[0.5]]
    with pytest.raises(InputError, match="node 2 is in no patch"):
        assemble(rows, nodes, 3)
    with pytest.raises(InputError, match="assembly"):
        assemble(rows, nodes, 2, "mode")


def test_apply_frame_with_patches_of_different_sizes():
    frame = Frame.identity(2, 1)
    frame = Frame(-frame.rotations, torch.tensor([[1.0], [2.0]]), torch.tensor([1.0, 3.0]))
    aligned = apply_frame(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([0, 1, 3]), frame)
    assert aligned[:, 0].tolist() == [0.0, -4.0, -7.0]


@pytest.mark.parametrize("seed", range(40))
def test_rounding_does_not_choose_the_frame_of_a_ring(seed):
    """Patches that have nothing in common: no frame fits, and a reflection may go to any pair of the ring."""
    generator = np.random.default_rng(seed)
    shared = np.arange(18).reshape(3, 6)
    nodes = [np.concatenate([shared[one], shared[(one + 1) % 3]]) for one in range(3)]
    offsets, overlaps = torch.tensor([0, 12, 24, 36]), index_overlaps(nodes)
    coordinates = torch.from_numpy(generator.standard_normal((36, 4)))
    moved = coordinates + 1e-10 * torch.from_numpy(generator.standard_normal((36, 4)))
    last = Frame.identity(3, 4, dtype=torch.float64)
    one, other = (
        synchronise(given, offsets, overlaps, translate=False, previous=last) for given in (coordinates, moved)
    )
    assert (one.rotations - other.rotations).abs().max() < 1e-4


@pytest.mark.parametrize(("dim", "missing"), [(8, 1), (8, 2), (4, 1)])
def test_one_direction_of_many_in_which_vectors_do_not_vary_is_no_reason_to_warn(dim, missing):
    """Vectors with a term of the degree vary in one direction less than they have coordinates."""
    generator = torch.Generator().manual_seed(5)
    plane = torch.randn(dim - missing, dim, generator=generator, **FLOAT64)
    rows = torch.randn(50, dim - missing, generator=generator, **FLOAT64) @ plane + 0.3
    turn = torch.linalg.qr(torch.randn(dim, dim, generator=generator, **FLOAT64)).Q
    stacked, offsets = torch.cat([rows[:40], rows[10:] @ turn]), torch.tensor([0, 40, 80])
    overlaps = index_overlaps([np.arange(40), np.arange(10, 50)])
    if (dim, missing) == (8, 1):
        frame = synchronise(stacked, offsets, overlaps)
    else:
        with pytest.warns(AlignmentWarning, match="too few dimensions"):
            frame = synchronise(stacked, offsets, overlaps)
    aligned = apply_frame(stacked, offsets, frame)
    torch.testing.assert_close(aligned[10:40], aligned[40:70], atol=1e-5, rtol=0)
    torch.testing.assert_close(
        torch.pdist(torch.cat([aligned[:40], aligned[70:]])), torch.pdist(rows), atol=1e-5, rtol=0
    )
