"""Does the compiled core of an installed wheel load and compute? Needs NumPy only, not torch.

    python -P tests/core_smoke.py

Run by `make dist` where there is no torch for a Python, and by the workflow that builds wheels.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np


def load_core():
    """The extension alone; the package around it would import torch."""
    package = importlib.util.find_spec("l2g2g")
    assert package is not None, "l2g2g is not installed"
    found = list(Path(package.origin).parent.glob("core/_native*"))
    assert len(found) == 1, f"one compiled core expected, found {found}"
    spec = importlib.util.spec_from_file_location("l2g2g.core._native", found[0])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    core = load_core()
    core.set_num_threads(2)
    one = np.arange(300_000, dtype=np.int32)
    other = one[::-1].copy()
    results = []
    for name in core.instruction_sets():
        core.set_instruction_set(name)
        hashes, forth, back = (np.empty(len(one), np.uint32) for _ in range(3))
        core.hash_nodes(one, 7, hashes)
        core.hash_pairs(one, other, 7, forth)
        core.hash_pairs(other, one, 7, back)
        assert (forth == back).all()
        assert len(np.unique(hashes)) > 299_900
        results.append((hashes, forth))
    assert all(np.array_equal(results[0], result) for result in results)
    print(f"python {sys.version.split()[0]}: {Path(core.__file__).name}, {', '.join(core.instruction_sets())}")


if __name__ == "__main__":
    main()
