"""The loop: one patch is GAE, one block is patch by patch, and what the alignment does to the loss."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from l2g2g.alignment.synchronise import Frame
from l2g2g.config import make_config
from l2g2g.errors import NumericalError
from l2g2g.graphs.splits import keep_all, split_links
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.encoding import Encoding
from l2g2g.patches.overlap import make_patches, whole_graph
from l2g2g.patches.partition import partition
from l2g2g.runs.embed import embed_graph
from l2g2g.training.loop import EpochReport, LoopSettings, Training, _falls_fast, embed_nodes
from l2g2g.training.objective import accumulate_gradients
from l2g2g.training.shard import Shard

from .in_memory import prepare_batches, train

DIM = 4
SETTINGS = LoopSettings(epochs=12, seed=0, alignment="during", refresh_every=3)


@pytest.fixture(scope="module")
def split(noisy):
    return split_links(noisy, seed=0)


@pytest.fixture(scope="module")
def patch_set(split):
    labels = partition(split.train.adjacency, 3, method="fennel")
    return make_patches(split.train, labels, min_overlap=5, target_overlap=10)


@pytest.fixture
def batches(split, patch_set):
    return batches_of(split, patch_set)


def batches_of(split, patch_set, **options):
    return prepare_batches(patch_set, split.train.adjacency, split.train.features, split.held_out, **options)


def make_model(split, **options):
    return Autoencoder(split.train.num_features, DIM, hidden=8, learn_bias=True, seed=1, **options)


def random_frame(patch_set, *, rotate=True, translate=True, seed=0):
    generator = torch.Generator().manual_seed(seed)
    frame = Frame.identity(patch_set.num_patches, DIM)
    rotations, translations = frame.rotations, frame.translations
    if rotate:
        rotations = torch.linalg.qr(torch.randn(rotations.shape, generator=generator)).Q
    if translate:
        translations = torch.randn(translations.shape, generator=generator)
    return Frame(rotations, translations, frame.scales)


def loss_and_gradients(model, batches, frame, settings=SETTINGS, epoch=3):
    model.zero_grad()
    loss = accumulate_gradients(model, batches, frame, settings, epoch)
    return loss, [parameter.grad.clone() for parameter in model.parameters()]


def largest_difference(first, second):
    return max(float((a - b).abs().max()) for a, b in zip(first, second, strict=True))


# --- limits that must hold exactly ------------------------------------------------------------------


@pytest.mark.parametrize(("local", "whole"), [("l2g2g", "gae"), ("vl2g2g", "vgae")])
@pytest.mark.parametrize("preset", ["default", "paper"])
def test_one_patch_of_l2g2g_is_gae(noisy, local, whole, preset):
    options = {"dim": 6, "epochs": 25, "seed": 3, "negatives": "fresh"}
    ours = embed_graph(noisy, make_config(local, preset, patches=1, **options))
    theirs = embed_graph(noisy, make_config(whole, preset, **options))
    assert ours.trained.history.losses == pytest.approx(theirs.trained.history.losses, abs=1e-6)
    assert np.abs(ours.embedding - theirs.embedding).max() < 1e-6
    assert np.abs(ours.embedding).max() > 0.1


@pytest.mark.parametrize("pairs", ["sampled", "all"])
@pytest.mark.parametrize("variational", [False, True], ids=["plain", "variational"])
def test_one_block_and_patch_by_patch_have_the_same_gradients(split, patch_set, variational, pairs):
    model = make_model(split, variational=variational)
    frame = random_frame(patch_set)
    settings = replace(SETTINGS, pairs=pairs)
    together = loss_and_gradients(model, batches_of(split, patch_set, together=True), frame, settings)
    apart = loss_and_gradients(model, batches_of(split, patch_set, together=False), frame, settings)
    assert together[0] == pytest.approx(apart[0], abs=1e-6)
    assert largest_difference(together[1], apart[1]) < 1e-6
    assert max(float(gradient.abs().max()) for gradient in together[1]) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("method", ["l2g2g", "vl2g2g"])
def test_whole_trainings_agree_in_one_block_and_patch_by_patch(noisy, method):
    # Translations only: rotations of a hardly trained model have near-equal optima, and rounding may choose.
    options = {"dim": 4, "patches": 3, "epochs": 12, "refresh_every": 3, "rotate": False, "translate": True}
    together, apart = (embed_graph(noisy, make_config(method, together=t, **options)) for t in (True, False))
    assert len(together.trained.history.refresh_seconds) == 4
    assert together.trained.history.losses == pytest.approx(apart.trained.history.losses, abs=1e-5)
    assert np.abs(together.embedding - apart.embedding).max() < 1e-3


def test_the_loss_is_the_mean_over_patches_weighted_by_nodes(split, patch_set, batches):
    """By the formula: Σ N_j (−mean log σ(edges) − w_j Σ log(1 − σ(non-edges))) / Σ N_j, w_j one over those expected."""
    model = make_model(split)
    (batch,) = batches
    with torch.no_grad():
        model.decoder.bias.fill_(-0.3)
        loss = accumulate_gradients(model, batches, Frame.identity(3, DIM), SETTINGS, epoch=2)
        scores = model.encode(batch.inputs)[0]
        scores = scores @ scores.t() - 0.3
    negatives = batch.pairs.negatives.list_pairs(seed=0, epoch=2)
    expected = 0.0
    for patch in range(3):
        low, high = patch_set.offsets[patch : patch + 2]
        edges = batch.adjacency[low:high, low:high].tocoo()
        drawn = negatives.select((negatives.rows >= low) & (negatives.rows < high))
        assert drawn.num_pairs == pytest.approx(edges.nnz // 2, rel=0.1)  # about as many non-edges as edges
        share = (high - low) / batch.num_rows
        (weight,) = set(drawn.pair_weights.tolist())
        assert weight == pytest.approx(share / (edges.nnz // 2), rel=0.05)
        positive = scores[edges.row + low, edges.col + low]
        negative = scores[drawn.rows, drawn.columns]
        expected -= share * float(torch.nn.functional.logsigmoid(positive).mean())
        expected -= weight * float(torch.nn.functional.logsigmoid(-negative).sum())
    assert loss == pytest.approx(expected, rel=1e-5)


# --- what the alignment does to the loss (FINDINGS.md section 2) -------------------------------------


@pytest.mark.parametrize("variational", [False, True], ids=["plain", "variational"])
def test_rotations_alone_cannot_move_the_loss(split, patch_set, batches, variational):
    """(ZS)(ZS)ᵀ = ZZᵀ: with rotations only, as the authors ran it, synchronisation never reaches the gradient."""
    model = make_model(split, variational=variational)
    still = loss_and_gradients(model, batches, Frame.identity(patch_set.num_patches, DIM))
    turned = loss_and_gradients(model, batches, random_frame(patch_set, translate=False))
    assert turned[0] == pytest.approx(still[0], abs=1e-5)
    assert largest_difference(turned[1], still[1]) < 1e-5


def test_translations_move_the_loss_and_its_gradient(split, patch_set, batches):
    model = make_model(split)
    still = loss_and_gradients(model, batches, Frame.identity(patch_set.num_patches, DIM))
    moved = loss_and_gradients(model, batches, random_frame(patch_set, rotate=False))
    assert abs(moved[0] - still[0]) > 0.1
    assert largest_difference(moved[1], still[1]) > 0.05


def test_rotations_matter_as_soon_as_patches_are_shifted(split, patch_set, batches):
    model = make_model(split)
    shifted = loss_and_gradients(model, batches, random_frame(patch_set, rotate=False, seed=2))
    base = random_frame(patch_set, rotate=False, seed=2)
    turned = Frame(random_frame(patch_set, seed=5).rotations, base.translations, base.scales)
    assert abs(loss_and_gradients(model, batches, turned)[0] - shifted[0]) > 1e-3


def test_only_alignment_during_training_touches_the_loss(split, patch_set, batches):
    model = make_model(split)
    settings = replace(SETTINGS, alignment="after")
    still = loss_and_gradients(model, batches, Frame.identity(patch_set.num_patches, DIM), settings)
    assert loss_and_gradients(model, batches, random_frame(patch_set), settings)[0] == still[0]


def test_training_inside_patches_with_and_without_translations_differs(noisy):
    # The paper's reading: the encoder sees every edge and feature, and pairs are scored inside patches.
    options = {"dim": 4, "patches": 3, "epochs": 10, "refresh_every": 2, "patience": 0, "scope": "inside"}
    options |= {"mask": 0.0, "feature_dropout": 0.0, "skip": False, "feature_scaling": "unit"}
    losses = [
        embed_graph(noisy, make_config("l2g2g", rotate=rotate, translate=translate, **options)).trained.history.losses
        for rotate, translate in ((True, False), (False, False), (True, True))
    ]
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)  # rotations only: as if there were none
    assert abs(losses[0][-1] - losses[2][-1]) > 1e-3


def test_the_frame_is_refreshed_when_it_should_be(split, patch_set, batches):
    trained = train(make_model(split), batches, patch_set, replace(SETTINGS, epochs=10, refresh_every=4))
    assert len(trained.history.refresh_seconds) == 3  # epochs 0, 4, 8
    trained = train(make_model(split), batches, patch_set, replace(SETTINGS, epochs=10, alignment="after"))
    assert len(trained.history.refresh_seconds) == 0


def test_a_training_across_patches_follows_its_rotations(noisy):
    """Pairs across patches see the frame: with rotations the losses are others from the first refresh on."""
    options = {"dim": 4, "patches": 3, "epochs": 6, "refresh_every": 3, "patience": 0, "share_encoder": False}
    still, turned = (
        embed_graph(noisy, make_config("l2g2g", rotate=rotate, translate=False, **options)).trained.history.losses
        for rotate in (False, True)
    )
    assert abs(still[0] - turned[0]) > 1e-4
    assert abs(still[-1] - turned[-1]) > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("share", [True, False], ids=["shared", "separate"])
def test_training_through_the_alignment_learns_and_differs_from_held(noisy, share):
    options = {"dim": 4, "patches": 3, "epochs": 30, "refresh_every": 1, "patience": 0, "share_encoder": share}
    options |= {"rotate": True, "translate": True, "mask": 0.0, "feature_dropout": 0.0}
    held, through = (
        embed_graph(noisy, make_config("l2g2g", align_gradient=choice, **options)).trained
        for choice in ("held", "through")
    )
    assert len(through.history.refresh_seconds) == 30  # solved in every epoch
    assert np.isfinite(through.history.losses).all()
    assert np.mean(through.history.losses[-5:]) < 0.95 * np.mean(through.history.losses[:5])
    assert abs(held.history.losses[-1] - through.history.losses[-1]) > 1e-3


# --- negatives and samples --------------------------------------------------------------------------


def test_fixed_negatives_are_fixed_and_fresh_ones_fresh(split, patch_set, batches):
    model = make_model(split)
    frame = Frame.identity(patch_set.num_patches, DIM)

    def losses(fresh):
        settings = replace(SETTINGS, fresh_negatives=fresh)
        return [accumulate_gradients(model, batches, frame, settings, epoch) for epoch in range(5)]

    assert len(set(losses(fresh=False))) == 1
    assert len(set(losses(fresh=True))) == 5
    assert losses(fresh=True)[0] == losses(fresh=False)[0]


def test_variational_noise_is_fresh_every_epoch_and_repeats(split, patch_set, batches):
    model = make_model(split, variational=True)
    frame = Frame.identity(patch_set.num_patches, DIM)
    settings = replace(SETTINGS, fresh_negatives=False)
    losses = [accumulate_gradients(model, batches, frame, settings, epoch) for epoch in (0, 1, 0)]
    assert losses[0] == losses[2] != losses[1]


def test_fastgae_scores_a_sample_of_the_size_asked_for(split):
    whole = whole_graph(split.train.num_nodes)
    batches = batches_of(split, whole)
    model = make_model(split)
    settings = LoopSettings(alignment="never", pairs="subgraph", sample_size=20)
    frame = Frame.identity(1, DIM)
    touched = []
    begin = model.begin

    def watched(inputs, patch=0):
        encoding = begin(inputs, patch)

        def backward(gradient, inputs):
            touched.append(set(gradient.abs().sum(1).nonzero()[:, 0].tolist()))
            encoding.backward(gradient, inputs)

        return Encoding(encoding.vectors, backward)

    model.begin = watched
    for epoch in range(2):
        accumulate_gradients(model, batches, frame, settings, epoch)
    assert [len(nodes) for nodes in touched] == [20, 20]
    assert touched[0] != touched[1]


def test_negatives_per_edge(split, patch_set):
    for wanted in (1.0, 2.0):
        (batch,) = batches_of(split, patch_set, negatives_per_edge=wanted)
        counts = [batch.pairs.negatives.list_pairs(seed=0, epoch=epoch).num_pairs for epoch in range(50)]
        # All rows of a tile draw: half a tile more or less in each patch.
        expected = wanted * batch.adjacency.nnz / 2
        assert np.mean(counts) == pytest.approx(expected, abs=8 * patch_set.num_patches)


# --- the loop itself --------------------------------------------------------------------------------


def test_early_stopping_keeps_the_best_state_and_stops(split, patch_set, batches):
    scores = iter([0.5, 0.9, 0.6, 0.7, 0.99])
    states, embeddings = [], []

    def validate(embedding):
        states.append(copy.deepcopy(model.state_dict()))
        embeddings.append(embedding.clone())
        return next(scores)

    model = make_model(split)
    # Steps so small that the loss does not fall fast, which would prolong the training.
    settings = replace(SETTINGS, epochs=50, validate_every=5, patience=2, learning_rate=0.001)
    trained = train(model, batches, patch_set, settings, validate=validate)
    assert trained.history.validations == [(5, 0.5), (10, 0.9), (15, 0.6), (20, 0.7)]
    assert (trained.history.num_epochs, trained.history.best_epoch) == (20, 10)
    for name, value in trained.model.state_dict().items():
        assert torch.equal(value, states[1][name])
    assert not torch.equal(trained.model.encoders[0].weights[0], states[3]["encoders.0.weights.0"])
    again, _ = embed_nodes(trained.model, batches, Shard(patch_set), settings, trained.frame)
    assert torch.allclose(again, embeddings[1], atol=1e-4)


@pytest.mark.parametrize(
    ("schedule", "margin", "best"), [("linear", 0.1, 9), ("linear", 0.01, 3), ("constant", 0.1, 3)]
)
def test_the_last_epoch_of_a_falling_rate_is_kept_unless_another_is_clearly_better(
    split, patch_set, batches, schedule, margin, best
):
    scores = iter([0.9, 0.8, 0.85])
    settings = replace(SETTINGS, epochs=9, validate_every=3, schedule=schedule)
    given = {"validate": lambda _: next(scores), "margin": lambda _: margin}
    trained = train(make_model(split), batches, patch_set, settings, **given)
    assert trained.history.best_epoch == best


def test_without_patience_all_epochs_run_and_the_last_is_validated(split, patch_set, batches):
    seen = []
    settings = replace(SETTINGS, epochs=7, validate_every=5, patience=0)
    trained = train(
        make_model(split),
        batches,
        patch_set,
        settings,
        validate=lambda _: 0.0,
        on_epoch=lambda report: seen.append((report.epoch, report.loss)),
    )
    assert [epoch for epoch, _ in trained.history.validations] == [5, 7]
    assert seen == list(zip(range(1, 8), trained.history.losses, strict=True))
    assert len(trained.history.epoch_seconds) == 7


def test_reports_hold_validations_and_residuals_where_there_are_some(split, patch_set, batches):
    seen = []
    settings = replace(
        SETTINGS, epochs=7, validate_every=5, refresh_every=3, alignment="during", rotate=True, translate=True
    )
    trained = train(
        make_model(split),
        batches,
        patch_set,
        settings,
        validate=lambda _: 0.25,
        on_epoch=lambda report: seen.append((report, report.curves())),
    )
    assert [report.epoch for report, _ in seen if report.refreshed] == [1, 4, 7]
    assert {report.epoch: report.validation for report, _ in seen if report.validation is not None} == {
        5: 0.25,
        7: 0.25,
    }
    for report, curves in seen:
        assert curves["loss"] == trained.history.losses[report.epoch - 1]
        assert ("refresh residual" in curves) == report.refreshed
        assert curves.get("refresh residual", 1.0) > 0


def test_a_training_that_pauses_ends_like_one_in_one_go(split, patch_set, batches):
    settings = replace(SETTINGS, epochs=12, validate_every=5, refresh_every=4)

    def validate(embedding):
        return float(embedding.abs().mean())

    expected = train(make_model(split), batches, patch_set, settings, validate=validate)
    training = Training(make_model(split), batches, patch_set, settings, validate=validate)
    training.run(7)
    assert training.state.epoch == 7
    assert training.best_score == training.state.history.validations[0][1]
    training.run()
    found = training.finish()
    assert found.history.losses == expected.history.losses
    assert found.history.validations == expected.history.validations
    for name, value in found.model.state_dict().items():
        assert torch.equal(value, expected.model.state_dict()[name])


def test_the_better_of_two_assemblies_is_validated(split, patch_set, batches):
    whole = torch.full((split.train.num_nodes, 4), 2.0)
    whole[0] = 1.0
    values = iter([0.4, 0.6, 0.7, 0.5])
    seen = []

    def validate(embedding):
        seen.append(torch.equal(embedding, whole))
        return next(values)

    settings = replace(SETTINGS, epochs=2, validate_every=1)
    parts = {"validate": validate, "whole": lambda model: whole, "compares_assemblies": True}
    training = Training(make_model(split), batches, patch_set, settings, **parts)
    training.run()
    assert seen == [True, False] * 2
    assert training.state.history.validations == [(1, 0.6), (2, 0.7)]


def test_no_epochs_leave_the_model_as_it_was(split, patch_set, batches):
    model = make_model(split)
    before = copy.deepcopy(model.state_dict())
    trained = train(model, batches, patch_set, replace(SETTINGS, epochs=0))
    assert all(torch.equal(before[name], value) for name, value in trained.model.state_dict().items())
    assert (trained.history.num_epochs, trained.history.best_epoch) == (0, 0)


def test_a_loss_that_explodes_is_a_numerical_error(split):
    whole = whole_graph(split.train.num_nodes)
    settings = LoopSettings(epochs=20, learning_rate=1e15, alignment="never")
    with pytest.raises(NumericalError, match=r"the loss .* in epoch \d+, for the 4th time; lower the learning rate"):
        train(make_model(split), batches_of(split, whole), whole, settings)


@pytest.mark.parametrize("validation_fraction", [0.0, 0.05])
def test_vectors_that_explode_in_the_last_step_are_a_numerical_error(planted, validation_fraction):
    config = make_config("gae", dim=4, epochs=1, lr=1e25)
    with pytest.raises(NumericalError, match="lower"):
        embed_graph(planted, config, validation_fraction=validation_fraction)


def test_separate_encoders_learn_apart(noisy):
    run = embed_graph(noisy, make_config("l2g2g", dim=4, patches=3, epochs=5, share_encoder=False))
    first, second, third = (encoder.weights[0] for encoder in run.trained.model.encoders)
    assert not torch.equal(first, second)
    assert not torch.equal(second, third)


def test_validation_edges_are_used_for_the_final_vectors(planted):
    """embed holds edges back for early stopping only: the last encoding sees the whole graph."""
    config = make_config("gae", dim=4, epochs=0, feature_scaling="raw")
    untrained = embed_graph(planted, config)
    assert untrained.trained.history.num_epochs == 0
    config = make_config("gae", dim=4, epochs=3, feature_scaling="raw")
    run = embed_graph(planted, config)
    whole = whole_graph(planted.num_nodes)
    encode = run.trained.model.encode
    encodings = []
    for graph in (planted, split_links(planted, validation_fraction=0.05, test_fraction=0.0, seed=0).train):
        held_out = keep_all(planted).held_out
        (batch,) = prepare_batches(whole, graph.adjacency, planted.features, held_out, propagate_once=False)
        encodings.append(encode(batch.inputs)[0].detach().numpy())
    assert np.abs(run.embedding - encodings[0]).max() < 1e-6
    assert np.abs(run.embedding - encodings[1]).max() > 1e-4


def test_patience_does_not_end_a_training_that_has_hardly_begun():
    falling, flat = [1.0 - 0.004 * epoch for epoch in range(50)], [0.7 - 0.0002 * epoch for epoch in range(50)]
    assert _falls_fast(falling)
    assert not _falls_fast(flat)
    assert not _falls_fast(falling[::-1])
    assert not _falls_fast([0.7])


# --- reports ----------------------------------------------------------------------------------------


def test_curves_hold_what_there_is():
    assert EpochReport(3, 0.5, 0.1).curves() == {"loss": 0.5}
    whole = EpochReport(3, 0.5, 0.1, validation=0.9, refreshed=True, measure=lambda: 0.25)
    assert whole.curves() == {"loss": 0.5, "validation AUC": 0.9, "refresh residual": 0.25}


def test_the_residual_is_measured_only_when_it_is_asked_for_and_new():
    asked = []

    def measure():
        asked.append(True)
        return 0.25

    still = EpochReport(3, 0.5, 0.1, measure=measure)
    assert still.residual is None
    fresh = EpochReport(3, 0.5, 0.1, refreshed=True, measure=measure)
    assert asked == []
    assert fresh.residual == 0.25
    assert asked == [True]
