"""Objective: pairs of all nodes on the assembled embedding, and what each encoder may see of them."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from l2g2g.alignment.synchronise import Frame, apply_frame, assemble, synchronise
from l2g2g.graphs.splits import split_links
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.masking import EpochDraws
from l2g2g.models.preprocessing import FeatureStatistics
from l2g2g.patches.overlap import make_patches, whole_graph
from l2g2g.patches.partition import partition
from l2g2g.training.objective import (
    EncodedBatch,
    ObjectiveSettings,
    accumulate_gradients,
)

from .in_memory import prepare_batches, prepare_global_pairs

DIM = 4
GLOBAL = ObjectiveSettings(scope="global")
EPOCH = 3


@pytest.fixture(scope="module")
def split(noisy):
    return split_links(noisy, seed=0)


@pytest.fixture(scope="module")
def patch_set(split):
    return make_patches(split.train, partition(split.train.adjacency, 3), min_overlap=5, target_overlap=10)


@pytest.fixture(scope="module")
def whole(split):
    return whole_graph(split.train.num_nodes)


@pytest.fixture(scope="module")
def global_pairs(split, patch_set):
    return global_pairs_of(split, patch_set)


def global_pairs_of(split, patch_set, **options):
    return prepare_global_pairs(patch_set, split.train.adjacency, split.held_out, **options)


def batches_of(split, patch_set, *, sparse=False, **options):
    features = sp.csr_array(split.train.features) if sparse else split.train.features
    return prepare_batches(patch_set, split.train.adjacency, features, split.held_out, propagate_once=False, **options)


def make_model(split, *, seed=1, **options):
    """A model that uses all that the default does: skip, centred features, a bias that is not zero."""
    mean, scale = FeatureStatistics.of(split.train.features).centre()
    centre = {"feature_mean": torch.from_numpy(mean), "feature_scale": scale}
    model = Autoencoder(
        split.train.num_features, DIM, hidden=8, learn_bias=True, skip=True, seed=seed, **centre, **options
    )
    with torch.no_grad():
        model.decoder.bias.fill_(-0.3)
    return model


def random_frame(num_patches, *, rotate=True, translate=True, seed=0):
    generator = torch.Generator().manual_seed(seed)
    frame = Frame.identity(num_patches, DIM)
    rotations, translations = frame.rotations, frame.translations
    if rotate:
        rotations = torch.linalg.qr(torch.randn(rotations.shape, generator=generator)).Q
    if translate:
        translations = torch.randn(translations.shape, generator=generator)
    return Frame(rotations, translations, frame.scales)


def loss_and_gradients(model, batches, frame, settings, pairs, epoch=EPOCH):
    model.zero_grad()
    loss = accumulate_gradients(model, batches, frame, settings, epoch, pairs)
    return loss, [parameter.grad.clone() for parameter in model.parameters()]


def largest_difference(first, second):
    return max(float((a - b).abs().max()) for a, b in zip(first, second, strict=True))


def ends(pairs):
    """(rows, columns), every pair once."""
    return pairs.pair_list.rows, pairs.pair_list.columns


def negatives_of(source, epoch=EPOCH, seed=0):
    return source.negatives.list_pairs(seed=seed, epoch=epoch)


def seen_by(batch, draws):
    """Unordered pairs of nodes between which the encoder of a batch sees an edge."""
    inputs = batch.training_inputs(draws)
    rows, columns = inputs.propagation.to_scipy().nonzero()
    return {(u, v) for u, v in as_set(batch.pairs.nodes[rows], batch.pairs.nodes[columns]) if u != v}


def cut_edges(patch_set, graph):
    """Edges that no patch holds, by a dense product of memberships."""
    member = np.zeros((patch_set.num_nodes, patch_set.num_patches), np.int64)
    for patch in range(patch_set.num_patches):
        member[patch_set.nodes_of(patch), patch] = 1
    return as_set(*np.nonzero((graph.adjacency.toarray() != 0) & (member @ member.T == 0)))


def as_set(first, second):
    """Unordered pairs."""
    return {(min(u, v), max(u, v)) for u, v in zip(first.tolist(), second.tolist(), strict=True)}


def dense_loss(embedding, edges, non_edges, bias, *, weight=None):
    """−mean log σ(edges) − mean log(1 − σ(non-edges)); edges, non_edges: (rows, columns).

    weight: of a non-edge; None for one over their number.
    """
    scores = embedding @ embedding.t() + bias
    softplus = torch.nn.functional.softplus
    of_edges, of_non_edges = softplus(-scores[edges]), softplus(scores[non_edges])
    return float(of_edges.mean() + (of_non_edges.mean() if weight is None else weight * of_non_edges.sum()))


def weight_of(negatives, share=1.0):
    """The weight of every negative of a patch: their weights add up to its share on average, over all epochs."""
    (weight,) = set(negatives.pair_weights.tolist())
    assert weight * negatives.num_pairs == pytest.approx(share, rel=0.1)
    return weight


# --- limits that must hold exactly ------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("variational", [False, True], ids=["plain", "variational"])
@pytest.mark.parametrize("scope", ["inside", "global"])
def test_one_block_and_patch_by_patch_have_the_same_gradients(split, patch_set, variational, sparse, scope):
    """With masks, dropout and a share of the pairs: all draws are keyed, none depends on the batches."""
    model = make_model(split, variational=variational)
    settings = ObjectiveSettings(scope=scope, mask=0.6, score_fraction=0.8, feature_dropout=0.3, seed=2)
    frame = random_frame(patch_set.num_patches)
    pairs = global_pairs_of(split, patch_set, negatives_per_edge=0.48)
    together, apart = (
        loss_and_gradients(
            model,
            batches_of(split, patch_set, sparse=sparse, together=t, negatives_per_edge=0.48),
            frame,
            settings,
            pairs,
        )
        for t in (True, False)
    )
    assert together[0] == pytest.approx(apart[0], abs=1e-6)
    assert largest_difference(together[1], apart[1]) < 1e-6
    assert all(float(gradient.abs().max()) > 1e-3 for gradient in together[1])


def test_gradients_by_finite_differences(split, patch_set, global_pairs):
    """The way through average, frame, mask and dropout, in float32: along the gradient the loss rises by its length."""
    model = make_model(split, variational=True)
    settings = ObjectiveSettings(scope="global", mask=0.5, feature_dropout=0.3)
    batches, frame = batches_of(split, patch_set, together=False), random_frame(patch_set.num_patches)
    _, gradients = loss_and_gradients(model, batches, frame, settings, global_pairs)
    length = float(torch.cat([gradient.ravel() for gradient in gradients]).norm())
    losses = []
    for step in (1e-2, -1e-2):
        moved = make_model(split, variational=True)
        with torch.no_grad():
            for parameter, gradient in zip(moved.parameters(), gradients, strict=True):
                parameter += step * gradient / length
        losses.append(loss_and_gradients(moved, batches, frame, settings, global_pairs)[0])
    assert (losses[0] - losses[1]) / 2e-2 == pytest.approx(length, rel=1e-2)


@pytest.mark.parametrize("mask", [0.0, 0.7])
@pytest.mark.parametrize("variational", [False, True], ids=["plain", "variational"])
def test_one_patch_scored_globally_is_the_loss_of_the_whole_graph(split, whole, mask, variational):
    model = make_model(split, variational=variational)
    batches = batches_of(split, whole)
    settings = ObjectiveSettings(mask=mask, feature_dropout=0.2)
    frame, pairs = Frame.identity(1, DIM), global_pairs_of(split, whole)
    inside = loss_and_gradients(model, batches, frame, settings, None)
    outside = loss_and_gradients(model, batches, frame, replace(settings, scope="global"), pairs)
    assert inside[0] == pytest.approx(outside[0], rel=1e-6)  # the divergence is added in another precision
    assert largest_difference(inside[1], outside[1]) == 0


def test_one_patch_with_nothing_hidden_is_the_loss_of_gae_by_its_formula(split, whole):
    model = make_model(split)
    batches = batches_of(split, whole)
    (batch,) = batches
    pairs = global_pairs_of(split, whole)
    loss = accumulate_gradients(model, batches, Frame.identity(1, DIM), GLOBAL, EPOCH, pairs)
    negatives = negatives_of(pairs.pairs.source)
    edges = sp.coo_array(split.train.adjacency)
    with torch.no_grad():
        embedding = model.encode(batch.inputs)[0]
    weight = weight_of(negatives)
    expected = dense_loss(embedding, (edges.row, edges.col), ends(negatives), -0.3, weight=weight)
    assert loss == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("mask", [0.0, 0.7])
@pytest.mark.parametrize("together", [True, False])
def test_the_global_loss_is_the_formula_on_the_assembled_embedding(split, patch_set, global_pairs, together, mask):
    """Every edge of the graph (or every hidden one), in one patch or in none, and as many non-edges of all nodes."""
    model = make_model(split)
    batches = batches_of(split, patch_set, together=together)
    frame = random_frame(patch_set.num_patches)
    settings = replace(GLOBAL, mask=mask)
    loss = accumulate_gradients(model, batches, frame, settings, EPOCH, global_pairs)
    with torch.no_grad():
        draws = EpochDraws(0, EPOCH, mask, mask)
        inputs = [batch.training_inputs(draws) for batch in batches]
        stacked = torch.cat([model.encode(part)[0] for part in inputs])
        aligned = apply_frame(stacked, torch.from_numpy(patch_set.offsets), frame)
        embedding = assemble(aligned, torch.from_numpy(patch_set.global_nodes), patch_set.num_nodes)
    assert torch.allclose(global_pairs.assemble(aligned, patch_set.global_nodes), embedding, atol=1e-6)
    edges = sp.coo_array(split.train.adjacency)
    edges = (edges.row, edges.col)
    if mask:
        edges = ends(global_pairs.pairs.source.draw_edges(draws))
    negatives = negatives_of(global_pairs.pairs.source)
    assert negatives.num_pairs == pytest.approx(split.train.num_edges, rel=0.1)
    expected = dense_loss(embedding, edges, ends(negatives), -0.3, weight=weight_of(negatives))
    assert loss == pytest.approx(expected, rel=1e-5)


def test_the_global_loss_scores_edges_that_no_patch_holds(split, patch_set, global_pairs):
    cut = cut_edges(patch_set, split.train)
    assert len(cut) > 20
    edges = global_pairs.pairs.source.edges
    assert cut < as_set(*ends(edges))
    patches_of = [set() for _ in range(patch_set.num_nodes)]
    for patch in range(patch_set.num_patches):
        for node in patch_set.nodes_of(patch):
            patches_of[node].add(patch)
    negatives = as_set(*ends(negatives_of(global_pairs.pairs.source)))
    between = [not patches_of[u] & patches_of[v] for u, v in negatives]
    assert np.mean(between) > 0.3


# --- a share of the pairs ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("mask", [0.0, 0.6])
@pytest.mark.parametrize("fraction", [0.3, 0.05])
def test_a_share_of_the_pairs_has_the_full_loss_as_its_mean(split, patch_set, mask, fraction):
    """Against every edge and every allowed non-edge of the graph, whose number of draws is another."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(patch_set.num_rows, DIM, generator=generator)
    rows = rows * torch.linspace(0.1, 2.0, patch_set.num_rows)[:, None]  # nodes whose pairs cost very differently
    settings = replace(GLOBAL, mask=mask, score_fraction=fraction)
    per_edge = (mask or 1.0) * fraction
    pairs = global_pairs_of(split, patch_set, negatives_per_edge=per_edge)
    counts = [negatives_of(pairs.pairs.source, epoch).num_pairs for epoch in range(200)]
    wanted = per_edge * split.train.num_edges
    assert np.mean(counts) == pytest.approx(
        wanted, abs=8 + 4 * np.std(counts) / np.sqrt(200)
    )  # all rows of a tile draw
    bias = torch.tensor(-0.3)
    model = Autoencoder(1, DIM, learn_bias=True)
    with torch.no_grad():
        model.decoder.bias.copy_(bias)
        embedding = pairs.assemble(rows, patch_set.global_nodes)
        losses = [float(pairs.loss(model, embedding, settings, epoch)) for epoch in range(1500)]
    adjacency = split.train.adjacency.toarray() != 0
    allowed = ~adjacency & (split.held_out.toarray() == 0) & ~np.eye(len(adjacency), dtype=bool)
    full = dense_loss(embedding, np.nonzero(adjacency), np.nonzero(allowed), bias)
    error = np.std(losses) / np.sqrt(len(losses))
    assert error < 0.02 * full
    assert np.mean(losses) == pytest.approx(full, abs=4 * error)


