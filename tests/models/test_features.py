"""Features: scaled, centred without becoming dense, dropped alike in one block and patch by patch."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from l2g2g.models.encoder import Encoder, prepare_input
from l2g2g.models.features import FeatureTable, _drop_on_device, feature_centre, scale_features
from l2g2g.models.randomness import Purpose, torch_generator
from l2g2g.models.sparse import SparseMatrix, ThinnedMatrix, multiply


@pytest.fixture(scope="module")
def bags():
    """120 sparse rows of 40 columns that share a large common part, as bags of words do."""
    generator = np.random.default_rng(0)
    present = generator.random((120, 40)) < np.linspace(0.02, 0.9, 40)
    features = sp.csr_array((present * generator.uniform(0.5, 3, present.shape)).astype(np.float32))
    features.sort_indices()
    return features


def to_dense(matrix):
    """A feature matrix of any kind as numpy."""
    if isinstance(matrix, SparseMatrix):
        if matrix.transposed is not None:
            assert torch.equal(matrix.matrix.to_dense().t(), matrix.transposed.to_dense())
        return matrix.matrix.to_dense().numpy()
    if isinstance(matrix, ThinnedMatrix):
        everything = torch.eye(matrix.whole.shape[1]).requires_grad_()
        dense = multiply(matrix, everything)
        outer = torch.randn(dense.shape, generator=torch.Generator().manual_seed(0))
        (transposed,) = torch.autograd.grad(dense, everything, outer)
        assert torch.allclose(transposed, dense.detach().t() @ outer, atol=1e-4)
        return dense.detach().numpy()
    return matrix.numpy() if isinstance(matrix, torch.Tensor) else matrix


@pytest.mark.parametrize("make", [np.array, sp.csr_array], ids=["dense", "sparse"])
def test_scalings(make):
    given = np.array([[3, 4, 0], [0, 0, 0], [-2, 0, 0]], np.float32)
    expected = {
        "raw": given,
        "unit": np.array([[0.6, 0.8, 0], [0, 0, 0], [-1, 0, 0]], np.float32),
        "binary": np.array([[1, 1, 0], [0, 0, 0], [0, 0, 0]], np.float32) if make is sp.csr_array else given,
    }
    for scaling, wanted in expected.items():
        found = scale_features(make(given), scaling)
        assert sp.issparse(found) == (make is sp.csr_array)
        assert found.dtype == np.float32
        assert (found.toarray() if sp.issparse(found) else found) == pytest.approx(wanted)


def test_huge_features_do_not_overflow_when_scaled():
    for make in (np.array, sp.csr_array):
        scaled = scale_features(make(np.array([[3e30, 4e30]], np.float32)), "unit")
        assert (scaled.toarray() if sp.issparse(scaled) else scaled) == pytest.approx(np.array([[0.6, 0.8]]))


def test_centred_rows_are_scaled_like_unit_rows(bags):
    assert (scale_features(bags, "centred").toarray() == scale_features(bags, "unit").toarray()).all()


@pytest.mark.parametrize("make", [np.array, sp.csr_array], ids=["dense", "sparse"])
def test_the_centre_by_hand(make):
    mean, scale = feature_centre(make(np.array([[1, 0], [3, 0], [2, 6]], np.float32)))
    assert mean == pytest.approx([2, 2])
    # Squared distances to (2, 2): 5, 5 and 16.
    assert scale == pytest.approx(1 / np.sqrt(26 / 3))
    assert mean.dtype == np.float32


def test_after_centring_the_mean_row_is_zero_and_the_mean_square_length_one(bags):
    for features in (bags, bags.toarray()):
        mean, scale = feature_centre(features)
        rows = (bags.toarray().astype(np.float64) - mean) * scale
        assert np.abs(rows.mean(0)).max() < 1e-5
        assert np.square(rows).sum(1).mean() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("make", [np.array, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("row", [[0.0, 0.0, 0.0], [0.1, 0.7, 0.3]], ids=["zeros", "alike"])
def test_rows_that_are_all_alike_are_not_blown_up(make, row):
    _, scale = feature_centre(make(np.tile(np.array(row, np.float32), (1000, 1))))
    assert scale == 1.0


@pytest.mark.parametrize("kind", ["gcn", "linear"])
@pytest.mark.parametrize("skip", [False, True], ids=["no skip", "skip"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_centring_inside_the_encoder_is_centring_the_features(planted, bags, kind, skip, sparse):
    """Values and gradients; Â 1 is not 1, so the mean must be taken off before the propagation."""
    mean, scale = feature_centre(bags)
    options = {"kind": kind, "skip": skip, "hidden": 5}

    def make_encoder(**more):
        return Encoder(40, 3, generator=torch_generator(0, Purpose.INITIAL_WEIGHTS), **options, **more)

    implicit = make_encoder(feature_mean=torch.from_numpy(mean), feature_scale=scale)
    explicit = make_encoder()
    held = bags if sparse else bags.toarray()
    centred = ((bags.toarray() - mean) * scale).astype(np.float32)
    found = implicit(prepare_input(planted.adjacency, held, propagate_once=False))
    wanted = explicit(prepare_input(planted.adjacency, centred, propagate_once=False))
    assert torch.allclose(found, wanted, atol=1e-5)
    gradients = [
        torch.autograd.grad(result.square().sum(), list(encoder.parameters()))
        for result, encoder in ((found, implicit), (wanted, explicit))
    ]
    for first, second in zip(*gradients, strict=True):
        assert torch.allclose(first, second, rtol=1e-4, atol=1e-4)
    raw = explicit(prepare_input(planted.adjacency, held, propagate_once=False))
    assert not torch.allclose(raw, wanted, atol=1e-2)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_dropout_together_is_dropout_patch_by_patch(bags, sparse):
    features = bags if sparse else bags.toarray()
    offsets, patches = np.array([0, 50, 90, 120]), np.array([2, 3, 7])
    together = FeatureTable.build(features, offsets, patches, "cpu")
    dropped = to_dense(together.dropped(0.5, seed=1, epoch=4))
    for index, patch in enumerate(patches):
        low, high = offsets[index : index + 2]
        table = FeatureTable.build(features[low:high], np.array([0, high - low]), np.array([patch]), "cpu")
        assert (to_dense(table.dropped(0.5, seed=1, epoch=4)) == dropped[low:high]).all()
    others = [to_dense(together.dropped(0.5, seed=s, epoch=e)) for s, e in ((1, 4), (1, 5), (2, 4))]
    assert (others[0] == dropped).all()
    assert (others[1] != dropped).any()
    assert (others[2] != dropped).any()


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_every_patch_draws_its_own_dropout(bags, sparse):
    features = sp.csr_array(sp.vstack([bags, bags]))
    features = features if sparse else features.toarray()
    table = FeatureTable.build(features, np.array([0, 120, 240]), np.arange(2), "cpu")
    first, second = np.split(to_dense(table.dropped(0.5, seed=0, epoch=0)), 2)
    present = bags.toarray() != 0
    assert ((first != 0) == (second != 0))[present].mean() == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_dropout_keeps_the_mean_and_only_drops(bags, sparse):
    features = bags if sparse else bags.toarray()
    table = FeatureTable.build(features, np.array([0, 120]), np.array([0]), "cpu")
    draws = np.stack([to_dense(table.dropped(0.4, seed=0, epoch=epoch)) for epoch in range(300)])
    full = bags.toarray()
    assert np.logical_or(draws == 0, np.isclose(draws, full / 0.6, rtol=1e-5)).all()
    assert (draws[:, full != 0] != 0).mean() == pytest.approx(0.6, abs=0.005)
    assert (np.abs(draws.mean(0) - full) <= 5.5 * full * np.sqrt(0.4 / 0.6 / 300)).all()
    assert (to_dense(table.matrix) == full).all()
    assert table.dropped(0.0, seed=0, epoch=0) is table.matrix


def test_the_gradient_through_dropped_sparse_features_is_that_of_dense_ones(bags):
    dropped = FeatureTable.build(bags, np.array([0, 70, 120]), np.arange(2), "cpu").dropped(0.5, seed=0, epoch=0)
    outer = torch.randn(120, 3, generator=torch.Generator().manual_seed(0))
    weight = torch.randn(40, 3, generator=torch.Generator().manual_seed(1)).requires_grad_()
    (multiply(dropped, weight) * outer).sum().backward()
    assert torch.allclose(weight.grad, torch.from_numpy(to_dense(dropped)).t() @ outer, atol=1e-4)


def test_other_devices_drop_the_same_entries(bags):
    table = FeatureTable.build(bags, np.array([0, 120]), np.array([0]), "cpu")
    here = table.dropped(0.5, seed=0, epoch=0)
    there = _drop_on_device(table.matrix.matrix, torch.from_numpy(here.kept), here.factor)
    assert there.transposed is not None
    assert to_dense(there) == pytest.approx(to_dense(here))
