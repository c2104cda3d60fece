"""Ablation: which variants, and that every figure of the report comes from the lines."""

from itertools import combinations
from pathlib import Path

import pytest

from l2g2g.paper import ablation
from l2g2g.paper.ablation import DEFAULT, FACTORS, PAPER, Effect, Variant, collect, effect_of
from l2g2g.paper.report import build_document, read_evidence
from l2g2g.paper.study import Choice
from l2g2g.reports.page import Entry
from l2g2g.reports.tables import render_section

DOCS = Path(__file__).parents[2] / "docs"


def line(variant, auc, dataset="a", seed=0):
    options = {**variant.options, "epochs": 100}
    return {"cell": {"dataset": dataset, "seed": seed, "options": options}, "auc": auc}


def test_every_level_of_every_factor_is_tried_around_both_bases():
    for base in (DEFAULT, PAPER):
        tried = {(factor, level.split(",")[0]) for factor, level, _ in ablation.one_at_a_time(base)}
        levels = {(f, level) for f, choices in FACTORS.items() for level in choices if level != getattr(base, f)}
        assert tried == levels


def test_every_variant_can_be_configured_and_is_what_its_name_says():
    for cell in ablation.plan(Choice(("sbm-small",), seeds=1)):
        assert cell.config.num_patches(10_000) == 10
    configs = {variant: ablation.Cell("a", options=variant.options).config for variant in ablation.variants()}
    assert len(configs) == len(ablation.variants()) > 30
    for first, second in combinations(configs, 2):
        assert configs[first] != configs[second], (first, second)
    assert configs[DEFAULT].loss_scope == "global"
    assert configs[DEFAULT].hidden_fraction == 0.7
    assert configs[DEFAULT].passes_whole_graph
    paper = configs[PAPER]
    assert (paper.loss_scope, paper.hidden_fraction, paper.negatives, paper.rotates) == ("inside", 0.0, "fixed", True)


def test_encoders_alignment_and_assembly_are_crossed_in_full():
    (crossed,) = [section for section in ablation.sections() if "in full" in section.title]
    found = {(v.encoders, v.alignment, v.assembly) for _, _, v in crossed.rows}
    possible = {
        (encoders, alignment, assembly)
        for encoders in FACTORS["encoders"]
        for alignment in FACTORS["alignment"]
        for assembly in FACTORS["assembly"]
        if Variant(encoders, alignment, assembly=assembly).possible
    }
    assert found == possible
    assert len(found) == 12


def test_differences_are_paired_by_graph_and_seed():
    masked = Variant(mask="none")
    rows = [line(DEFAULT, 0.90), line(DEFAULT, 0.80, seed=1), line(DEFAULT, 0.70, "b")]
    rows += [line(masked, 0.91), line(masked, 0.79, seed=1), line(masked, 0.75, "b"), line(masked, 0.5, "b", seed=3)]
    found = collect([*rows, {"cell": {"options": {}}, "auc": 1.0}, {"cell": {"options": {}}, "error": "x"}], 100)
    assert found[masked].minus(found[DEFAULT], "a") == pytest.approx([1.0, -1.0])
    effect = effect_of(found[masked], found[DEFAULT], ["a", "b"])
    assert effect.by_dataset == pytest.approx({"a": 0.0, "b": 5.0})
    assert effect.mean == pytest.approx(2.5)  # every graph once
    assert effect_of(found[PAPER], found[DEFAULT], ["a", "b"]) is None
    assert not collect(rows, 50)[DEFAULT].auc  # another number of epochs is another study


@pytest.mark.parametrize(
    ("effect", "verdict"),
    [
        (Effect(1.0, 0.1, {"a": 1.0, "b": 1.0}), "helps"),
        (Effect(-1.0, 0.1, {"a": -1.9, "b": -0.1}), "costs"),
        (Effect(0.1, 0.01, {"a": 0.1}), "no clear difference"),  # too small to matter
        (Effect(1.0, 0.6, {"a": 1.0}), "no clear difference"),  # drowned by the seeds
        (Effect(1.0, 0.1, {"a": 3.0, "b": -1.0}), "no clear difference"),  # graphs disagree
        (Effect(5.0, float("inf"), {"a": 5.0}), "too few runs to say"),  # one seed
    ],
)
def test_verdicts(effect, verdict):
    assert effect.verdict == verdict


@pytest.mark.slow
def test_the_tables_hold_the_figures_and_the_failures(make_row, tmp_path):
    def run(variant, seed, **fields):
        return make_row("a", "default", options={**variant.options, "epochs": ablation.EPOCHS}, seed=seed, **fields)

    fixed = Variant(negatives="fixed")
    rows = [run(DEFAULT, seed, auc=0.9) for seed in (0, 1)] + [run(fixed, seed, auc=0.8) for seed in (0, 1)]
    for seed in (5, 0):  # seed 0 failed once, and then not
        failure = {"key": "failed", "cell": run(fixed, seed)["cell"], "error": "NumericalError: too hot"}
        rows.insert(0, failure)
    _, first, *_, picture = ablation.present(rows, quick=False)
    assert first.columns == ["factor", "level", "a", "Δ", "mean Δ", "verdict"]
    assert first.rows[0] == [Entry("base", best=True), "the default", "90.00 ± 0.00", "", "", ""]
    line = ["negatives", "fixed", "80.00 ± 0.00 (1 failed)", "-10.00 ± 0.00", "-10.00", "costs"]
    assert line in first.rows
    assert len(first.rows) == 2  # levels without a run have no row
    ablation.draw_differences(rows, False, tmp_path)
    assert "negatives: fixed" in (tmp_path / f"{picture.name}.svg").read_text()


@pytest.mark.slow
def test_the_docs_show_the_tables_of_the_committed_lines():
    evidence = read_evidence(DOCS / "results" / "reproduce", quick=False)
    assert {row["cell"]["dataset"] for row in evidence.of("ablation")} == set(ablation.DATASETS)
    (section,) = [part for part in build_document(evidence, []).sections if part.name == "ablation"]
    assert render_section(section, "results/reproduce/figures") in (DOCS / "ablation.md").read_text()