# --- what the alignment does to the loss (issue 2) ---------------------------------------------------


def separate(split, patch_set):
    model = make_model(split, num_encoders=patch_set.num_patches)
    with torch.no_grad():  # as long as trained vectors are
        for encoder in model.encoders:
            encoder.weights[-1].mul_(3)
            encoder.skip.mul_(3)
    return model, batches_of(split, patch_set, together=False)


def turn_one_patch(frame):
    """The same frame with the second patch turned on the spot, by half a turn in every plane."""
    rotations = frame.rotations.clone()
    rotations[1] = -torch.eye(DIM)
    return Frame(rotations, frame.translations, frame.scales)


def test_across_patches_a_rotation_moves_the_loss_and_the_gradient(split, patch_set, global_pairs):
    model, batches = separate(split, patch_set)
    still = loss_and_gradients(model, batches, Frame.identity(3, DIM), GLOBAL, global_pairs)
    turned = loss_and_gradients(model, batches, turn_one_patch(Frame.identity(3, DIM)), GLOBAL, global_pairs)
    assert abs(turned[0] - still[0]) > 1e-2
    assert largest_difference(turned[1], still[1]) > 1e-2


def test_inside_patches_a_rotation_moves_nothing(split, patch_set):
    model, batches = separate(split, patch_set)
    inside = replace(GLOBAL, scope="inside")
    still = loss_and_gradients(model, batches, Frame.identity(3, DIM), inside, None)
    turned = loss_and_gradients(model, batches, turn_one_patch(Frame.identity(3, DIM)), inside, None)
    assert turned[0] == pytest.approx(still[0], abs=1e-5)
    assert largest_difference(turned[1], still[1]) < 1e-5


