"""Environment: versions, device and threads, as `l2g2g --version` says them and as a report of a fault needs them."""

from __future__ import annotations

import os
import platform
from importlib import metadata

_PACKAGES = ("torch", "numba", "numpy", "scipy", "pyarrow")
_EXTRAS = ("usearch", "tensorboard", "torch_geometric", "matplotlib")


def describe_environment() -> str:
    """A few lines: the version, what it runs on, and what of the extras is there."""
    import numba
    import torch

    versions = ", ".join(f"{name} {metadata.version(name)}" for name in _PACKAGES)
    devices = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    threads = int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]
    extras = [f"{name} {found}" for name in _EXTRAS if (found := _version(name)) is not None]
    return "\n".join(
        [
            f"l2g2g {metadata.version('l2g2g')}",
            f"python {platform.python_version()} on {platform.system()} {platform.machine()}, {versions}",
            f"device {', '.join(devices) or 'cpu'}, {threads} threads of {os.cpu_count()} cores",
            f"extras: {', '.join(extras) or 'none'}",
        ]
    )


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
