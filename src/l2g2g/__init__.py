"""l2g2g: one vector per node for graphs of any size.

    >>> from l2g2g import L2G2G, read_graph
    >>> edges = [(i, (i + step) % 60) for i in range(60) for step in (1, 2, 7)]
    >>> model = L2G2G(dim=4, patches=2, seed=0, epochs=5).fit((edges, None))
    >>> model.embedding_.shape
    (60, 4)

Names are loaded on first use, so that `import l2g2g` and `l2g2g --help` stay fast.
"""

from __future__ import annotations

import os
from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from l2g2g.alignment.align import align
    from l2g2g.errors import InputError, L2G2GError, NumericalError, ResourceError, WorkerError
    from l2g2g.estimators.estimator import GAE, GAEL2G, L2G2G, VGAE, VL2G2G, FastGAE
    from l2g2g.evaluation.classes import classify_nodes
    from l2g2g.evaluation.clusters import find_clusters
    from l2g2g.graphs.formats import TableOptions
    from l2g2g.graphs.graph import Graph
    from l2g2g.graphs.node_columns import read_embedding
    from l2g2g.graphs.read import read_graph
    from l2g2g.graphs.write import write_embedding
    from l2g2g.neighbours.search import nearest

# Idle OpenMP threads wait for the next of many short steps a moment and then sleep: waking them every time costs half
# of a small epoch, and spinning on would take the cores of a shared machine from others (and from our own). It works
# only before torch is imported; a user's own settings win.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "30000")

_HOMES = {
    "align": "l2g2g.alignment.align",
    "read_graph": "l2g2g.graphs.read",
    "read_embedding": "l2g2g.graphs.node_columns",
    "write_embedding": "l2g2g.graphs.write",
    "find_clusters": "l2g2g.evaluation.clusters",
    "classify_nodes": "l2g2g.evaluation.classes",
    "nearest": "l2g2g.neighbours.search",
    "Graph": "l2g2g.graphs.graph",
    "TableOptions": "l2g2g.graphs.formats",
    **dict.fromkeys(["L2G2G", "GAE", "FastGAE", "GAEL2G", "VGAE", "VL2G2G"], "l2g2g.estimators.estimator"),
    **dict.fromkeys(["L2G2GError", "InputError", "ResourceError", "NumericalError", "WorkerError"], "l2g2g.errors"),
}
__all__ = [
    "GAE",
    "GAEL2G",
    "L2G2G",
    "VGAE",
    "VL2G2G",
    "FastGAE",
    "Graph",
    "InputError",
    "L2G2GError",
    "NumericalError",
    "ResourceError",
    "TableOptions",
    "WorkerError",
    "align",
    "classify_nodes",
    "find_clusters",
    "nearest",
    "read_embedding",
    "read_graph",
    "write_embedding",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return metadata.version("l2g2g")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'l2g2g' has no attribute '{name}'")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