def test_turning_all_patches_together_moves_nothing(split, patch_set, global_pairs):
    """The gauge: inner products of the assembled embedding do not see a common rotation."""
    model, batches = separate(split, patch_set)
    frame = turn_one_patch(Frame.identity(3, DIM))
    common = random_frame(1, translate=False).rotations
    all_turned = Frame(frame.rotations @ common, frame.translations, frame.scales)
    first, second = (loss_and_gradients(model, batches, f, GLOBAL, global_pairs) for f in (frame, all_turned))
    assert first[0] == pytest.approx(second[0], abs=1e-5)
    assert largest_difference(first[1], second[1]) < 1e-5


def test_separate_encoders_each_learn_from_the_global_loss(split, patch_set, global_pairs):
    model, batches = separate(split, patch_set)
    loss_and_gradients(model, batches, random_frame(3), GLOBAL, global_pairs)
    first, second, third = (encoder.weights[0].grad for encoder in model.encoders)
    assert min(float(gradient.abs().max()) for gradient in (first, second, third)) > 1e-3
    assert not torch.allclose(first, second)


# --- what is hidden stays hidden --------------------------------------------------------------------


@pytest.mark.parametrize("score_fraction", [1.0, 0.4])
@pytest.mark.parametrize("scope", ["inside", "global"])
@pytest.mark.parametrize("together", [True, False])
def test_no_encoder_sees_an_edge_that_is_to_be_predicted(split, patch_set, scope, together, score_fraction):
    mask = 0.6
    batches = batches_of(split, patch_set, together=together)
    pairs = global_pairs_of(split, patch_set)
    held_back = as_set(*np.nonzero(split.held_out.toarray()))
    everything = as_set(*sp.coo_array(split.train.adjacency).coords)
    for epoch in range(10):
        seen, predicted, draws = set(), set(), EpochDraws(5, epoch, mask, mask * score_fraction)
        for batch in batches:
            seen |= seen_by(batch, draws)
        for source in [batch.pairs for batch in batches] if scope == "inside" else [pairs.pairs.source]:
            rows, columns = ends(source.draw_edges(draws))
            predicted |= as_set(source.nodes[rows], source.nodes[columns])
        assert not seen & predicted
        assert not (seen | predicted) & held_back
        assert seen | predicted <= everything
        cut = cut_edges(patch_set, split.train) if scope == "inside" else set()
        if score_fraction == 1.0 and scope == "inside":
            assert seen | predicted == everything - cut  # an edge inside a patch is one or the other
        assert len(predicted) > 100


