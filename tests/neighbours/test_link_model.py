"""Link model: kept as JSON to the bit, refused where it is damaged, and nothing for directed decoders."""

import json

import numpy as np
import pytest

from l2g2g.errors import InputError
from l2g2g.graphs.splits import split_links
from l2g2g.models.decoders import DECODERS
from l2g2g.neighbours.link_model import LinkModel, fit_link_model, top_combined


@pytest.fixture(scope="module")
def fitted(planted):
    split = split_links(planted, seed=1)
    vectors = (np.eye(4)[planted.labels] + 0.1 * np.random.default_rng(0).normal(size=(120, 4))).astype(np.float32)
    decoder = DECODERS["inner"](4)
    model = fit_link_model(split.train, vectors, decoder, split.validation, split.held_out, seed=0)
    return split, vectors, decoder, model


def test_what_is_fitted_and_kept(fitted, planted):
    split, _, _, model = fitted
    assert model.chosen in ("vectors", "combined")
    assert set(model.scorers) == {"plain", "combined"}  # nodes have features
    assert set(model.calibrations) == {"vectors", "plain", "combined"}
    num_validation = len(split.validation.positive)
    assert model.share == num_validation / (num_validation + split.train.num_edges)
    again = LinkModel.from_dict(json.loads(json.dumps(model.to_dict())), "run")
    assert again.to_dict() == model.to_dict()


@pytest.mark.parametrize("damage", [{"share": 0.0}, {"share": "x"}, {"calibrations": {}}, {"scorers": None}], ids=str)
def test_damage_is_told_with_the_run(fitted, damage):
    with pytest.raises(InputError, match=r"^runs/a: its link model cannot be read"):
        LinkModel.from_dict({**fitted[3].to_dict(), **damage}, "runs/a")


def test_the_likeliest_links_are_no_edges_and_mostly_inside_blocks(fitted, planted):
    split, vectors, decoder, model = fitted
    found = top_combined(model.scorers["combined"], split.train, vectors, decoder, 30)
    assert len(found.sources) == 30
    assert (np.diff(found.scores) <= 0).all()
    assert (np.asarray(split.train.adjacency[found.sources, found.targets]) == 0).all()
    assert (planted.labels[found.sources] == planted.labels[found.targets]).mean() > 0.9


def test_directed_decoders_have_none(fitted):
    split, vectors, _, _ = fitted
    decoder = DECODERS["asymmetric"](4)
    assert fit_link_model(split.train, vectors, decoder, split.validation, split.held_out, seed=0) is None
