"""Features: scaled, centred without becoming dense, dropped alike in one block and patch by patch."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from l2g2g import core
from l2g2g.core.randomness import Purpose, torch_generator
from l2g2g.models.encoders import ENCODERS
from l2g2g.models.encoding import prepare_input
from l2g2g.models.features import FeatureRows, FeatureTable
from l2g2g.models.preprocessing import FeatureStatistics, scale_features
from l2g2g.models.sparse import SparseMatrix, multiply


@pytest.fixture(scope="module")
def bags():
    """120 sparse rows of 40 columns that share a large common part, as bags of words do."""
    generator = np.random.default_rng(0)
    present = generator.random((120, 40)) < np.linspace(0.02, 0.9, 40)
    features = sp.csr_array((present * generator.uniform(0.5, 3, present.shape)).astype(np.float32))
    features.sort_indices()
    return features


def to_dense(matrix):
    """A feature matrix of any kind as numpy; of a sparse one what it multiplies with."""
    if isinstance(matrix, SparseMatrix):
        dense = multiply(matrix, torch.eye(matrix.num_columns))
        assert np.allclose(dense.numpy(), matrix.to_scipy().toarray(), rtol=1e-6, atol=0)
        return dense.numpy()
    return matrix.float().numpy()


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
    mean, scale = FeatureStatistics.of(make(np.array([[1, 0], [3, 0], [2, 6]], np.float32))).centre()
    assert mean == pytest.approx([2, 2])
    # Squared distances to (2, 2): 5, 5 and 16.
    assert scale == pytest.approx(1 / np.sqrt(26 / 3))
    assert mean.dtype == np.float32


def test_after_centring_the_mean_row_is_zero_and_the_mean_square_length_one(bags):
    for features in (bags, bags.toarray()):
        mean, scale = FeatureStatistics.of(features).centre()
        rows = (bags.toarray().astype(np.float64) - mean) * scale
        assert np.abs(rows.mean(0)).max() < 1e-5
        assert np.square(rows).sum(1).mean() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("make", [np.array, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("row", [[0.0, 0.0, 0.0], [0.1, 0.7, 0.3]], ids=["zeros", "alike"])
def test_rows_that_are_all_alike_are_not_blown_up(make, row):
    _, scale = FeatureStatistics.of(make(np.tile(np.array(row, np.float32), (1000, 1)))).centre()
    assert scale == 1.0


@pytest.mark.parametrize("kind", list(ENCODERS))
@pytest.mark.parametrize("skip", [False, True], ids=["no skip", "skip"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_centring_inside_the_encoder_is_centring_the_features(planted, bags, kind, skip, sparse):
    """Values and gradients; Â 1 is not 1, so the mean must be taken off before the propagation."""
    mean, scale = FeatureStatistics.of(bags).centre()
    options = {"skip": skip, "hidden": 5}

    def make_encoder(**more):
        return ENCODERS[kind](40, 3, generator=torch_generator(0, Purpose.INITIAL_WEIGHTS), **options, **more)

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


def table_of(features, nodes=None):
    return FeatureTable.build(features, np.arange(features.shape[0]) if nodes is None else nodes, "cpu")


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_dropout_together_is_dropout_patch_by_patch(bags, sparse):
    """It follows the nodes: whichever rows are stacked, in whatever order."""
    features = bags if sparse else bags.toarray()
    nodes = np.random.default_rng(1).permutation(1000)[:120]
    together = table_of(features, nodes)
    dropped = to_dense(together.dropped(0.5, seed=1, epoch=4))
    for rows in (np.arange(50), np.arange(50, 120), np.array([7, 3, 99])):
        part = features[rows] if not sparse else sp.csr_array(features[rows])
        assert (to_dense(table_of(part, nodes[rows]).dropped(0.5, seed=1, epoch=4)) == dropped[rows]).all()
    others = [to_dense(together.dropped(0.5, seed=s, epoch=e)) for s, e in ((1, 4), (1, 5), (2, 4))]
    assert (others[0] == dropped).all()
    assert (others[1] != dropped).any()
    assert (others[2] != dropped).any()


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_a_node_loses_the_same_features_in_every_patch_and_others_lose_others(bags, sparse):
    features = sp.csr_array(sp.vstack([bags, bags, bags]))
    features = features if sparse else features.toarray()
    table = table_of(features, np.concatenate([np.arange(120), np.arange(120), np.arange(120, 240)]))
    first, again, other = np.split(to_dense(table.dropped(0.5, seed=0, epoch=0)), 3)
    assert (first == again).all()
    present = bags.toarray() != 0
    assert ((first != 0) == (other != 0))[present].mean() == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_dropout_keeps_the_mean_and_only_drops(bags, sparse):
    features = bags if sparse else bags.toarray()
    table = table_of(features)
    draws = np.stack([to_dense(table.dropped(0.4, seed=0, epoch=epoch)) for epoch in range(300)])
    full = bags.toarray()
    assert np.logical_or(draws == 0, np.isclose(draws, full / 0.6, rtol=1e-5)).all()
    kept = draws[:, full != 0] != 0
    assert abs(kept.mean() - 0.6) < 4 * np.sqrt(0.24 / kept.size)
    assert (np.abs(draws.mean(0) - full) <= 5.5 * full * np.sqrt(0.4 / 0.6 / 300)).all()
    assert (to_dense(table.matrix) == full).all()
    assert table.dropped(0.0, seed=0, epoch=0) is table.matrix


def test_dense_and_sparse_features_lose_the_same_entries(bags):
    found = [to_dense(table_of(each).dropped(0.3, seed=2, epoch=1)) for each in (bags, bags.toarray())]
    assert np.allclose(*found, rtol=1e-6, atol=0)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_the_torch_backend_drops_the_same_entries(usual_backend, bags, sparse):
    found = []
    for backend in ("auto", "torch"):
        core.set_backend(backend)
        table = table_of(bags if sparse else bags.toarray())
        found.append(to_dense(table.dropped(0.5, seed=0, epoch=0)))
    assert np.allclose(*found, rtol=1e-6, atol=0)
    assert ((found[0] == 0) == (found[1] == 0)).all()


def test_the_gradient_through_dropped_sparse_features_is_that_of_dense_ones(bags):
    dropped = table_of(bags).dropped(0.5, seed=0, epoch=0)
    outer = torch.randn(120, 3, generator=torch.Generator().manual_seed(0))
    weight = torch.randn(40, 3, generator=torch.Generator().manual_seed(1)).requires_grad_()
    (multiply(dropped, weight) * outer).sum().backward()
    assert torch.allclose(weight.grad, torch.from_numpy(to_dense(dropped)).t() @ outer, atol=1e-4)


# --- products of rows, their mean taken off ----------------------------------------------------------


@pytest.mark.parametrize("kind", ["dense", "sparse", "many columns", "thinned", "float16"])
@pytest.mark.parametrize("centred", [False, True])
def test_products_of_rows_and_their_gradients_are_those_of_autograd(kind, centred):
    generator = np.random.default_rng(0)
    width = 300 if kind == "many columns" else 7
    plain = generator.standard_normal((30, width)) * (generator.random((30, width)) < 0.4)
    features = plain.astype(np.float32) if kind in ("dense", "float16") else sp.csr_array(plain.astype(np.float32))
    table = FeatureTable.build(features, np.arange(30), "cpu", "float16" if kind == "float16" else "float32")
    held = table.dropped(0.5, seed=0, epoch=0) if kind == "thinned" else table.matrix
    mean = torch.from_numpy(generator.standard_normal(width).astype(np.float32)) if centred else None
    rows = FeatureRows(held, mean, 1.7 if centred else 1.0)
    dense = torch.from_numpy(to_dense(held).astype(np.float64))
    wanted = 1.7 * (dense - mean.double()) if centred else dense
    weight, bias = (torch.randn(*s, generator=torch.Generator().manual_seed(1)) for s in ((width, 5), (5,)))
    weight.requires_grad_()
    bias.requires_grad_()
    found, expected = rows.multiply(weight, bias), wanted @ weight.double() + bias.double()
    assert found.dtype == torch.float32
    assert torch.allclose(found.double(), expected, atol=1e-4)
    outer = torch.randn(30, 5, generator=torch.Generator().manual_seed(2))
    gradients = [torch.autograd.grad((each * outer).sum(), (weight, bias)) for each in (found, expected)]
    for one, other in zip(*gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-4)


@pytest.mark.parametrize("kind", ["dense", "sparse", "thinned", "other widths"])
@pytest.mark.parametrize("centred", [False, True])
def test_projections_to_two_tables_and_their_gradients_are_those_of_float64(kind, centred):
    generator = np.random.default_rng(0)
    plain = (generator.standard_normal((30, 40)) * (generator.random((30, 40)) < 0.5)).astype(np.float32)
    table = FeatureTable.build(plain if kind == "dense" else sp.csr_array(plain), np.arange(30), "cpu")
    held = table.dropped(0.5, seed=0, epoch=0) if kind == "thinned" else table.matrix
    mean = torch.from_numpy(generator.standard_normal(40).astype(np.float32)) if centred else None
    rows, factor = FeatureRows(held, mean, 1.7 if centred else 1.0), 1.7 if centred else 1.0
    wanted = factor * (to_dense(held).astype(np.float64) - (mean.numpy() if centred else 0.0))
    widths = (24, 8) if kind == "other widths" else (32, 16)
    weight, skip = (generator.standard_normal((40, width)).astype(np.float32) for width in widths)
    scale, bias = generator.random(30).astype(np.float32), generator.standard_normal(widths[1]).astype(np.float32)
    hidden, own = rows.project(weight, skip, scale, bias)
    assert np.allclose(hidden, scale[:, None] * (wanted @ weight), atol=1e-4)
    assert np.allclose(own, wanted @ skip + bias, atol=1e-4)
    of_hidden, of_own = (generator.standard_normal((30, width)).astype(np.float32) for width in widths)
    for found, outer in zip(rows.gradients(of_hidden, of_own), (of_hidden, of_own), strict=True):
        assert found.flags.c_contiguous
        assert np.allclose(found, wanted.T @ outer, atol=1e-4)


@pytest.mark.parametrize("storage", ["float16", "bfloat16"])
def test_narrow_features_take_half_the_memory_and_lose_the_same_entries(storage, monkeypatch):
    monkeypatch.setattr("l2g2g.models.features._ROWS", 7)  # several slices, the last one shorter
    precision = {"float16": 2e-3, "bfloat16": 2e-2}[storage]
    features = np.random.default_rng(0).standard_normal((20, 6)).astype(np.float32)
    wide, narrow = (FeatureTable.build(features, np.arange(20), "cpu", kind) for kind in ("float32", storage))
    assert narrow.matrix.element_size() == 2
    first, second = (table.dropped(0.5, seed=0, epoch=0) for table in (wide, narrow))
    assert torch.equal(first == 0, second == 0)
    assert torch.allclose(first, second, atol=5 * precision)
    weight = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)).requires_grad_()
    product = FeatureRows(narrow.matrix).multiply(weight)
    assert product.dtype == torch.float32
    assert torch.allclose(product, narrow.matrix.float() @ weight, atol=1e-5)
    assert torch.allclose(product, wide.matrix @ weight, atol=5 * precision)
    (gradient,) = torch.autograd.grad(product.sum(), weight)
    assert torch.allclose(gradient, narrow.matrix.float().sum(0)[:, None].expand(6, 3), atol=1e-5)
