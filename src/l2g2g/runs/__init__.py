"""Runs: a graph and a config become an embedding or its scores, on every storage and number of ranks."""

from l2g2g.lazy import lazy_names

_MODULES = {
    "Run": "run",
    "embed_graph": "embed",
    "evaluate_graph": "evaluate",
    "make_plan": "plan",
}
__all__ = list(_MODULES)
__getattr__ = lazy_names(__name__, _MODULES)
