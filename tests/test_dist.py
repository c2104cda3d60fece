"""What is in the wheel; whether it works elsewhere is for `make dist`."""

import subprocess
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "l2g2g"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def test_it_holds_the_package_and_nothing_else(wheel):
    packed = {name.removeprefix("l2g2g/") for name in wheel.namelist() if name.startswith("l2g2g/")}
    written = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*") if path.is_file()}
    assert packed == {name for name in written if "__pycache__" not in name}
    assert {"py.typed", "cli.py"} <= packed
    assert {name.split("/")[0].split("-")[0] for name in wheel.namelist()} == {"l2g2g"}


def test_it_says_what_it_needs(wheel):
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    facts = message_from_bytes(wheel.read(name))
    assert facts["Requires-Python"] == ">=3.11"
    assert {"neighbours", "tracking", "report", "all"} <= set(facts.get_all("Provides-Extra"))
    needs = facts.get_all("Requires-Dist")
    assert any(need.startswith("usearch") and "neighbours" in need for need in needs)
    assert any(need.startswith("torch>=") and "extra" not in need for need in needs)


def test_it_installs_the_command(wheel):
    (name,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert "l2g2g = l2g2g.__main__:main" in wheel.read(name).decode()
