"""The page of dependencies names what is installed, and its versions those of constraints.txt."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("dependencies", ROOT / "docs" / "dependencies.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows_of_page():
    lines = (ROOT / "docs" / "dependencies.md").read_text().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return {row[0]: row[1:] for row in cells[1:]}


def test_the_page_names_what_is_needed_and_nothing_else(script):
    # Builds of torch for graphics cards ask for more, from one vendor.
    needed = {name for name in script.runtime_needs() if not name.startswith(("nvidia-", "triton", "cuda-"))}
    assert set(rows_of_page()) == needed


def test_what_the_project_asks_for_is_marked_as_its_own(script):
    own = {name for name, users in script.runtime_needs().items() if "l2g2g" in users}
    assert {name for name, row in rows_of_page().items() if row[2] == "l2g2g"} == own
    asked = re.search(r"^dependencies = \[(.*?)^\]", (ROOT / "pyproject.toml").read_text(), re.DOTALL | re.MULTILINE)
    assert own == {name.lower() for name in re.findall(r'"([A-Za-z0-9_-]+)>=', asked.group(1))}


def test_versions_are_those_of_the_constraints():
    pinned = dict(line.lower().split("==") for line in (ROOT / "constraints.txt").read_text().split())
    rows = rows_of_page()
    both = {name.replace("_", "-") for name in pinned} & set(rows)
    assert len(both) >= 10
    for name in both:
        assert rows[name][0].split("+")[0] == pinned.get(name, pinned.get(name.replace("-", "_")))


def test_every_licence_is_stated():
    assert [name for name, row in rows_of_page().items() if row[1] in ("", "not stated")] == []


def test_every_extra_is_named_with_what_it_brings(script):
    page = (ROOT / "docs" / "dependencies.md").read_text()
    lines = script.extra_lines()
    assert len(lines) >= 5
    assert [line for line in lines if line not in page] == [], "run: python docs/dependencies.py > docs/dependencies.md"
