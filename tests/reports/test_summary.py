"""Sentences about runs: what was measured is said, and what was not is not claimed."""

from dataclasses import replace

import pytest

from l2g2g.evaluation.intervals import Interval
from l2g2g.reports.run_page import cards, explain_pairs, summarise
from l2g2g.runs.record import PatchFacts


@pytest.fixture
def scored(record):
    """The record with round figures."""
    auc, precision = Interval(0.9, 0.85, 0.94), Interval(0.8, 0.7, 0.9)
    return replace(record, separation=replace(record.separation, auc=auc, average_precision=precision))


def test_how_good_how_sure_how_long_and_what_was_cleaned(scored):
    text = " ".join(summarise(scored))
    assert "90.0 times in 100" in text
    assert "lies within 85.00 % to 94.00 %" in text
    assert "3.0 s in total for 4 epochs" in text
    assert "Cleaned from the input: 3 self-loops dropped." in text
    assert "Peak memory: 1.00 GiB." in text
    assert "(0.5 before alignment)" in text
    assert cards(scored)[0] == ("90.00 %", "AUC, 95 % interval 85.00 % to 94.00 %")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("test", "training has not seen them"),
        ("validation", "new pairs would score slightly lower"),
        ("training", "not how well they predict"),
        ("paper", "not comparable"),
    ],
)
def test_what_the_pairs_were_is_said(scored, kind, words):
    separation = replace(scored.separation, kind=kind)
    assert words in explain_pairs(separation)
    assert words in " ".join(summarise(replace(scored, separation=separation)))


def test_what_is_not_known_is_not_said(scored):
    text = " ".join(summarise(replace(scored, separation=None, row={})))
    assert "no pairs were scored" in text
    assert "times in 100" not in text
    assert [what for _, what in cards(replace(scored, separation=None, row={}))] == ["nodes", "edges"]


def test_trouble_and_limits_are_said(scored):
    history = replace(scored.history, recoveries=2, best_epoch=2, resumed_from_epoch=1)
    text = " ".join(summarise(replace(scored, history=history, row={"best_auc": 0.93})))
    assert "restarted from its last good state 2 times" in text
    assert "epoch 2, which was kept" in text
    assert "resumed from epoch 1" in text
    assert "that generated this graph is 93.00 %" in text


def test_patches(scored):
    text = " ".join(summarise(replace(scored, patches=PatchFacts([40]))))
    assert "patch" not in text
    unaligned = replace(scored, settings={**scored.settings, "rotate": None})
    assert "; 1 pair overlaps." in " ".join(summarise(unaligned))
    assert "apart on average" not in " ".join(summarise(unaligned))
    joined = replace(scored.patches, num_joined=1, final_pass=True, before=0.25)
    text = " ".join(summarise(replace(scored, patches=joined)))
    assert "1 overlaps were added" in text
    assert "without patches" in text
    assert "before alignment" not in text
