"""Performance: which cells, and that tables hold what the lines say beside what the paper prints."""

from l2g2g.paper import cuts, performance
from l2g2g.paper.cells import CONTENDERS
from l2g2g.paper.study import Choice
from l2g2g.reports.page import DataTable, Entry


def tables(blocks):
    return [block for block in blocks if isinstance(block, DataTable)]


def test_the_plan_is_four_methods_and_the_default_ten_seeds_both_protocols():
    cells = performance.plan(Choice())
    small = [cell for cell in cells if cell.dataset == "sbm-small"]
    assert len(small) == 10 * 2 * 5
    assert {cell.seed for cell in small} == set(range(10))
    assert {cell.protocol for cell in small} == {"paper", "heldout"}
    presets = {(cell.method, cell.preset) for cell in small}
    assert presets == {(m, "paper") for m in ("gae", "fastgae", "gae+l2g", "l2g2g")} | {("l2g2g", "default")}
    assert {cell.seed for cell in cells if cell.dataset == "sbm-large-dense"} == {0, 1, 2}
    assert all(cell.options == {} for cell in cells)
    chosen = performance.plan(Choice(("cora",), ("gae",), 2, quick=True))
    assert [cell.seed for cell in chosen] == [0, 0, 1, 1]
    assert all((cell.dataset, cell.options) == ("cora", {"epochs": 10}) for cell in chosen)


def test_tables_show_mean_and_deviation_marks_and_the_printed_value(make_row):
    scores = {"gae": (0.95, 0.97), "fastgae": (0.90,), "gae+l2g": (0.97,), "l2g2g": (0.93,)}
    rows = [
        make_row("cora-ml", name, seed=seed, auc=auc, protocol="paper")
        for name, values in scores.items()
        for seed, auc in enumerate(values)
    ]
    rows.append(make_row("cora-ml", "gae", options={"epochs": 10}, protocol="paper", auc=0.1))  # a quick run
    auc, ap, differences = tables(performance.present(rows, quick=False))
    assert auc.columns[2:4] == ["GAE", "printed"]
    (line,) = auc.rows
    assert line[:4] == ["cora-ml", "2", Entry("96.00 ± 1.41"), "95.95 ± 0.42"]
    assert line[4] == Entry("90.00")
    assert line[6] == Entry("97.00", best=True, better=True)
    assert line[8:10] == [Entry("93.00"), "92.58 ± 0.35"]
    assert len(line) == len(auc.columns) == 10  # the default was not run, and a real graph has no limit
    assert ap.rows[0][3] == "95.37 ± 0.57"
    assert [row[:4] for row in differences.rows] == [
        ["cora-ml", "GAE", "+0.05", "+0.4"],
        ["cora-ml", "FastGAE", "+6.10", "+3.9"],
        ["cora-ml", "GAE+L2G", "+6.75", "+6.9"],
        ["cora-ml", "L2G2G", "+0.42", "+2.1"],
    ]


def test_what_is_printed_stands_only_beside_the_papers_evaluation_and_the_method(make_row):
    names = ("gae", "l2g2g", "default")
    rows = [make_row("cora-ml", name, protocol=protocol) for name in names for protocol in ("paper", "heldout")]
    paper, _, heldout, *_ = tables(performance.present(rows, quick=False))
    assert paper.columns == ["data set", "seeds", "GAE", "printed", "L2G2G", "printed", "default"]
    assert heldout.columns == ["data set", "seeds", "GAE", "L2G2G", "default"]
    assert "The method “default” is" in performance.present(rows, quick=False)[0]


def test_the_cut_is_the_possible_reason_where_it_keeps_few_edges(make_row):
    def reason(**fields):
        rows = [make_row("sbm-large-dense", "l2g2g", protocol="paper", **fields)]
        (line,) = tables(performance.present(rows, quick=False))[-1].rows
        return line[-1]

    assert reason(auc=0.6, kept_edge_fraction=0.31) == (
        "One pass of FENNEL keeps 31 % of the edges in patches: see “How the patches are cut”."
    )
    assert "FENNEL keeps" not in reason(auc=0.6, kept_edge_fraction=0.8)
    assert "FENNEL keeps" not in reason(auc=0.6)
    assert "FENNEL keeps" not in reason(auc=0.7, kept_edge_fraction=0.31)  # better than printed
    assert reason(auc=0.66, kept_edge_fraction=0.31) == "agrees within half a point"
    assert cuts.TITLE == "How the patches are cut"


def test_the_limit_of_a_split_counts_once(make_row):
    rows = [
        make_row("sbm-small", name, seed=seed, best_auc=best)
        for name in CONTENDERS
        for seed, best in enumerate((0.82, 0.84))
    ]
    auc = tables(performance.present(rows, quick=False))[0]
    assert auc.rows[0][-1] == "83.00 ± 1.41"


def test_the_figure_has_the_printed_values_only_under_the_papers_evaluation(make_row):
    rows = [make_row("cora-ml", "gae", protocol=protocol) for protocol in ("paper", "heldout")]
    paper, heldout = performance.present(rows, quick=False)[-1].panels
    assert [series.y for series in paper.series if series.label == "GAE, as printed"] == [[95.95]]
    assert not [series for series in heldout.series if "printed" in series.label]
    assert paper.ticks == ["cora-ml"]