def test_a_hidden_edge_cannot_reach_the_loss_through_the_encoder(split, patch_set, global_pairs):
    """Take the hidden edges out of the graph: the encoders give the same vectors."""
    model = make_model(split)
    settings = replace(GLOBAL, mask=0.5)
    rows, columns = ends(global_pairs.pairs.source.draw_edges(EpochDraws(0, EPOCH, 0.5, 0.5)))
    removed = sp.csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape=split.train.adjacency.shape)
    removed = sp.csr_array(removed + removed.T)
    left = sp.csr_array(split.train.adjacency - removed)
    left.eliminate_zeros()
    left.sort_indices()
    assert left.nnz == split.train.adjacency.nnz - removed.nnz
    frame = random_frame(3)
    features, held_out = split.train.features, split.held_out
    (masked,) = batches_of(split, patch_set)
    (without,) = prepare_batches(patch_set, left, features, held_out, propagate_once=False)
    found = EncodedBatch(model, masked, frame, settings, EPOCH).vectors
    expected = EncodedBatch(model, without, frame, GLOBAL, EPOCH).vectors
    open_eyes = EncodedBatch(model, masked, frame, GLOBAL, EPOCH).vectors
    assert torch.allclose(found, expected, atol=1e-5)
    assert not torch.allclose(found, open_eyes, atol=1e-2)


