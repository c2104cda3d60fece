from importlib import metadata

from l2g2g import environment


def test_it_names_what_a_report_of_a_fault_needs():
    lines = environment.describe_environment().splitlines()
    assert lines[0] == f"l2g2g {metadata.version('l2g2g')}"
    assert f"torch {metadata.version('torch')}" in lines[1]
    assert "threads of" in lines[2]
    assert lines[3].startswith("extras: ")


def test_extras_that_are_missing_are_not_named(monkeypatch):
    monkeypatch.setattr(environment, "_EXTRAS", ("surely-not-installed",))
    assert environment.describe_environment().splitlines()[3] == "extras: none"
