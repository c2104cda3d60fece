"""Features in half the memory: the same products to their precision, and the same gradients."""

import numpy as np
import pytest
import torch

from l2g2g.config import make_config
from l2g2g.experiment import run_split
from l2g2g.graphs.read import read_graph
from l2g2g.graphs.splits import split_links
from l2g2g.models.feature_product import multiply_features
from l2g2g.models.features import FeatureTable
from l2g2g.models.narrow import STORAGE

PRECISION = {"float16": 2e-3, "bfloat16": 2e-2}


@pytest.mark.parametrize("storage", PRECISION)
def test_product_and_gradient_are_those_of_the_rounded_features(storage, monkeypatch):
    monkeypatch.setattr("l2g2g.models.narrow._ROWS", 7)  # several slices, the last one shorter
    generator = torch.Generator().manual_seed(0)
    features, outer = torch.randn(30, 5, generator=generator), torch.randn(30, 3, generator=generator)
    weight = torch.randn(5, 3, generator=generator).requires_grad_()
    row = torch.randn(3, generator=generator)
    narrow = features.to(STORAGE[storage])
    product = multiply_features(narrow, weight, row)
    assert product.dtype == torch.float32
    assert torch.allclose(product, narrow.float() @ weight + row, atol=1e-5)
    assert torch.allclose(product, features @ weight + row, atol=5 * PRECISION[storage])
    (gradient,) = torch.autograd.grad((product * outer).sum(), weight)
    assert torch.allclose(gradient, narrow.float().t() @ outer, atol=1e-5)


@pytest.mark.parametrize("storage", PRECISION)
def test_a_table_takes_half_the_memory_and_drops_the_same_entries(storage):
    features = np.random.default_rng(0).standard_normal((20, 6)).astype(np.float32)
    wide, narrow = (
        FeatureTable.build(features, np.array([0, 20]), np.arange(1), "cpu", kind) for kind in ("float32", storage)
    )
    assert narrow.matrix.element_size() == 2
    first, second = (table.dropped(0.5, seed=0, epoch=0) for table in (wide, narrow))
    assert torch.equal(first == 0, second == 0)
    assert torch.allclose(first, second, atol=5 * PRECISION[storage])


@pytest.mark.parametrize("method", ["gae", "l2g2g"])
@pytest.mark.parametrize("preset", ["paper", "default"])
def test_training_on_narrow_features_ends_near_training_on_wide_ones(method, preset):
    generator = np.random.default_rng(0)
    edges = generator.integers(0, 80, (2, 400))
    features = generator.standard_normal((80, 6)).astype(np.float32)
    split = split_links(read_graph((edges, features)), seed=0)
    losses = []
    for storage in ("float32", "float16"):
        settings = {"epochs": 5, "seed": 0, "feature_storage": storage, "threads": 1}
        if method == "l2g2g":
            settings["patches"] = 2
        losses.append(run_split(split, make_config(method, preset, **settings)).trained.history.losses)
    assert losses[0] == pytest.approx(losses[1], rel=5e-3)
    assert losses[0] != losses[1]
