"""What all studies have in common, and the figures of times, patches and heterogeneous models."""

import pytest

from l2g2g.errors import InputError
from l2g2g.graphs.stand_ins import VARIANTS
from l2g2g.paper import complexity, cuts, heterogeneous, patch_time, patches, training_time
from l2g2g.paper.cells import CONTENDERS, choose_contenders, contender_of
from l2g2g.paper.report import STUDIES
from l2g2g.paper.results import describe, latest, limits, pick, signed
from l2g2g.paper.study import Choice, timing_options
from l2g2g.reports.charts import Chart, draw_chart
from l2g2g.reports.page import DataTable, Entry


@pytest.mark.parametrize("name", STUDIES)
def test_every_plan_can_be_run(name):
    for choice in (Choice(), Choice(quick=True)):
        cells = STUDIES[name].plan(choice)
        assert cells
        assert len({cell.key for cell in cells}) == len(cells)
        for cell in cells:
            _ = cell.config
    assert len(STUDIES[name].plan(Choice(quick=True))) < len(STUDIES[name].plan(Choice()))


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_presents_no_lines_too(name):
    assert STUDIES[name].present([], quick=False)
    failure = {"key": "k", "cell": {"dataset": "a", "method": "gae", "preset": "paper", "options": {}}, "error": "x"}
    assert STUDIES[name].present([failure], quick=False)


def test_unknown_methods_are_refused():
    assert choose_contenders(None) == list(CONTENDERS)
    with pytest.raises(InputError, match="did you mean 'gae'"):
        choose_contenders(["gea"])


def test_lines_are_known_by_method_and_preset(make_row):
    for name in CONTENDERS:
        assert contender_of(make_row("a", name)) == name
    assert contender_of({"cell": {"method": "l2g2g", "preset": "accurate"}}) is None


def test_the_latest_line_that_went_well_counts():
    rows = [{"key": "a", "auc": 1}, {"key": "a", "error": "x"}, {"key": "b", "error": "x"}, {"key": "a", "auc": 2}]
    assert latest(rows) == [{"key": "a", "auc": 2}, {"key": "b", "error": "x"}]
    assert latest(rows[:3])[0] == {"key": "a", "auc": 1}
    assert latest([{"key": "b", "error": "x"}, {"key": "b", "auc": 3}]) == [{"key": "b", "auc": 3}]


def test_picking(make_row):
    rows = [make_row("a", "gae"), make_row("b", "gae", protocol="paper"), {"cell": {"dataset": "a"}, "error": "x"}]
    assert pick(rows, dataset="a") == rows[:1]
    assert pick(rows, protocol="paper") == rows[1:2]
    assert pick(rows, options={"epochs": 3}) == []
    assert limits([make_row("a", "gae", best_auc=0.5), make_row("a", "l2g2g", best_auc=0.5)]) == [50.0]


def table_of(blocks):
    (table,) = [block for block in blocks if isinstance(block, DataTable)]
    return table


def test_training_time_counts_alignment_and_compares_with_gae(make_row):
    options = timing_options(False)
    seconds = {"epoch_median": 0.1, "synchronise": 2.0, "partition": 7.0, "total": 9.0}
    rows = [make_row("a", "gae", options=options, epoch=0.4), make_row("a", "l2g2g", options=options, seconds=seconds)]
    first, second = table_of(training_time.present(rows, quick=False)).rows
    assert first[3:5] == ["0.4000", "1.00"]
    assert second[3:7] == ["0.2000", "0.50", "2.000", "7.00"]  # 0.1 + 2.0 / 20


def test_patches_have_one_column_for_each_count_and_the_change(make_row):
    rows = [
        make_row("a", "l2g2g", protocol="paper", seed=seed, options={"patches": count}, auc=auc)
        for count, scores in {2: (0.9, 0.92), 10: (0.88,)}.items()
        for seed, auc in enumerate(scores)
    ]
    (line,) = table_of(patches.present(rows, quick=False)).rows
    assert line == ["a", "L2G2G", "91.00 ± 1.41", "88.00", "-3.00"]
    assert table_of(patches.present(rows, quick=False)).columns == ["data set", "method", "2", "10", "change"]
    chart = patches.present(rows, quick=False)[2]
    assert chart.panels[0].counts
    (series,) = [series for series in chart.panels[0].series if series.x]
    assert (series.x, series.y) == ([2.0, 10.0], pytest.approx([91, 88]))
    assert series.bounds == [pytest.approx((91 - 2**0.5, 91 + 2**0.5)), pytest.approx((88, 88))]
    assert patches.options_of("reddit-like", 3, False) == {"patches": 3, "epochs": 30}


