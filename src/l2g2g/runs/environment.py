"""Environment: versions, device and threads, as `l2g2g --version` prints them and bug reports need them."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

from l2g2g.errors import NO_NATIVE_CORE

_PACKAGES = ("torch", "numpy", "scipy", "pyarrow")
_EXTRAS = ("usearch", "tensorboard", "torch_geometric", "matplotlib")


def describe_environment() -> str:
    """A few lines: the version, what it runs on, and what of the extras is there. Imports nothing heavy."""
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


def available_cores() -> int:
    """Cores that this process may use: its share of those of the host under torchrun; OMP_NUM_THREADS sets fewer."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    ranks = os.environ.get("LOCAL_WORLD_SIZE", "")
    if ranks.isdigit() and int(ranks):  # torchrun sets OMP_NUM_THREADS to 1 by itself
        return max(1, cores // int(ranks))
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(wanted)) if wanted.isdigit() and int(wanted) else cores


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