@pytest.mark.parametrize("protocol", ["heldout", "paper"])
def test_no_held_out_pair_nor_edge_is_drawn_as_a_negative(noisy, protocol):
    split = split_links(noisy, seed=0, protocol=protocol)
    patch_set = make_patches(split.train, partition(split.train.adjacency, 3))
    pairs = global_pairs_of(split, patch_set, negatives_per_edge=5.0)
    never = (split.held_out.toarray() != 0) | (noisy.adjacency.toarray() != 0) | np.eye(noisy.num_nodes, dtype=bool)
    drawn = np.zeros(never.shape, bool)
    for epoch in range(60):
        drawn[ends(negatives_of(pairs.pairs.source, epoch))] = True
    assert not (drawn & never).any()
    assert (drawn | drawn.T | never).mean() > 0.99  # and all others are


def test_negatives_are_fresh_or_fixed_in_the_global_scope_too(split, patch_set, global_pairs):
    embedding = torch.randn(patch_set.num_nodes, DIM, generator=torch.Generator().manual_seed(0))

    def losses(fresh):
        settings, model = replace(GLOBAL, fresh_negatives=fresh), Autoencoder(1, DIM)
        return [float(global_pairs.loss(model, embedding, settings, epoch)) for epoch in range(4)]

    assert len(set(losses(fresh=True))) == 4
    assert len(set(losses(fresh=False))) == 1


def test_inside_a_masked_patch_the_mean_is_over_its_hidden_edges(split, patch_set):
    """Σ N_j L_j / Σ N_j, L_j the mean over the edges hidden in patch j and the weighted sum over its non-edges."""
    model = make_model(split)
    (batch,) = batches = batches_of(split, patch_set)
    settings = ObjectiveSettings(mask=0.4)
    frame = random_frame(3)
    loss = accumulate_gradients(model, batches, frame, settings, EPOCH)
    embedding = EncodedBatch(model, batch, frame, settings, EPOCH).vectors
    hidden = batch.pairs.draw_edges(EpochDraws(0, EPOCH, 0.4, 0.4)).pair_list
    negatives = negatives_of(batch.pairs)
    expected = 0.0
    for low, high in zip(patch_set.offsets[:-1], patch_set.offsets[1:], strict=False):
        inside = [pairs.select((pairs.rows >= low) & (pairs.rows < high)) for pairs in (hidden, negatives)]
        share = (high - low) / batch.num_rows
        weight = weight_of(inside[1], share) / share
        expected += share * dense_loss(embedding, *map(ends, inside), -0.3, weight=weight)
    assert loss == pytest.approx(expected, rel=1e-5)


# --- masks between groups of nodes ------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["inside", "global"])
def test_groups_redrawn_hide_the_same_edges_in_one_block_and_patch_by_patch(split, patch_set, global_pairs, scope):
    model, frame = make_model(split), random_frame(3)
    settings = ObjectiveSettings(scope=scope, mask=1.0, mask_groups=3, score_fraction=0.8, feature_dropout=0.3)
    together, apart = (
        loss_and_gradients(model, batches_of(split, patch_set, together=t), frame, settings, global_pairs)
        for t in (True, False)
    )
    assert together[0] == pytest.approx(apart[0], abs=1e-6)
    assert largest_difference(together[1], apart[1]) < 1e-6
    assert all(float(gradient.abs().max()) > 1e-3 for gradient in together[1])


