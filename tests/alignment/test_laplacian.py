import pytest
import torch

from l2g2g.alignment.laplacian import PatchLaplacian
from l2g2g.errors import NumericalError

EDGES = torch.tensor([[0, 1], [1, 2], [0, 2], [3, 4]])
WEIGHTS = torch.tensor([1.0, 2.0, 1.0, 5.0], dtype=torch.float64)
ROOTS = torch.tensor([0, 3])


@pytest.mark.parametrize("solver", ["dense", "sparse", "iterative"])
def test_a_triangle_and_a_pair_by_hand(solver):
    laplacian = PatchLaplacian(EDGES, WEIGHTS, ROOTS, 6 - 1, solver)
    # x_0 - x_1 = 1, x_1 - x_2 = 1, x_0 - x_2 = 2 agree; the pair apart is solved as well.
    differences = torch.tensor([[1.0], [1.0], [2.0], [-7.0]], dtype=torch.float64)
    torch.testing.assert_close(laplacian.integrate(differences)[:, 0].tolist(), [0.0, -1.0, -2.0, 0.0, 7.0])


def test_solvers_agree_on_a_large_random_graph():
    generator = torch.Generator().manual_seed(0)
    tree = torch.stack([torch.arange(1, 400), torch.arange(1, 400) // 3], 1).flip(1)
    chords = torch.randint(0, 400, (300, 2), generator=generator).sort(1)[0]
    edges = torch.cat([tree, chords[chords[:, 0] < chords[:, 1]]]).unique(dim=0)
    weights = torch.rand(len(edges), generator=generator, dtype=torch.float64) + 0.1
    right = torch.randn(len(edges), 3, generator=generator, dtype=torch.float64)
    results = [
        PatchLaplacian(edges, weights, torch.tensor([7]), 400, solver).integrate(right)
        for solver in ("dense", "sparse", "iterative", "auto")
    ]
    for other in results[1:]:
        torch.testing.assert_close(other, results[0], atol=1e-9, rtol=0)


def _fail(*_args, **_options):
    raise torch.linalg.LinAlgError("forced")


def test_a_failing_factorisation_falls_back_and_then_gives_up(monkeypatch):
    differences = torch.tensor([[1.0], [1.0], [2.0], [-7.0]], dtype=torch.float64)
    monkeypatch.setattr(torch.linalg, "cholesky", _fail)
    solved = PatchLaplacian(EDGES, WEIGHTS, ROOTS, 5, "dense").integrate(differences)
    torch.testing.assert_close(solved[:, 0].tolist(), [0.0, -1.0, -2.0, 0.0, 7.0])
    monkeypatch.setattr(torch.linalg, "pinv", _fail)
    with pytest.raises(NumericalError, match="least squares over 5 patches"):
        PatchLaplacian(EDGES, WEIGHTS, ROOTS, 5, "dense")
