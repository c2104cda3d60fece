"""The machine that a figure was measured on: processor, caches, threads, load, versions, and memory of this process."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from l2g2g.graphs.graph import Graph
from l2g2g.graphs.read import read_graph

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
ROOT = Path(__file__).resolve().parents[1]
# cpu: seconds of all threads of this process; for one thread it is what wall would be if nobody else used the machine.
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def describe_machine() -> dict[str, Any]:
    """What a reader needs to compare figures; what cannot be found out here is null."""
    packages = ("torch", "numpy", "scipy", "pymetis", "torch_geometric")
    return {
        "cpu": processor_name(),
        "cores": os.cpu_count(),
        "caches": cache_sizes(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "load_average": os.getloadavg()[0],
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: version_of(name) for name in packages},
        "commit": current_commit(),
        "threads_allowed": os.environ.get("OMP_NUM_THREADS"),
    }


def processor_name() -> str:
    """The model as the system calls it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def cache_sizes() -> dict[str, int] | None:
    """Bytes of each level of one core's caches (instructions left out); None where the system does not say."""
    sizes = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            kind, level, size = ((folder / name).read_text().strip() for name in ("type", "level", "size"))
        except OSError:
            continue
        if kind != "Instruction":
            sizes[f"L{level}"] = int(size.rstrip("KM")) * (1 << (20 if size.endswith("M") else 10))
    return sizes or None


def version_of(package: str) -> str | None:
    """Its installed version."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def current_commit() -> str | None:
    """The commit of the project; a star where files differ from it."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty=*"], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def resident_bytes() -> int:
    """Memory that this process holds now; its peak where the system tells no more."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return peak_bytes()


def peak_bytes() -> int:
    """The most that this process ever held."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


def load_graph(name: str, data_dir: Path = DATA) -> Graph | str:
    """A graph by name, or the reason why there is none."""
    if name.startswith("sbm"):
        return read_graph(name)
    if not data_dir.exists():
        return f"its file is not there: {data_dir.name} is not beside the project"
    file = data_dir / f"{name.replace('-', '_')}.npz"
    return read_graph(name, data_dir=data_dir) if file.exists() else f"{file.name} is not in {data_dir.name}"


def progress(message: str) -> None:
    """Say on stderr what is being done."""
    print(message, file=sys.stderr, flush=True)
