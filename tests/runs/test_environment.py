from importlib import metadata

from l2g2g.errors import NO_NATIVE_CORE
from l2g2g.runs import environment


def test_it_names_what_a_report_of_a_fault_needs():
    lines = environment.describe_environment().splitlines()
    assert lines[0] == f"l2g2g {metadata.version('l2g2g')}, native core"
    assert f"torch {metadata.version('torch')}" in lines[1]
    assert "threads of" in lines[2]
    assert lines[3].startswith("extras: ")


def test_extras_that_are_missing_are_not_named(monkeypatch):
    monkeypatch.setattr(environment, "_EXTRAS", ("surely-not-installed",))
    assert environment.describe_environment().splitlines()[3] == "extras: none"


def test_a_core_that_was_not_built_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(environment, "__file__", str(tmp_path / "environment.py"))
    (line, *_) = environment.describe_environment().splitlines()
    assert line == f"l2g2g {metadata.version('l2g2g')}, {NO_NATIVE_CORE}"
    assert "\n" not in NO_NATIVE_CORE
