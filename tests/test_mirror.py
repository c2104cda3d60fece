"""Every module has a test: a file of its name in the mirrored folder, a test that imports it, or one named here.

A module that tests reach only through other modules stands in THROUGH, with a test that runs it.
"""

import re
from pathlib import Path

import l2g2g

SOURCE, TESTS = Path(l2g2g.__file__).parent, Path(__file__).parent
THROUGH = {
    "cli.common_options": "test_options.py",
    "cli.embed": "cli/test_application.py",
    "cli.evaluate": "cli/test_application.py",
    "cli.messages": "cli/test_application.py",
    "cli.ranks": "faults/test_ranks.py",
    "components": "models/test_contract.py",
    "estimators.graph_input": "estimators/test_estimator.py",
    "graphs.other_libraries": "graphs/test_export.py",
    "models.decoders.base": "models/decoders/test_factors.py",
    "models.encoders.base": "models/test_encoder.py",
    "models.encoders.linear": "models/test_contract.py",
    "models.encoders.sage": "models/test_encoder.py",
    "runs.link_prediction": "cli/test_neighbours.py",
    "runs.fitted": "runs/test_new_nodes.py",
}
FROM = re.compile(r"^ *from (l2g2g[\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)
IMPORT = re.compile(r"^ *import (l2g2g[\w.]*)", re.MULTILINE)
PUTS_TOGETHER = {"__init__", "__main__"}


def imported():
    """Names of modules that a test imports, without `l2g2g.`; read as text, since to parse all tests takes seconds."""
    found = set()
    for path in TESTS.rglob("*.py"):
        text = re.sub(r" as \w+", "", path.read_text())  # the name it gets here is not that of a module
        for module, names in FROM.findall(text):
            found |= {module, *(f"{module}.{name}" for name in re.findall(r"\w+", names))}
        found |= set(IMPORT.findall(text))
    return {name.removeprefix("l2g2g.") for name in found}


def has_mirror(module):
    *folders, name = module.split(".")
    return TESTS.joinpath(*folders, f"test_{name}.py").is_file()


def test_every_module_has_a_test_and_the_list_is_short_and_true():
    paths = (path.relative_to(SOURCE).with_suffix("").parts for path in SOURCE.rglob("*.py"))
    modules = {".".join(parts) for parts in paths if parts[-1] not in PUTS_TOGETHER}
    direct = imported()
    untested = {module for module in modules if not has_mirror(module) and module not in direct}
    assert sorted(untested - set(THROUGH)) == []
    assert sorted(set(THROUGH) - untested) == []  # has a test of its own by now, or is gone
    for module, test in THROUGH.items():
        assert (TESTS / test).is_file(), module
