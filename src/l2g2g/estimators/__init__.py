"""Estimators of scikit-learn's shape, one for each method."""

from l2g2g.lazy import lazy_names

_MODULES = {
    "FastGAE": "estimator",
    "GAE": "estimator",
    "GAEL2G": "estimator",
    "GraphEmbedding": "estimator",
    "L2G2G": "estimator",
    "VGAE": "estimator",
    "VL2G2G": "estimator",
    "load_model": "estimator",
}
__all__ = list(_MODULES)
__getattr__ = lazy_names(__name__, _MODULES)
