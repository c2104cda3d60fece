"""Does what `make dist` built work for somebody else? Run by it; not part of the test suite.

    python tests/dist_check.py dist

Checks which files the wheels and the sdist hold. Then installs the wheel that fits into a clean environment of every
supported Python of this machine, and the sdist into one of the oldest, with the versions of constraints.txt; embeds a
graph and asks for neighbours, in a folder from which the sources cannot be seen. Where pip would bring a torch with
gigabytes for graphics cards, only the compiled core is tried, without torch ("checked": "core"); L2G2G_ANY_TORCH=1
installs it all the same. Prints a JSON line for each; leaves with 1 where something failed.
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
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OLDEST, LATEST = 11, 19  # minor versions of Python 3 that are looked for


def find_interpreters() -> dict[tuple[int, int], str]:
    """Pythons of this machine that run, by their version; in the path, or kept by pyenv."""
    found: dict[tuple[int, int], str] = {}
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for minor in range(OLDEST, LATEST + 1):
        name = f"python3.{minor}"
        places = [shutil.which(name), *map(str, sorted(versions.glob(f"3.{minor}.*/bin/{name}")))]
        for place in filter(None, places):
            if (
                subprocess.run([place, "-c", "import venv, ensurepip"], capture_output=True, check=False).returncode
                == 0
            ):
                found[3, minor] = place
                break
    return found


def expected_files(with_core_sources: bool) -> set[str]:
    """Files of the package as they are in this tree; what was compiled here is not one of them."""
    source = ROOT / "src" / "l2g2g"
    names = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    skipped = ("core/_native",) if with_core_sources else ("core/_native", "core/cpp/")
    return {f"l2g2g/{name}" for name in names if "__pycache__" not in name and not name.startswith(skipped)}


def check_wheel_files(wheel: Path) -> None:
    """The package, its compiled core, the metadata, and nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if ".dist-info/" not in name and not name.endswith("/")]
    core = [name for name in names if name.startswith("l2g2g/core/_native")]
    assert len(core) == 1, f"one compiled core expected: {core}"
    assert (".abi3." in core[0]) == ("-abi3-" in wheel.name), f"{core[0]} in {wheel.name}"
    assert set(names) - set(core) == expected_files(False), sorted((set(names) - set(core)) ^ expected_files(False))


def check_sdist_files(sdist: Path) -> None:
    """What a build needs, and nothing else."""
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    wanted = {"CMakeLists.txt", "LICENSE", "README.md", "pyproject.toml", "PKG-INFO"}
    wanted |= {f"src/{name}" for name in expected_files(True)}
    assert names == wanted, sorted(names ^ wanted)


def fits(wheel: Path, version: tuple[int, int]) -> bool:
    """Whether a wheel is for a Python, by its name."""
    python, abi = wheel.name.split("-")[2:4]
    least = (3, int(python.removeprefix("cp3")))
    return version >= least if abi == "abi3" else version == least


def brings_small_torch(pip: Path) -> bool:
    """Whether the torch that pip would install comes without packages for graphics cards."""
    asking = [pip, "install", "--dry-run", "--quiet", "--no-deps", "--constraint", ROOT / "constraints.txt"]
    answer = subprocess.run([*asking, "--report", "-", "torch"], capture_output=True, text=True, check=False)
    if answer.returncode:
        return False
    (torch,) = json.loads(answer.stdout)["install"]
    wanted = torch["metadata"].get("requires_dist", [])
    return sys.platform != "linux" or not any(need.startswith(("nvidia-", "cuda-")) for need in wanted)


def check(artefact: Path, interpreter: str, folder: Path) -> str:
    """Install into a new environment and use it; what was tried. CalledProcessError where a step fails."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}

    def run(*command: object) -> str:
        words = [str(word) for word in command]
        done = subprocess.run(words, cwd=folder, env=clean, capture_output=True, text=True, check=True)
        return done.stdout

    run(interpreter, "-m", "venv", folder / "env")
    pip, command = folder / "env/bin/pip", folder / "env/bin/l2g2g"
    if not os.environ.get("L2G2G_ANY_TORCH") and not brings_small_torch(pip):
        run(pip, "install", "--quiet", "--constraint", ROOT / "constraints.txt", "numpy")
        run(pip, "install", "--quiet", "--no-deps", artefact)
        run(folder / "env/bin/python", "-P", ROOT / "tests/core_smoke.py")
        return "core"
    run(pip, "install", "--quiet", "--constraint", ROOT / "constraints.txt", "torch")
    run(pip, "install", "--quiet", "--constraint", ROOT / "constraints.txt", f"l2g2g[neighbours] @ {artefact.as_uri()}")
    run(folder / "env/bin/python", "-P", ROOT / "tests/core_smoke.py")
    edges = [f"n{i},n{(i + step) % 60}" for i in range(60) for step in (1, 2, 7)]
    (folder / "edges.csv").write_text("\n".join(edges) + "\n")
    assert "embed" in run(command)
    assert run(command, "--version").startswith("l2g2g ")
    run(command, "embed", "edges.csv", "-o", "out.parquet", "--epochs", 3, "--dim", 4, "--run-dir", "run", "-q")
    near = json.loads(run(command, "neighbours", "out.parquet", "n3", "-k", 2, "--json"))
    assert len(near["neighbours"]) == 2
    assert len(run(command, "predict", "run", "--top", 5, "--json").splitlines()) == 5
    run(command, "report", "run", "-q")  # its page needs the scripts and styles in the package
    return "everything"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dist", type=Path)
    folder = parser.parse_args().dist.resolve()
    wheels, (sdist,) = sorted(folder.glob("*.whl")), folder.glob("*.tar.gz")
    found = find_interpreters()
    if not found:
        sys.exit(f"no Python 3.{OLDEST} or newer here")
    check_sdist_files(sdist)
    for wheel in wheels:
        check_wheel_files(wheel)
    work = [(wheel, version) for version in sorted(found) for wheel in wheels if fits(wheel, version)]
    work.append((sdist, min(found)))
    failed = {version for _, version in work} != set(found)  # a Python without a wheel
    for artefact, version in work:
        started, reason, checked = time.perf_counter(), None, None
        with tempfile.TemporaryDirectory(prefix="l2g2g-dist-") as place:
            try:
                checked = check(artefact, found[version], Path(place))
            except (subprocess.CalledProcessError, AssertionError) as error:
                reason = (getattr(error, "stderr", "") or repr(error)).strip()[-500:]
        failed |= reason is not None
        row = {"artefact": artefact.name, "python": ".".join(map(str, version)), "works": reason is None}
        row |= {"checked": checked, "seconds": round(time.perf_counter() - started, 1), "reason": reason}
        print(json.dumps(row), flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
