"""Graphs: readers and writers, stores, data sets and splits."""

from l2g2g.lazy import lazy_names

_MODULES = {
    "Graph": "graph",
    "TableOptions": "formats",
    "list_datasets": "datasets",
    "load_dataset": "datasets",
    "read_graph": "read",
    "split_edges": "splits",
    "split_links": "splits",
    "write_embedding": "write",
}
__all__ = list(_MODULES)
__getattr__ = lazy_names(__name__, _MODULES)
