"""Evaluation: held-out links, their ranks, a linear probe, and what a block model allows at best."""

from l2g2g.lazy import lazy_names

_MODULES = {
    "LinkScores": "links",
    "best_link_scores": "links",
    "classify_nodes": "classes",
    "evaluate_links": "links",
    "find_clusters": "clusters",
    "probe_labels": "probe",
    "rank_links": "ranking",
}
__all__ = list(_MODULES)
__getattr__ = lazy_names(__name__, _MODULES)
