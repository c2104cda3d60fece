"""Print docs/options.md: every training option with its defaults, from the table of `Config`.

    python docs/tools/options_page.py > docs/options.md

A test compares the page with the code.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import get_args

from l2g2g.config import OPTIONS
from l2g2g.estimators.parameters import FIT_OPTIONS
from l2g2g.options import PRESET_NAMES, Group, Option, in_python

HEAD = """# Training options

Printed by `python docs/tools/options_page.py > docs/options.md` from the table in `l2g2g/config.py`; a test compares
the two.

An option of `l2g2g embed`, `evaluate` and `plan` is a parameter of the same name in Python: `--mask-by nodes` is
`L2G2G(mask_by="nodes")`, and `--no-skip` is `L2G2G(skip=False)`. What is not given comes from the preset: see the last
three columns, where nothing means as in `default`. Options with a star are rarely changed; `--help-all` shows them.
[Which settings for my graph?](choosing.md) says what was measured.
"""
PYTHON = """
## Only in Python

On the command line these are `--seed`, `--no-validation`, `--run-dir` and `--resume`.

| parameter | what it does | when to change it | default |
|---|---|---|---|
"""


def main() -> None:
    """Print the page."""
    sys.stdout.write(render_page())


def render_page() -> str:
    """The whole page as Markdown."""
    parts = [HEAD]
    for group in get_args(Group):
        options = [each for each in OPTIONS.values() if each.group == group]
        if options:
            parts.append(f"\n## {group.capitalize()}\n\n" + _render_table(options))
    rows = [[f"`{each.name}`", each.help, each.when, each.default_text()] for each in FIT_OPTIONS.values()]
    return "".join([*parts, PYTHON, *(_row(in_python(cell, OPTIONS) for cell in row) for row in rows)])


def _render_table(options: Iterable[Option]) -> str:
    lines = [_row(["option", "what it does", "when to change it", *PRESET_NAMES]), "|---" * 6 + "|\n"]
    for each in options:
        names = ", ".join(f"`{flag}`" for flag in each.flags.split("/")) + (" ★" if each.is_rare else "")
        defaults = [each.value_text(each.defaults[preset]) for preset in PRESET_NAMES]
        defaults = [defaults[0], *("" if text == defaults[0] else text for text in defaults[1:])]
        lines.append(_row([names, each.help, each.when, *defaults]))
    return "".join(lines)


def _row(cells: Iterable[str]) -> str:
    escaped = (cell.replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(escaped)} |\n"


if __name__ == "__main__":
    main()
