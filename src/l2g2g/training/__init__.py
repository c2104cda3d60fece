"""Training: batches of patches, the objective, the loop and its checkpoints."""

from l2g2g.lazy import lazy_names

_MODULES = {
    "EpochReport": "loop",
    "LoopSettings": "loop",
    "Training": "loop",
}
__all__ = list(_MODULES)
__getattr__ = lazy_names(__name__, _MODULES)
