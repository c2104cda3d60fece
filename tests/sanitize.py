"""Run the core's tests under the address, undefined-behaviour and thread sanitizers. Run by `make sanitize`.

    python tests/sanitize.py build/sanitize [--only thread] [--tests tests/core/test_tables.py]

Compiles the core once for each kind beside a copy of the package, and runs tests/core on that copy with the sanitizers'
libraries loaded before Python's. Prints a JSON line for each kind; leaves with 1 where a test failed or a sanitizer
reported something. Needs GCC or Clang with their sanitizer libraries.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# Kinds that cannot share a process are built apart. Libraries are loaded in this order; the C++ library is one of them,
# because an exception that is thrown before it is loaded would not be seen. Last, the tests that a kind can run: the
# thread sanitizer does not support new threads in the child of a process with threads.
KINDS = {
    "address": ("address,undefined", ("libasan.so", "libubsan.so", "libstdc++.so.6"), ""),
    "thread": ("thread", ("libtsan.so", "libstdc++.so.6"), "not after_a_fork"),
}
PROBE = "import l2g2g.core._native as core; print(core.__file__)"


def compile_core(folder: Path, sanitizers: str) -> Path:
    """Compile into a copy of the package; the folder that holds the copy. Only what changed is compiled again."""
    package = folder / "package"
    skipped = shutil.ignore_patterns("__pycache__", "_native*", "cpp")
    shutil.copytree(ROOT / "src" / "l2g2g", package / "l2g2g", ignore=skipped, dirs_exist_ok=True)
    configure = [
        *("cmake", "-S", ROOT, "-B", folder / "build", "-G", "Ninja", "--log-level=WARNING"),
        *("-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O1 -g1", f"-DL2G2G_SANITIZE={sanitizers}"),
        *(f"-DPython_EXECUTABLE={sys.executable}", f"-DL2G2G_OUTPUT={package / 'l2g2g' / 'core'}"),
    ]
    tools = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "MAKEFLAGS": ""}
    for command in (configure, ["cmake", "--build", folder / "build"]):
        done = subprocess.run(command, env=tools, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stdout[-3000:] + done.stderr[-3000:])
    return package


def make_environment(folder: Path, package: Path) -> Path:
    """An interpreter that finds the copy of the package, and everything else where this one does."""
    venv.create(folder / "env", with_pip=False)
    interpreter = folder / "env" / "bin" / "python"
    where = subprocess.run(
        [interpreter, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    Path(where, "copy.pth").write_text(f"{package}\n{sysconfig.get_path('purelib')}\n")
    return interpreter


def find_library(name: str) -> str:
    """Where the compiler has a library."""
    compiler = os.environ.get("CXX", "c++")
    asked = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    path = Path(asked.stdout.strip())
    if not path.is_absolute():
        sys.exit(f"{compiler} has no {name}; install its sanitizer libraries (Debian: libgcc-12-dev)")
    return str(path.resolve())


def run(kind: str, folder: Path, tests: list[str]) -> bool:
    """Compile, test, print the line; whether everything was in order."""
    sanitizers, libraries, selected = KINDS[kind]
    started = time.perf_counter()
    package = compile_core(folder, sanitizers)
    compiled = time.perf_counter()
    interpreter = make_environment(folder, package)
    reports = folder / "reports"
    shutil.rmtree(reports, ignore_errors=True)
    reports.mkdir()
    common = f"log_path={reports}/report:print_stacktrace=1:exitcode=66"
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
        "LD_PRELOAD": " ".join(map(find_library, libraries)),
        "ASAN_OPTIONS": f"{common}:detect_leaks=0:detect_stack_use_after_return=1",  # Python itself leaks at its end
        "UBSAN_OPTIONS": f"{common}:halt_on_error=1",  # beside the address sanitizer it writes to stderr all the same
        # Python, NumPy and torch are not instrumented: what they do among themselves looks like races.
        "TSAN_OPTIONS": f"{common}:ignore_noninstrumented_modules=1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
    }
    found = subprocess.run([interpreter, "-c", PROBE], env=environment, capture_output=True, text=True, check=False)
    if not found.stdout.startswith(str(package)):
        sys.exit(f"the sanitized core was not loaded: {found.stdout}{found.stderr}")
    options = ["-p", "no:cacheprovider", "--capture=no", "-n", "2", "-k", selected]
    pytest = [interpreter, "-m", "pytest", *options, *tests]
    done = subprocess.run(pytest, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    written = sorted(reports.iterdir())
    output = done.stdout + done.stderr
    errors = [line for line in output.splitlines() if "runtime error:" in line]
    silent = not written and not errors
    works = done.returncode == 0 and silent
    last = done.stdout.strip().rpartition("\n")[2]
    row = {"sanitizers": sanitizers, "silent": silent, "tests": last}
    seconds = {"compile": round(compiled - started, 1), "tests": round(time.perf_counter() - compiled, 1)}
    print(json.dumps({**row, "works": works, "seconds": seconds}), flush=True)
    if not works:
        print(output[-6000:])
        print("\n".join(errors[:20]))
        for report in written[:5]:
            print(f"{report}:\n{report.read_text(errors='replace')[:4000]}")
    return works


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--tests", nargs="+", default=["tests/core"])
    options = parser.parse_args()
    kinds = [options.only] if options.only else list(KINDS)
    works = {kind: run(kind, options.folder.resolve() / kind, options.tests) for kind in kinds}
    sys.exit(not all(works.values()))


if __name__ == "__main__":
    main()
