"""One contract over all methods, and learning: trained beats untrained by a margin."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from l2g2g.alignment.synchronise import apply_frame, assemble
from l2g2g.config import make_config
from l2g2g.graphs.block_model import BlockModel
from l2g2g.graphs.splits import keep_all
from l2g2g.methods import METHODS
from l2g2g.models.preprocessing import scale_features
from l2g2g.patches.overlap import whole_graph
from l2g2g.runs.embed import embed_graph
from l2g2g.runs.evaluate import evaluate_graph
from l2g2g.training.loop import encode_patches

from .in_memory import prepare_batches

SMALL = {"dim": 6, "hidden": 12, "patches": 3, "epochs": 8}


@pytest.fixture(scope="module")
def village():
    """Six blocks of 40 with features that are pure noise: only the structure can tell."""
    graph = BlockModel.planted(num_blocks=6, block_size=40, inside=0.3, outside=0.01).sample(1, name="village")
    noise = np.random.default_rng(0).normal(size=(graph.num_nodes, 16)).astype(np.float32)
    return replace(graph, features=noise)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_gives_one_finite_vector_per_node(noisy, method):
    run = embed_graph(noisy, make_config(method, **SMALL))
    assert run.embedding.shape == (noisy.num_nodes, 6)
    assert run.embedding.dtype == np.float32
    assert np.isfinite(run.embedding).all()
    assert len(np.unique(run.embedding.round(5), axis=0)) > noisy.num_nodes / 2
    assert run.trained.history.num_epochs == 8
    assert run.patch_set.num_patches == (3 if METHODS[method].uses_patches else 1)
    assert len(run.trained.model.encoders) == (3 if method == "gae+l2g" else 1)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("features", [True, False], ids=["features", "no features"])
def test_a_seed_gives_the_same_bits_and_another_seed_others(noisy, plain, method, features):
    graph = noisy if features else plain
    first, again, other = (embed_graph(graph, make_config(method, seed=s, **SMALL)).embedding for s in (0, 0, 1))
    assert first.tobytes() == again.tobytes()
    assert np.abs(first - other).max() > 1e-3


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore::l2g2g.alignment.synchronise.AlignmentWarning")
def test_isolated_nodes_and_islands_have_finite_vectors(islands, method):
    run = embed_graph(islands, make_config(method, **SMALL))
    assert np.isfinite(run.embedding).all()
    assert np.abs(run.embedding[-4:]).max() > 0  # the isolated ones are encoded from their features


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("preset", "margin"), [("default", 0.03), pytest.param("paper", 0.10, marks=pytest.mark.slow)])
def test_training_beats_no_training_by_a_margin(village, method, preset, margin):
    # Without features the encoder starts from eigenvectors, which know most of the blocks untrained.
    graph = replace(village, features=None) if preset == "default" else village

    def mean_auc(epochs):
        configs = [make_config(method, preset, patches=3, dim=8, epochs=epochs, lr=0.01, seed=seed) for seed in (0, 1)]
        return np.mean([evaluate_graph(graph, config)[0]["auc"] for config in configs])

    untrained, trained = mean_auc(0), mean_auc(60)
    assert trained > untrained + margin
    assert trained > 0.78  # the block model itself allows 0.875


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("mask", "most"), [(0.0, 0.93), pytest.param(None, 0.75, marks=pytest.mark.slow)], ids=["all edges seen", "default"]
)
def test_the_loss_falls(village, method, mask, most):
    # Hidden edges cannot be told from features that are pure noise; from the structure they can.
    graph = replace(village, features=None) if mask is None else village
    config = make_config(method, patches=3, dim=8, epochs=40, patience=0, mask=mask)
    losses = embed_graph(graph, config).trained.history.losses
    assert np.mean(losses[-5:]) < most * np.mean(losses[:5])


def test_alignment_makes_separate_encoders_agree_on_shared_nodes(noisy):
    """Every encoder of GAE+L2G has its own frame: without alignment an average over patches would mean nothing."""
    how = {"structure": "none", "feature_scaling": "unit"}
    run = embed_graph(noisy, make_config("gae+l2g", patches=4, dim=4, epochs=40, lr=0.02, **how))
    patch_set, frame = run.patch_set, run.trained.frame
    features = scale_features(noisy.features, "unit")
    batches = prepare_batches(
        patch_set, noisy.adjacency, features, keep_all(noisy).held_out, together=False, propagate_once=False
    )
    stacked = encode_patches(run.trained.model, batches)
    overlaps = patch_set.overlaps

    def disagreement(rows):
        spread = rows[overlaps.first_rows] - rows[overlaps.first_rows].mean(0)
        return float((rows[overlaps.first_rows] - rows[overlaps.second_rows]).square().sum() / spread.square().sum())

    aligned = apply_frame(stacked, torch.from_numpy(patch_set.offsets), frame)
    assert disagreement(aligned) < 0.6 * disagreement(stacked)
    merged = assemble(aligned, torch.from_numpy(patch_set.global_nodes), noisy.num_nodes)
    assert np.abs(merged.numpy() - run.embedding).max() < 1e-4


@pytest.mark.slow
def test_pairs_between_patches_are_worth_their_place_in_the_loss(village):
    """METIS cuts at the blocks: a loss inside patches never meets the non-edges between them, and cannot tell them."""
    graph = replace(village, features=None)
    options = {"patches": 6, "dim": 8, "epochs": 60, "mask": 0.0, "structure": "none"}

    def mean_auc(scope):
        configs = [make_config("l2g2g", scope=scope, seed=seed, **options) for seed in (0, 1, 2)]
        return np.mean([evaluate_graph(graph, config)[0]["auc"] for config in configs])

    assert mean_auc("global") > mean_auc("inside") + 0.05


def test_a_whole_graph_pass_is_the_encoding_of_the_one_patch_graph(noisy):
    how = {"structure": "none", "feature_scaling": "unit"}
    run = embed_graph(noisy, make_config("l2g2g", patches=3, dim=4, epochs=5, **how))
    assert run.patch_set.num_patches == 3
    features = scale_features(noisy.features, "unit")
    held_out = keep_all(noisy).held_out
    one = whole_graph(noisy.num_nodes)
    (batch,) = prepare_batches(one, noisy.adjacency, features, held_out, propagate_once=False)
    encoded = encode_patches(run.trained.model, [batch])
    assert np.abs(encoded.numpy() - run.embedding).max() < 1e-6
    batches = prepare_batches(run.patch_set, noisy.adjacency, features, held_out, propagate_once=False)
    aligned = apply_frame(
        encode_patches(run.trained.model, batches), torch.from_numpy(run.patch_set.offsets), run.trained.frame
    )
    averaged = assemble(aligned, torch.from_numpy(run.patch_set.global_nodes), noisy.num_nodes)
    assert np.abs(averaged.numpy() - run.embedding).max() > 1e-2  # the mean of the patches is something else


def test_kept_edges_and_duplication_are_reported(village):
    row, run = evaluate_graph(village, make_config("l2g2g", patches=4, dim=4, epochs=2))
    assert row["num_patches"] == 4
    assert 0.5 < row["kept_edge_fraction"] <= 1
    assert row["node_duplication"] == pytest.approx(run.patch_set.num_rows / 240)
    assert row["largest_patch_nodes"] == run.patch_set.sizes.max()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["gae", "l2g2g", "gae+l2g"])
def test_masks_between_groups_of_nodes_teach(village, method):
    graph = replace(village, features=None)

    def mean_auc(epochs):
        options = {"patches": 3, "dim": 8, "epochs": epochs, "mask_by": "nodes"}
        return np.mean([evaluate_graph(graph, make_config(method, seed=seed, **options))[0]["auc"] for seed in (0, 1)])

    assert mean_auc(60) > mean_auc(0) + 0.02


@pytest.mark.parametrize("mask_by", ["edges", "nodes"])
def test_masked_trainings_agree_in_one_block_and_patch_by_patch(noisy, mask_by):
    losses = [
        embed_graph(noisy, make_config("l2g2g", mask_by=mask_by, together=t, **SMALL)).trained.history.losses
        for t in (True, False)
    ]
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)