def test_cuts_stand_beside_gae_and_the_print_in_the_order_of_the_edges_they_keep(make_row):
    rows = [make_row("sbm-large", "gae", protocol="paper", auc=0.88)]
    for cut, kept, auc in (("METIS", 0.6, 0.87), ("FENNEL, 1 pass", 0.2, 0.7)):
        how = {"protocol": "paper", "options": cuts.options_of(cut, False), "kept_edge_fraction": kept}
        rows.append(make_row("sbm-large", "gae+l2g", auc=auc, **how))
    blocks = cuts.present(rows, quick=False)
    first, last = table_of(blocks).rows
    assert first == ["sbm-large", "FENNEL, 1 pass", "20", "88.00", "86.84", "70.00", "84.60"]
    assert last[1:3] == ["METIS", "60"]
    gae, local, ours = blocks[2].panels[0].series
    assert (gae.x, gae.y) == (pytest.approx([20, 60]), pytest.approx([88, 88]))
    assert (local.x, local.y) == (pytest.approx([20, 60]), pytest.approx([70, 87]))
    assert not ours.x


def test_gae_is_run_once_for_all_cuts():
    cells = cuts.plan(Choice(datasets=("a",), seeds=1))
    assert len(cells) == 2 * (1 + 2 * len(cuts.CUTS))
    assert [cell.options for cell in cells if cell.method == "gae"] == [{}, {}]
    assert {cell.method for cell in cuts.plan(Choice(methods=("l2g2g", "default")))} == {"l2g2g"}


def test_stand_ins_are_tried_less():
    counts = {}
    for study in (patches, patch_time):
        for cell in study.plan(Choice()):
            counts.setdefault((study, cell.dataset), set()).add((cell.options["patches"], cell.protocol))
    assert counts[patches, "yelp-like"] == {(count, "heldout") for count in (2, 5, 10)}
    assert len(counts[patches, "sbm-small"]) == 18
    assert counts[patch_time, "reddit-like"] == {(count, "heldout") for count in (2, 10, 30)}
    assert len(counts[patch_time, "cora-ml"]) == 7


def test_patch_time_shows_how_large_patches_are(make_row):
    rows = [make_row("a", "l2g2g", options=timing_options(False, patches=10), epoch=0.3)]
    (line,) = table_of(patch_time.present(rows, quick=False)).rows
    assert line == ["a", "L2G2G", "10", "0.3000", "0.50", "1.50", "200", "2.00"]


def test_heterogeneous_models_stand_beside_their_limit(make_row):
    rows = [make_row("hetero-all", name, auc=auc, best_auc=0.9) for name, auc in (("gae", 0.8), ("default", 0.85))]
    (line,) = table_of(heterogeneous.present(rows, quick=False)).rows
    assert line[1] == VARIANTS["hetero-all"].description
    assert line[2:] == [Entry("80.00"), Entry("85.00", best=True), "90.00", "5.00"]
    assert {cell.dataset for cell in heterogeneous.plan(Choice())} == set(VARIANTS)


def test_the_sizes_of_heterogeneous_models_are_counted(make_row):
    def words(**fields):
        rows = [make_row("hetero-all", "gae"), make_row("mine", "gae", **fields)]
        return heterogeneous.present(rows, quick=False)[0]

    assert "The graphs have 1,000 nodes, 5,000 edges and 10 feature columns." in words()
    assert "The graphs have 1,000 to 2,000 nodes, 5,000 edges and" in words(num_nodes=2000)


@pytest.mark.parametrize("study", [training_time, patch_time, complexity])
def test_times_have_a_band_from_the_fastest_repetition_to_the_slowest(study, make_row):
    more = {"patches": 2} if study is patch_time else {}
    graphs = [point.dataset for point in complexity.sweeps(False)[0].points] if study is complexity else ["a"]
    rows = [
        make_row(graph, "l2g2g", options=timing_options(False, **more), seed=seed, epoch=epoch)
        for graph in graphs
        for seed, epoch in enumerate((0.1, 0.4, 0.2))
    ]
    chart = study.present(rows, quick=False)[-1]
    (series,) = [series for series in chart.panels[0].series if series.x]
    assert (series.y[0], series.bounds[0]) == (0.2, (0.1, 0.4))
    assert "fastest repetition to the slowest" in chart.caption


@pytest.mark.slow
def test_no_study_draws_a_panel_without_points(make_row, tmp_path):
    rows = [make_row("a", "l2g2g", protocol="paper", options={"patches": count}) for count in (2, 3)]
    rows.append(make_row("yelp-like", "l2g2g", options=patches.options_of("yelp-like", 2, False)))
    charts = {block.name: block for block in patches.present(rows, quick=False) if isinstance(block, Chart)}
    for name, drawn, missing in (("patches-paper-auc", "a", "yelp-like"), ("patches-heldout-auc", "yelp-like", "a")):
        text = draw_chart(charts[name], tmp_path)[0].read_text()
        assert f">{drawn}<" in text
        assert f">{missing}<" not in text


def test_differences_have_a_sign_and_nothing_has_none():
    assert [signed(value) for value in (0.004, -0.004, 0.005001, -1.0)] == ["0.00", "0.00", "+0.01", "-1.00"]
    assert describe([-0.001, -0.002]) == "0.00 ± 0.00"
