"""Config: presets, overrides, and every refusal before anything is read."""

import json

import pytest

from l2g2g.config import Config, make_config
from l2g2g.errors import InputError
from l2g2g.methods import METHODS


def test_the_paper_preset_is_what_the_authors_ran():
    config = make_config("l2g2g", "paper")
    assert (config.partition, config.patches, config.overlap_range) == ("fennel", 10, (17, 34))
    assert (config.hidden, config.dim, config.layers) == (32, 16, 2)
    assert (config.lr, config.epochs, config.patience) == (0.001, 200, 0)
    assert (config.refresh_every, config.rotate, config.translate) == (10, True, False)
    assert (config.shares_encoder, config.learn_bias) == (True, False)
    assert (config.loss_scope, config.hidden_fraction, config.passes_whole_graph) == ("inside", 0.0, False)
    assert (config.feature_dropout, config.skip, config.feature_scaling) == (0.0, False, "binary")


@pytest.mark.parametrize(
    ("method", "options", "scope", "mask", "whole"),
    [
        ("l2g2g", {}, "global", 0.7, True),
        ("vl2g2g", {}, "global", 0.7, True),
        ("gae", {}, "global", 0.7, True),
        ("gae+l2g", {}, "inside", 0.7, False),
        ("fastgae", {}, "inside", 0.0, True),
        ("l2g2g", {"pairs": "all"}, "inside", 0.0, True),
        ("l2g2g", {"share_encoder": False}, "global", 0.7, False),
        ("l2g2g", {"scope": "inside", "mask": 0.0, "assembly": "mean"}, "inside", 0.0, False),
        ("l2g2g", {"pairs": "all", "mask": 0.3}, "inside", 0.3, True),
    ],
)
def test_what_is_left_open_follows_from_the_method(method, options, scope, mask, whole):
    config = make_config(method, **options)
    assert (config.loss_scope, config.hidden_fraction, config.passes_whole_graph) == (scope, mask, whole)


def test_only_separate_encoders_are_turned_and_shifted_unless_asked_for():
    for method, share, expected in (("l2g2g", None, False), ("l2g2g", False, True), ("gae+l2g", None, True)):
        config = make_config(method, share_encoder=share)
        assert (config.rotates, config.translates) == (expected, expected)
    asked = make_config("l2g2g", rotate=True, translate=True)
    assert (asked.rotates, asked.translates) == (True, True)
    assert not make_config("gae+l2g", rotate=False).rotates
    paper = make_config("l2g2g", "paper")
    assert (paper.rotates, paper.translates) == (True, False)


@pytest.mark.parametrize("method", METHODS)
def test_negatives_of_the_paper_are_fixed_for_patch_methods_only(method):
    assert make_config(method, "paper").negatives == ("fixed" if METHODS[method].uses_patches else "fresh")
    assert make_config(method).negatives == "fresh"
    assert make_config(method, "paper", negatives="fresh").negatives == "fresh"


def test_gae_l2g_has_separate_encoders_and_translations_in_the_paper():
    config = make_config("gae+l2g", "paper")
    assert not config.shares_encoder
    assert config.translate
    assert make_config("gae+l2g", share_encoder=True).shares_encoder


def test_options_win_over_presets_and_none_keeps_them():
    config = make_config("gae", "paper", lr=0.5, epochs=None, dim=3)
    assert (config.lr, config.epochs, config.dim, config.preset) == (0.5, 200, 3, "paper")
    assert config.overlap_range == (4, 8)
    assert make_config(min_overlap=50).overlap_range == (50, 50)
    assert make_config(min_overlap=2, target_overlap=5).overlap_range == (2, 5)


@pytest.mark.parametrize(
    ("sample_size", "num_nodes", "expected"),
    [("sqrt", 10_000, 100), ("authors", 10_000, 845), ("authors", 50, 50), (30, 10_000, 30), (30, 20, 20), (1, 9, 2)],
)
def test_sample_sizes(sample_size, num_nodes, expected):
    assert make_config("fastgae", sample_size=sample_size).num_sampled_nodes(num_nodes) == expected


