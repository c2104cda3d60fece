"""Alignment: brings patch embeddings into one frame."""

from l2g2g.lazy import lazy_names

_MODULES = {
    "AlignedEmbedding": "align",
    "Frame": "frame",
    "align_sequence": "align",
}
__all__ = list(_MODULES)
__getattr__ = lazy_names(__name__, _MODULES)
