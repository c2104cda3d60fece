"""The scoreboard: runs the fault tests and prints one line for every row of the table.

python tests/faults/scoreboard.py           all trials (50 kills, a million nodes, …)
python tests/faults/scoreboard.py --short   the part that runs with the other tests
Ends with `N of M hold`; the exit code is 0 only where all do.
"""

import os
import sys
import textwrap
from collections import defaultdict
from pathlib import Path

import pytest

HERE = Path(__file__).parent
WIDTH = 60


class Score:
    """Collects by row: which tests there are, which failed, and what they say happened."""

    def __init__(self, table):
        self.table, self.rows_of = table, {}
        self.tests, self.failed, self.left_out = defaultdict(set), defaultdict(set), defaultdict(set)
        self.happened = defaultdict(list)

    def pytest_collection_modifyitems(self, config, items):
        """Only tests that belong to a row."""
        chosen = [item for item in items if item.get_closest_marker("fault")]
        self.rows_of = {
            item.nodeid: [row for mark in item.iter_markers("fault") for row in mark.args] for item in chosen
        }
        for name, rows in self.rows_of.items():
            for row in rows:
                self.tests[row].add(name)
        items[:] = chosen

    def pytest_runtest_logreport(self, report):
        """A row holds where none of its tests failed, and none was left out."""
        rows = self.rows_of[report.nodeid]
        for row in rows:
            if report.failed:
                self.failed[row].add(report.nodeid)
            if report.skipped:
                self.left_out[row].add(report.nodeid)
            if report.when == "call":
                self.happened[row] += [text for name, text in report.user_properties if name == "happened"]

    def holds(self, row):
        return bool(self.tests[row]) and not self.failed[row] and not self.left_out[row]

    def broken(self, row):
        return not self.tests[row] or bool(self.failed[row])

    def verdict(self, row):
        return "NO" if self.broken(row) else "part" if self.left_out[row] else "yes"

    def lines(self):
        """The table."""
        yield f"{'row':>4}  {'injected':<{WIDTH}}  {'held':<4}  what happened"
        for row, (injected, expected) in self.table.items():
            told = list(dict.fromkeys(self.happened[row])) or [f"{expected} ({len(self.tests[row])} tests)"]
            if not self.tests[row]:
                told = ["no test"]
            told = [f"failed: {name.split('::')[-1]}" for name in sorted(self.failed[row])] or told
            told += [f"not run: {name.split('::')[-1]}" for name in sorted(self.left_out[row])]
            shown = textwrap.shorten(injected, WIDTH, placeholder=" …")
            yield f"{row!s:>4}  {shown:<{WIDTH}}  {self.verdict(row):<4}  {'; '.join(told)}"


def main():
    from table import ROWS  # beside this file, and not on the path of the tests that import it

    os.environ["L2G2G_FAULTS"] = "short" if "--short" in sys.argv else "complete"
    score = Score(ROWS)
    pytest.main([str(HERE), "-q", "--no-header", "-p", "no:cacheprovider", "-m", "fault"], plugins=[score])
    print()
    for line in score.lines():
        print(line)
    held = sum(score.holds(row) for row in ROWS)
    print(f"{held} of {len(ROWS)} hold")
    return any(score.broken(row) for row in ROWS) if "--short" in sys.argv else held < len(ROWS)


if __name__ == "__main__":
    sys.exit(main())
