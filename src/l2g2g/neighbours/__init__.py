"""Neighbours: nearest nodes of a finished embedding, and missing links of its graph."""

from l2g2g.lazy import lazy_names

_MODULES = {
    "NeighbourIndex": "index",
    "Neighbours": "search",
    "TopLinks": "top_links",
    "nearest": "search",
}
__all__ = list(_MODULES)
__getattr__ = lazy_names(__name__, _MODULES)
