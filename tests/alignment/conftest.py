"""Patches of known truth: random points, cut into overlapping patches, each rotated (or reflected) and shifted."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import Tensor

from l2g2g.alignment.frame import Frame, apply_frame, assemble
from l2g2g.patches.overlap_index import OverlapIndex, index_overlaps


@dataclass
class KnownPatches:
    truth: Tensor
    nodes: list[np.ndarray]
    patches: list[np.ndarray]
    rotations: Tensor

    @property
    def stacked(self) -> Tensor:
        return torch.from_numpy(np.concatenate(self.patches))

    @property
    def offsets(self) -> Tensor:
        return torch.from_numpy(np.cumsum([0] + [len(part) for part in self.nodes]))

    @property
    def overlaps(self) -> OverlapIndex:
        return index_overlaps(self.nodes)

    @property
    def pairs(self) -> list[tuple[np.ndarray, np.ndarray]]:
        return list(zip(self.nodes, self.patches, strict=True))

    def error(self, embedding: Tensor) -> float:
        """Relative distance to the truth after the best common rotation and shift."""
        found = embedding.double() - embedding.double().mean(0)
        truth = self.truth - self.truth.mean(0)
        left, _, right = torch.linalg.svd(found.T @ truth)
        return float((found @ (left @ right) - truth).norm() / truth.norm())

    def frame_error(self, frame: Frame) -> float:
        rows = torch.from_numpy(np.concatenate(self.nodes))
        return self.error(assemble(apply_frame(self.stacked, self.offsets, frame), rows, len(self.truth)))


def make_patches(
    edges: list[tuple[int, int]],
    num_patches: int,
    dim: int,
    *,
    shared: int | None = None,
    own: int = 3,
    noise: float = 0.0,
    dtype: type = np.float64,
    seed: int = 0,
) -> KnownPatches:
    """Every pair of edges shares nodes of its own."""
    generator = np.random.default_rng(seed)
    shared = dim + 3 if shared is None else shared
    nodes: list[list[int]] = [[] for _ in range(num_patches)]
    count = 0
    for i, j in edges:
        for patch in (i, j):
            nodes[patch] += range(count, count + shared)
        count += shared
    for patch in range(num_patches):
        nodes[patch] += range(count, count + own)
        count += own
    truth = generator.normal(size=(count, dim))
    rotations, patches = [], []
    for patch in nodes:
        rotation = np.linalg.qr(generator.normal(size=(dim, dim)))[0]
        rotation[0] *= generator.choice([-1, 1])  # half of them reflections
        moved = (truth[patch] - generator.normal(size=dim)) @ rotation.T
        patches.append((moved + noise * generator.normal(size=moved.shape)).astype(dtype))
        rotations.append(rotation)
    arrays = [np.array(patch, dtype=np.int64) for patch in nodes]
    return KnownPatches(torch.from_numpy(truth), arrays, patches, torch.from_numpy(np.stack(rotations)))


def graph(kind: str, num_patches: int) -> list[tuple[int, int]]:
    generator = np.random.default_rng(1)
    ring = [(i, (i + 1) % num_patches) for i in range(num_patches)] if num_patches > 2 else [(0, 1)]
    tree = [(int(generator.integers(0, i)), i) for i in range(1, num_patches)]
    width = max(1, int(num_patches**0.5))
    grid = [(i, i + 1) for i in range(num_patches - 1) if (i + 1) % width]
    grid += [(i, i + width) for i in range(num_patches - width)]
    chords = [(i, j) for i, j in generator.integers(0, num_patches, size=(num_patches, 2)).tolist() if i < j]
    return {"ring": ring, "tree": tree, "grid": grid, "random": sorted(set(tree + chords))}[kind]


@pytest.fixture
def known():
    """The factory of patches, and the patch graphs by name."""
    return lambda kind, num_patches, dim, **options: make_patches(
        graph(kind, num_patches) if isinstance(kind, str) else kind, num_patches, dim, **options
    )