def test_settings_survive_json():
    config = make_config("vl2g2g", "paper", dim=7, sample_size=12)
    assert Config(**json.loads(json.dumps(config.to_dict()))) == config
    assert set(config.to_dict()) == set(Config.names())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "l2g"}, "unknown method 'l2g'; did you mean 'l2g2g'"),
        ({"method": "x"}, "unknown method 'x'; choose from gae, fastgae, gae\\+l2g, l2g2g, vgae, vl2g2g"),
        ({"preset": "papr"}, "unknown preset 'papr'; did you mean 'paper'"),
        ({"dim": 0}, "--dim is 0; it must be at least 1"),
        ({"hidden": -3}, "--hidden is -3"),
        ({"layers": 0}, "--layers is 0"),
        ({"patches": 0}, "--patches is 0; it must be at least 1"),
        ({"refresh_every": 0}, "--refresh-every is 0"),
        ({"partition": "fennel", "fennel_passes": 0}, "--fennel-passes is 0; it must be at least 1"),
        ({"fennel_passes": 2}, "--fennel-passes is 2, and --partition is metis, not fennel"),
        ({"epochs": -1}, "--epochs is -1; it must not be negative"),
        ({"seed": -1}, "--seed is -1; it must not be negative"),
        ({"threads": -2}, "--threads is -2"),
        ({"lr": 0.0}, "--lr is 0.0; it must be positive"),
        ({"lr": float("nan")}, "--lr is nan; it must be positive"),
        ({"negatives_per_edge": 0}, "--negatives-per-edge is 0"),
        ({"partition": "mets"}, "unknown partition 'mets'; did you mean 'metis'"),
        ({"negatives": "stale"}, "unknown negatives 'stale'; choose from fresh, fixed"),
        ({"pairs": "some"}, "unknown pairs 'some'; choose from sampled, all"),
        ({"encoder": "gat"}, "unknown encoder 'gat'"),
        ({"feature_scaling": "log"}, "unknown feature-scaling 'log'"),
        ({"sample_size": "half"}, "--sample-size is 'half'; give a whole number, sqrt or authors"),
        ({"scope": "gobal"}, "unknown scope 'gobal'; did you mean 'global'"),
        ({"assembly": "sum"}, "unknown assembly 'sum'; choose from mean, whole"),
        ({"mask": 1.0}, "--mask is 1.0; it must be at least 0 and below 1"),
        ({"mask": -0.1}, "--mask is -0.1"),
        ({"mask": float("nan")}, "--mask is nan"),
        ({"feature_dropout": 1.0}, "--feature-dropout is 1.0; it must be at least 0 and below 1"),
        ({"score_fraction": 0.0}, "--score-fraction is 0.0; it must be above 0 and at most 1"),
        ({"score_fraction": 1.1}, "--score-fraction is 1.1"),
        ({"score_fraction": float("nan")}, "--score-fraction is nan"),
        ({"method": "gae+l2g", "scope": "global"}, "gae\\+l2g trains its patches apart; --scope global needs l2g2g"),
        ({"method": "fastgae", "scope": "global"}, "--scope global scores sampled pairs, not subgraph"),
        ({"scope": "global", "pairs": "all"}, "--scope global scores sampled pairs, not all"),
        ({"method": "gae+l2g", "assembly": "whole"}, "--assembly whole needs one shared encoder"),
        ({"share_encoder": False, "assembly": "whole"}, "use --share-encoder or --assembly mean"),
        ({"mask_by": "node"}, "unknown mask-by 'node'; did you mean 'nodes'"),
        ({"mask_by": "nodes", "mask": 0.0}, "--mask-by nodes hides nothing with --mask 0"),
        ({"preset": "paper", "mask_by": "nodes"}, "--mask-by nodes hides nothing with --mask 0"),
        ({"method": "fastgae", "mask_by": "nodes"}, "--mask-by nodes hides nothing with --mask 0"),
        ({"align_gradient": "back"}, "unknown align-gradient 'back'; choose from held, through"),
        ({"align_gradient": "through"}, "--align-gradient through needs an alignment; add --rotate"),
        ({"method": "gae", "align_gradient": "through"}, "needs patches aligned in training; gae has none"),
        ({"method": "gae+l2g", "align_gradient": "through"}, "needs patches aligned in training; gae\\+l2g has none"),
        ({"pathces": 3}, "unknown setting 'pathces'; did you mean 'patches'"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(InputError, match=message):
        make_config(**options)


@pytest.mark.parametrize(("mask", "groups"), [(None, 3), (0.5, 2), (0.2, 2), (0.75, 4), (0.9, 10)])
def test_the_groups_of_a_mask_come_nearest_to_its_fraction(mask, groups):
    config = make_config(mask=mask, mask_by="nodes")
    assert config.mask_groups == groups
    assert config.hidden_fraction == pytest.approx(1 - 1 / groups)
    assert make_config(mask=mask).mask_groups == 0


def test_every_method_reads_from_its_row():
    for name, row in METHODS.items():
        assert make_config(name).definition is row
        assert make_config(name).shares_encoder == row.share_encoder


def test_directed_graphs_have_the_asymmetric_decoder_unless_asked_otherwise():
    assert make_config("l2g2g", directed=True).decoder == "asymmetric"
    assert make_config("gae", "accurate", directed=True).decoder == "asymmetric"
    assert make_config("gae", directed=True, decoder="inner").decoder == "inner"
    assert make_config("gae", directed=False).decoder == "inner"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"decoder": "cosin"}, "unknown decoder 'cosin'; did you mean 'cosine'"),
        ({"decoder": "asymmetric"}, "it needs --directed"),
        ({"directed": True, "dim": 7}, "--dim is 7; --decoder asymmetric needs a multiple of 2"),
        ({"directed": True, "rotate": True}, "does not allow rotations"),
        ({"directed": True, "method": "gae+l2g"}, "does not allow rotations"),
        ({"directed": True, "method": "fastgae"}, "--directed needs sampled pairs; fastgae scores subgraph"),
        ({"directed": True, "pairs": "all"}, "--directed needs sampled pairs; l2g2g scores all"),
        ({"weighted_loss": True, "method": "fastgae"}, "--weighted-loss needs sampled pairs"),
        ({"negative_sampling": "degree", "pairs": "all"}, "--negative-sampling degree needs sampled pairs"),
        ({"negative_sampling": "degrees"}, "unknown negative-sampling 'degrees'; did you mean 'degree'"),
        ({"structure": "some"}, "unknown structure 'some'; choose from none, blend, spectral, auto"),
        ({"decoder": "product", "method": "fastgae"}, "--decoder product scores sampled pairs"),
    ],
)
def test_refusals_of_inputs_and_decoders(options, message):
    with pytest.raises(InputError, match=message):
        make_config(**options)


