"""Does what `make dist` built work for somebody else? Run by it; not part of the test suite.

    python tests/dist_check.py dist

Installs the wheel into a clean environment of the oldest and of the newest supported Python of this machine, and the
sdist into one of the oldest, with the versions of constraints.txt; then embeds a graph and asks for neighbours, in a
folder from which the sources cannot be seen. Prints a JSON line for each; leaves with 1 where something failed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
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


def check(artefact: Path, interpreter: str, folder: Path) -> None:
    """Install into a new environment and use it; CalledProcessError where a step fails."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}

    def run(*command: object) -> str:
        words = [str(word) for word in command]
        done = subprocess.run(words, cwd=folder, env=clean, capture_output=True, text=True, check=True)
        return done.stdout

    run(interpreter, "-m", "venv", folder / "env")
    pip, command = folder / "env/bin/pip", folder / "env/bin/l2g2g"
    run(pip, "install", "--quiet", "--constraint", ROOT / "constraints.txt", "torch")
    run(pip, "install", "--quiet", "--constraint", ROOT / "constraints.txt", f"l2g2g[neighbours] @ {artefact.as_uri()}")
    edges = [f"n{i},n{(i + step) % 60}" for i in range(60) for step in (1, 2, 7)]
    (folder / "edges.csv").write_text("\n".join(edges) + "\n")
    assert "embed" in run(command)
    assert run(command, "--version").startswith("l2g2g ")
    run(command, "embed", "edges.csv", "-o", "out.parquet", "--epochs", 3, "--dim", 4, "--run-dir", "run", "-q")
    near = json.loads(run(command, "neighbours", "out.parquet", "n3", "-k", 2, "--json"))
    assert len(near["neighbours"]) == 2
    assert len(run(command, "predict", "run", "--top", 5, "--json").splitlines()) == 5
    run(command, "report", "run", "-q")  # its page needs the scripts and styles in the package


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dist", type=Path)
    folder = parser.parse_args().dist.resolve()
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    found = find_interpreters()
    if not found:
        sys.exit(f"no Python 3.{OLDEST} or newer here")
    pythons = sorted({min(found), max(found)})
    work = [(wheel, version) for version in pythons] + [(sdist, pythons[0])]
    failed = False
    for artefact, version in work:
        started, reason = time.perf_counter(), None
        with tempfile.TemporaryDirectory(prefix="l2g2g-dist-") as place:
            try:
                check(artefact, found[version], Path(place))
            except (subprocess.CalledProcessError, AssertionError) as error:
                reason = (getattr(error, "stderr", "") or repr(error)).strip()[-500:]
        failed |= reason is not None
        row = {"artefact": artefact.name, "python": ".".join(map(str, version)), "works": reason is None}
        print(json.dumps({**row, "seconds": round(time.perf_counter() - started, 1), "reason": reason}), flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
