"""What ranks send of their pairs leads to the frame that the coordinates themselves lead to."""

import numpy as np
import pytest
import torch

from l2g2g.alignment.procrustes import measure_pairs, pack_pairs, packed_width, unpack_pairs
from l2g2g.alignment.synchronise import Frame, synchronise
from l2g2g.patches.overlap_index import index_overlaps


def patches(num_shared, dim=4, num_patches=5, flat=False):
    """Noisy patches on a ring with a chord, each in a frame of its own: coordinates, offsets, overlaps."""
    generator = np.random.default_rng(0)
    nodes = [
        np.arange(first, first + 2 * num_shared) % (num_patches * num_shared)
        for first in range(0, num_patches * num_shared, num_shared)
    ]
    places = generator.normal(size=(num_patches * num_shared, dim))
    if flat:
        places[:, -1] = 0
    parts = []
    for own in nodes:
        turn, _ = np.linalg.qr(generator.normal(size=(dim, dim)))
        noise = 0 if flat else 0.05 * generator.normal(size=(len(own), dim))
        parts.append((places[own] + noise) @ turn + generator.normal(size=dim))
    offsets = torch.from_numpy(np.cumsum([0, *map(len, nodes)]))
    return torch.from_numpy(np.concatenate(parts)).float(), offsets, index_overlaps(nodes)


@pytest.mark.filterwarnings("ignore::l2g2g.alignment.synchronise.AlignmentWarning")
@pytest.mark.parametrize(("num_shared", "flat"), [(12, False), (12, True), (3, False)])
@pytest.mark.parametrize(
    "parts",
    [
        {"rotate": True, "translate": False, "scale": False},
        {"rotate": True, "translate": True, "scale": False},
        {"rotate": True, "translate": True, "scale": True},
        {"rotate": False, "translate": True, "scale": False},
    ],
    ids=lambda parts: " ".join(name for name, used in parts.items() if used),
)
def test_packed_pairs_give_the_same_frame(num_shared, flat, parts):
    coordinates, offsets, overlaps = patches(num_shared, flat=flat)
    dim = coordinates.shape[1]
    packed = pack_pairs(measure_pairs(coordinates, overlaps), overlaps.sizes, **parts)
    assert packed.shape == (overlaps.num_pairs, packed_width(dim, **parts))
    assert packed.dtype == torch.float32
    previous = Frame.identity(overlaps.num_patches, dim)
    wanted = synchronise(coordinates, offsets, overlaps, previous=previous, **parts)
    moments = unpack_pairs(packed, dim, **parts)
    found = synchronise(coordinates[:0], offsets, overlaps, previous=previous, moments=moments, **parts)
    for one, other in zip(
        (found.rotations, found.translations, found.scales),
        (wanted.rotations, wanted.translations, wanted.scales),
        strict=True,
    ):
        torch.testing.assert_close(one, other, atol=2e-5, rtol=0)
