"""Machine: what a process may use of it, asked without importing anything heavy."""

from __future__ import annotations

import os

INSTALL_HINT = "the native core is not built, so l2g2g runs several times slower; install g++ and python3-dev and reinstall"


def available_cores() -> int:
    """Cores that this process may use; OMP_NUM_THREADS sets fewer."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(wanted)) if wanted.isdigit() and int(wanted) else cores
