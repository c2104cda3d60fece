"""Residuals of a training against those of the public alignment of the same patches."""

import numpy as np
import pytest
import torch

from l2g2g.alignment.align import align
from l2g2g.alignment.frame import Frame
from l2g2g.patches.overlap import make_patches
from l2g2g.runs.run import patch_residuals


def test_residuals_are_those_of_align(planted):
    labels = np.arange(planted.num_nodes) // 40
    patch_set = make_patches(planted, labels, min_overlap=6, target_overlap=8)
    generator = np.random.default_rng(0)
    stacked = generator.normal(size=(patch_set.num_rows, 3))
    split = np.split(stacked, patch_set.offsets[1:-1])
    pairs = patch_set.overlaps.edges.numpy()
    aligned = align([(patch_set.nodes_of(patch), split[patch]) for patch in range(3)], pairs=pairs)
    frame = Frame(
        *(torch.from_numpy(np.asarray(part)) for part in (aligned.rotations, aligned.translations, aligned.scales))
    )
    found = patch_residuals(torch.from_numpy(stacked), patch_set, frame)
    assert found.per_pair == pytest.approx(aligned.residuals.per_pair)
    assert (found.before, found.after) == pytest.approx((aligned.residuals.before, aligned.residuals.after))
    by_name = dict(zip(aligned.nodes.tolist(), aligned.residuals.per_node, strict=True))
    expected = [by_name[node] for node in range(planted.num_nodes)]
    paired = np.isin(np.arange(planted.num_nodes), patch_set.global_nodes[patch_set.overlaps.first_rows.numpy()])
    assert found.per_node[paired] == pytest.approx(np.array(expected)[paired])