def test_what_groups_hide_is_what_is_predicted(split, patch_set, global_pairs):
    batches, source = batches_of(split, patch_set, together=False), global_pairs.pairs.source
    everything = as_set(*sp.coo_array(split.train.adjacency).coords)
    cut = cut_edges(patch_set, split.train)
    counts, previous = [], None
    for epoch in range(20):
        seen = set()
        for batch in batches:
            seen |= seen_by(batch, EpochDraws(5, epoch, hidden=1.0, num_groups=3))
        predicted = as_set(*ends(source.draw_edges(EpochDraws(5, epoch, hidden=1.0, num_groups=3))))
        assert not seen & predicted
        assert seen | predicted >= everything - cut
        assert predicted != previous
        counts.append(len(predicted))
        previous = predicted
    assert np.mean(counts) == pytest.approx(2 / 3 * len(everything), rel=0.05)


# --- alignment that the gradient passes through -----------------------------------------------------


def through(patch_set, **options):
    """A solver as the loop has it, exact enough for finite differences."""

    def solve(stacked):
        assert stacked.requires_grad
        options_ = {"tolerance": 1e-10, "max_steps": 300, "previous": Frame.identity(3, DIM), **options}
        offsets = torch.from_numpy(patch_set.offsets)
        return synchronise(stacked, offsets, patch_set.overlaps, differentiable=True, **options_)

    return solve


def constant(solve):
    return lambda stacked: solve(stacked).detach()


def gradients_through(model, batches, settings, pairs, solve):
    model.zero_grad()
    loss = accumulate_gradients(model, batches, Frame.identity(3, DIM), settings, EPOCH, pairs, solve)
    return loss, [parameter.grad.clone() for parameter in model.parameters()]


@pytest.mark.parametrize("share", [True, False], ids=["shared", "separate"])
@pytest.mark.parametrize("scope", ["inside", "global"])
def test_the_gradient_through_the_alignment_is_that_of_finite_differences(split, patch_set, global_pairs, scope, share):
    settings = ObjectiveSettings(scope=scope, mask=0.5)
    solve = through(patch_set)

    def fresh():  # linear, because a ReLU has kinks that finite differences see
        model = make_model(split, kind="linear", num_encoders=1 if share else patch_set.num_patches)
        with torch.no_grad():  # as long as trained vectors are
            for encoder in model.encoders:
                encoder.weights[0].mul_(3)
        return model

    model, batches = fresh(), batches_of(split, patch_set, together=share)
    _, gradients = gradients_through(model, batches, settings, global_pairs, solve)
    _, held = gradients_through(model, batches, settings, global_pairs, constant(solve))
    assert all(bool(torch.isfinite(gradient).all()) for gradient in gradients)
    # Along the direction in which the two differ most, only one of them can be right.
    direction = [mine - other for mine, other in zip(gradients, held, strict=True)]
    length = float(torch.cat([part.ravel() for part in direction]).norm())
    losses = []
    for step in (1e-2, -1e-2):
        moved = fresh()
        with torch.no_grad():
            for parameter, part in zip(moved.parameters(), direction, strict=True):
                parameter += step * part / length
        losses.append(gradients_through(moved, batches, settings, global_pairs, solve)[0])
    slope = (losses[0] - losses[1]) / 2e-2
    expected, wrong = (sum(float((a * d).sum()) for a, d in zip(g, direction, strict=True)) for g in (gradients, held))
    assert slope == pytest.approx(expected / length, rel=0.01)
    assert abs(slope - wrong / length) > 0.1 * abs(slope)


@pytest.mark.parametrize("variational", [False, True], ids=["plain", "variational"])
@pytest.mark.parametrize("scope", ["inside", "global"])
def test_through_in_one_block_and_patch_by_patch_is_the_same(split, patch_set, global_pairs, scope, variational):
    model, solve = make_model(split, variational=variational), through(patch_set)
    settings = ObjectiveSettings(scope=scope, mask=0.5, feature_dropout=0.2)
    together, apart = (
        gradients_through(model, batches_of(split, patch_set, together=t), settings, global_pairs, solve)
        for t in (True, False)
    )
    assert together[0] == pytest.approx(apart[0], abs=1e-6)
    size = max(float(gradient.abs().max()) for gradient in together[1])
    assert largest_difference(together[1], apart[1]) < 1e-4 * size


def test_a_constant_solution_is_the_held_frame(split, patch_set, global_pairs):
    model, batches = separate(split, patch_set)
    frame = random_frame(3)
    held = loss_and_gradients(model, batches, frame, GLOBAL, global_pairs)
    same = gradients_through(model, batches, GLOBAL, global_pairs, lambda stacked: frame)
    assert held[0] == pytest.approx(same[0], abs=1e-6)
    assert largest_difference(held[1], same[1]) < 1e-6
