"""Facts about this machine and process, without importing torch: versions, cores and memory."""

from __future__ import annotations

import os
import platform
import resource
import sys
from importlib import metadata
from pathlib import Path

from l2g2g.errors import NO_NATIVE_CORE

_PACKAGES = ("torch", "numpy", "scipy", "pyarrow")
_EXTRAS = ("usearch", "tensorboard", "torch_geometric", "matplotlib")
_CGROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def describe_environment() -> str:
    """Return the text of `l2g2g --version`: versions, device, threads and installed extras."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in _PACKAGES)
    extras = [f"{name} {found}" for name in _EXTRAS if (found := _version(name)) is not None]
    has_core = any((Path(__file__).parents[1] / "core").glob("_native*"))
    device = "cpu" if metadata.version("torch").endswith("+cpu") else "cpu, or what torch finds"
    return "\n".join(
        [
            f"l2g2g {metadata.version('l2g2g')}, {'native core' if has_core else NO_NATIVE_CORE}",
            f"python {platform.python_version()} on {platform.system()} {platform.machine()}, {versions}",
            f"device {device}, {available_cores()} threads of {os.cpu_count()} cores",
            f"extras: {', '.join(extras) or 'none'}",
        ]
    )


def package_versions() -> dict[str, str]:
    """Return the versions that a result depends on: of Python, this package and those that compute."""
    return {
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in ("l2g2g", "torch", "numpy", "scipy")},
    }


def available_cores() -> int:
    """Count the cores that this process may use: under torchrun its share, and at most OMP_NUM_THREADS."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    ranks = os.environ.get("LOCAL_WORLD_SIZE", "")
    if ranks.isdigit() and int(ranks):  # torchrun sets OMP_NUM_THREADS to 1 by itself
        return max(1, cores // int(ranks))
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(wanted)) if wanted.isdigit() and int(wanted) else cores


def available_memory() -> int:
    """Return the bytes that this process may still allocate: the least of machine, cgroup and address space."""
    found = [1 << 62]
    status = _read_kilobytes(Path("/proc/self/status"))
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and "VmSize" in status:
        found.append(limit - status["VmSize"])
    free = _read_kilobytes(Path("/proc/meminfo")).get("MemAvailable")
    if free is not None:
        found.append(free)
    for most, used in _CGROUPS:
        try:
            found.append(int(Path(most).read_text()) - int(Path(used).read_text()))
        except (OSError, ValueError):  # no such group, or "max"
            continue
    return max(0, min(found))


def resident_memory() -> int:
    """Return the resident memory of this process in bytes; 0 if the system does not report it."""
    return _read_kilobytes(Path("/proc/self/status")).get("VmRSS", 0)


def peak_memory() -> int:
    """Return the peak resident memory of this process in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, other systems kilobytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _read_kilobytes(path: Path) -> dict[str, int]:
    """Parse lines `Name:  123 kB` of a file in /proc into bytes by name; empty if there is no such file."""
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    return {cells[0].rstrip(":"): int(cells[1]) * 1024 for cells in lines if len(cells) == 3 and cells[2] == "kB"}


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
