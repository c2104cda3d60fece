"""Complexity: exponents that are recovered, and sweeps that vary one thing."""

import pytest

from l2g2g.graphs.stand_ins import find_stand_in
from l2g2g.paper import complexity
from l2g2g.paper.complexity import fit_exponent
from l2g2g.paper.study import Choice, timing_options


def test_exponents_are_recovered():
    fit = fit_exponent([1, 2, 4, 8], [5 * x**1.5 for x in (1, 2, 4, 8)])
    assert fit.exponent == pytest.approx(1.5)
    assert fit.error == pytest.approx(0, abs=1e-9)
    assert fit_exponent([1, 2, 4], [1, 2.2, 3.9]).error > 0
    assert fit_exponent([1, 2], [1, 4]).error == float("inf")
    assert fit_exponent([1], [1]) is None


@pytest.mark.parametrize("quick", [True, False])
def test_each_sweep_varies_one_quantity(quick):
    for sweep in complexity.sweeps(quick):
        graphs = [find_stand_in(point.dataset) for point in sweep.points]
        varied = {
            "n": {graph.num_nodes for graph in graphs},
            "m": {graph.num_edges for graph in graphs},
            "f": {graph.num_features for graph in graphs},
        }
        changes = {name for name, values in varied.items() if len(values) > 1}
        # With M / N held N and M grow together.
        assert changes == {"n": {"n", "m"}, "pairs": {"n", "m"}, "m": {"m"}, "f": {"f"}}.get(sweep.name, set())
        assert len({graph.num_edges / graph.num_nodes for graph in graphs}) == 1 or sweep.name == "m"
        assert len(sweep.points) == len({point.value for point in sweep.points}) >= 2


def test_every_cell_can_be_configured_and_is_planned_once():
    cells = complexity.plan(Choice())
    assert len({cell.key for cell in cells}) == len(cells)
    assert {cell.config.loss_pairs for cell in cells} == {"sampled", "subgraph", "all"}
    assert {cell.config.layers for cell in cells} == {1, 2, 4}
    assert all(cell.config.patience == 0 for cell in cells)
    assert {cell.method for cell in complexity.plan(Choice(methods=("gae",)))} == {"gae"}


def test_the_table_holds_fits_and_bounds(make_row):
    sweep = complexity.sweeps(False)[0]
    rows = [
        make_row(point.dataset, "gae", options=timing_options(False), epoch=1e-9 * point.value**2)
        for point in sweep.points
    ]
    table = complexity.present(rows, quick=False)[1]
    assert ["N (M / N constant)", "GAE", "16,000 – 128,000", "2.00 ± 0.00", "1", "no"] in table.rows
