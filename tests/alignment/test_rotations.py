import pytest
import torch

from l2g2g.alignment.hierarchy import chain_groups, chain_rotations, cut_into_groups, grow_forest
from l2g2g.alignment.laplacian import PatchLaplacian
from l2g2g.alignment.rotations import _Landscape, disagreement, refine_rotations, transport


def random_rotations(count, dim, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(count, dim, dim, generator=generator, dtype=torch.float64))[0]


def test_the_forest_takes_the_heaviest_pairs_and_roots_at_the_largest_patch():
    edges = torch.tensor([[0, 1], [1, 2], [0, 2], [3, 4]])
    forest = grow_forest(edges, torch.tensor([1.0, 3.0, 2.0, 1.0]), torch.tensor([5, 5, 9, 1, 2, 7]))
    assert forest.roots[forest.components].tolist() == [2, 2, 2, 4, 4, 5]
    assert forest.parents.tolist() == [2, 2, 2, 4, 4, 5]
    assert forest.parent_pairs.tolist() == [2, 1, -1, 3, -1, -1]


def test_chaining_along_a_path_multiplies_in_order():
    maps = random_rotations(6, 3)
    edges = torch.stack([torch.arange(6), torch.arange(1, 7)], 1)
    forest = grow_forest(edges, torch.ones(6), torch.tensor([9, 1, 1, 1, 1, 1, 1]))
    chained = chain_rotations(forest, edges, maps)
    expected = torch.eye(3, dtype=torch.float64)
    for patch in range(6):  # S_i = R_i,i+1 S_i+1, so S_i+1 = R_i,i+1ᵀ S_i
        expected = maps[patch].T @ expected
        torch.testing.assert_close(chained[patch + 1], expected)


def grid_with_noise(width, dim, noise):
    patches = torch.arange(width * width).view(width, width)
    edges = torch.cat(
        [
            torch.stack([patches[:, :-1].reshape(-1), patches[:, 1:].reshape(-1)], 1),
            torch.stack([patches[:-1].reshape(-1), patches[1:].reshape(-1)], 1),
        ]
    )
    truth = random_rotations(width * width, dim)
    generator = torch.Generator().manual_seed(1)
    error = noise * torch.randn(len(edges), dim, dim, generator=generator, dtype=torch.float64)
    relative = truth[edges[:, 0]] @ torch.linalg.matrix_exp(error - error.mT) @ truth[edges[:, 1]].mT
    weights = torch.ones(len(edges), dtype=torch.float64)
    return edges, relative, weights, truth


def error_of(rotations, truth):
    turn = torch.linalg.svd((rotations.mT @ truth).sum(0))
    return float((rotations @ (turn[0] @ turn[2]) - truth).norm() / truth.norm())


def test_groups_are_connected_and_exact_without_noise():
    edges, relative, weights, truth = grid_with_noise(30, 3, 0.0)
    forest = grow_forest(edges, weights, torch.ones(900))
    groups = cut_into_groups(forest)
    inner = forest.parents[groups[forest.parents] == groups]
    # In a connected group of a tree all but one patch have their parent inside; a root is its own parent.
    assert len(inner) == 900 - (int(groups.max()) + 1) + forest.num_components
    assert error_of(chain_groups(forest, edges, relative, weights), truth) < 1e-12


@pytest.mark.slow
def test_groups_drift_less_than_a_tree_and_refinement_less_than_both():
    edges, relative, weights, truth = grid_with_noise(30, 3, 0.08)
    forest = grow_forest(edges, weights, torch.ones(900))
    tree = chain_rotations(forest, edges, relative)
    groups = chain_groups(forest, edges, relative, weights)
    laplacian = PatchLaplacian(edges, weights, forest.roots, 900)
    refined = refine_rotations(groups, edges, relative, laplacian)
    assert error_of(groups, truth) < error_of(tree, truth)
    assert error_of(refined.rotations, truth) < error_of(groups, truth)
    assert disagreement(refined.rotations, edges, relative, weights) < disagreement(groups, edges, relative, weights)
    assert refined.change <= 1e-7


def test_gradient_and_curvature_are_derivatives_of_the_value():
    edges, relative, weights, truth = grid_with_noise(3, 3, 0.2)
    laplacian = PatchLaplacian(edges, weights, torch.tensor([0]), 9)
    landscape = _Landscape(edges, relative, laplacian)
    entries = torch.randn(9, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3))

    def value(step):
        moved = truth @ torch.linalg.matrix_exp(step * landscape.skew(entries))
        return landscape.value(transport(moved, edges, relative))

    agreement = transport(truth, edges, relative)
    slope = float((landscape.gradient(agreement) * entries).sum())
    bend = float((landscape.curvature(entries, agreement) * entries).sum())
    # The value counts both triangles of a skew matrix, its entries only one.
    torch.testing.assert_close((value(1e-5) - value(-1e-5)) / 2e-5, 2 * slope, rtol=1e-6, atol=0)
    torch.testing.assert_close((value(1e-3) + value(-1e-3) - 2 * value(0)) / 1e-6, -2 * bend, rtol=1e-4, atol=0)
    torch.testing.assert_close(landscape.bend(entries, agreement), bend)