def test_auto_considers_structure_beside_the_features_unless_a_limit_of_memory_is_too_near():
    auto, limited = make_config("gae"), make_config("gae", memory=10**12)
    assert auto.considers_structure(10**7)
    assert limited.considers_structure(50_000)
    assert not limited.considers_structure(50_001)
    assert make_config("gae", structure="blend").considers_structure(10**9)
    assert not make_config("gae", structure="none").considers_structure(10)


@pytest.mark.parametrize("options", [{}, {"preset": "accurate", "decoder": "inner"}, {"preset": "accurate", "dim": 4}])
def test_direct_coordinates_that_cannot_be_are_refused_where_they_are_asked_for(options):
    with pytest.raises(InputError, match="--direct-width 8 needs"):
        make_config(direct_width=8, **options)
    assert make_config(**options).most_direct == 0  # the preset's own width gives way
    assert make_config(preset="accurate", direct_width=8).most_direct == 8


@pytest.mark.parametrize(("num_edges", "epochs"), [(4_999, 330), (5_000, 220), (19_999, 220), (20_000, 100)])
def test_a_falling_rate_trains_small_graphs_longer(num_edges, epochs):
    assert make_config("l2g2g", "accurate").num_epochs(num_edges) == epochs
    assert make_config("l2g2g").num_epochs(num_edges) == 300  # or until validation stops it
