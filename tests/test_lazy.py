"""Lazy imports: names of packages, and imports without garbage collections."""

import gc
import subprocess
import sys

from l2g2g.lazy import without_collection

PROGRAM = """
import gc
from l2g2g.lazy import without_collection

collections = []
gc.callbacks.append(lambda phase, details: collections.append(phase))
with without_collection():
    import torch
assert gc.isenabled() and gc.get_freeze_count() > 10_000
print(len(collections))
"""


def test_torch_is_imported_without_collections():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"


def test_where_torch_is_there_nothing_changes():
    import torch  # noqa: F401

    frozen = gc.get_freeze_count()
    with without_collection():
        assert gc.isenabled()
    assert gc.get_freeze_count() == frozen
