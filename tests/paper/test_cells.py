"""Cells: stable keys, and lines that say what was run."""

from dataclasses import replace

import pytest

from l2g2g.errors import Interrupted
from l2g2g.paper.cells import Cell, run_cell

CELL = Cell("tiny", options={"patches": 3, "epochs": 2}, seed=1)


def test_a_key_names_what_is_run_and_nothing_else():
    assert CELL.key == Cell("tiny", options={"epochs": 2, "patches": 3}, seed=1).key
    others = [
        replace(CELL, seed=2),
        replace(CELL, dataset="small"),
        replace(CELL, method="gae"),
        replace(CELL, protocol="paper"),
        replace(CELL, options={"patches": 4, "epochs": 2}),
    ]
    assert len({CELL.key, *(cell.key for cell in others)}) == 6
    assert CELL.key == "b930c1d53a3bf43f"  # committed results are found by it


def test_an_error_that_is_no_answer_of_ours_does_not_stop_the_rest_either():
    line = run_cell(CELL, {}.__getitem__)
    assert line["error"].startswith("KeyError")


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), Interrupted(15)])
def test_an_interruption_is_no_failure_even_where_compiled_code_made_an_error_of_it(stop):
    def leave(_):
        raise SystemError("returned a result with an exception set") from stop

    with pytest.raises(type(stop)) as raised:
        run_cell(CELL, leave)
    assert raised.value is stop
