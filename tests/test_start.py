"""Starting is quick because nothing heavy is loaded before it is needed."""

import json
import subprocess
import sys
from importlib import import_module

import pytest

HEAVY = ["torch", "numpy", "scipy", "numba", "sklearn", "pyarrow", "pymetis", "matplotlib", "pandas", "plotly"]
PROBE = """
import json, sys
{what}
print(json.dumps(sorted(set({heavy}) & set(sys.modules))))
"""
HELP = """
from l2g2g.__main__ import main
try:
    main({arguments})
except SystemExit as end:
    assert end.code == 0
"""


def loaded_by(what):
    done = subprocess.run(
        [sys.executable, "-c", PROBE.format(what=what, heavy=HEAVY)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "what",
    [
        "import l2g2g",
        HELP.format(arguments=["embed", "--help"]),
        *(
            pytest.param(HELP.format(arguments=arguments), marks=pytest.mark.slow)
            for arguments in (["--help"], ["evaluate", "--help"], ["--version"])
        ),
    ],
    ids=["import", "help of embed", "help", "help of evaluate", "version"],
)
def test_help_and_version_load_nothing_heavy(what):
    assert loaded_by(what) == []


PACKAGES = ["graphs", "alignment", "evaluation", "neighbours", "training", "runs", "estimators"]


def test_packages_load_nothing_heavy_before_a_name_is_used():
    assert loaded_by("; ".join(f"import l2g2g.{name}" for name in PACKAGES)) == []


@pytest.mark.parametrize("name", PACKAGES)
def test_every_exported_name_is_there(name):
    package = import_module(f"l2g2g.{name}")
    assert [each for each in package.__all__ if not hasattr(package, each)] == []
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        package.missing  # noqa: B018


@pytest.mark.slow
def test_nothing_loads_numba():
    assert "numba" not in loaded_by("import l2g2g.runs.embed, l2g2g.runs.evaluate, l2g2g.neighbours.search")


@pytest.mark.slow
def test_the_probe_notices_what_is_loaded():
    assert "numpy" in loaded_by("import l2g2g; l2g2g.Graph")
