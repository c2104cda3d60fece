import pytest
import torch

from l2g2g.alignment.polar import newton_schulz, polar_by_svd, polar_factor
from l2g2g.alignment.synchronise import Frame, apply_frame, synchronise

FLOAT64 = {"dtype": torch.float64}


@pytest.mark.parametrize("noise", [0.0, 0.2])  # without noise the top eigenvalues of the block matrix are all equal
@pytest.mark.parametrize("route", ["svd", "newton-schulz"])
@pytest.mark.parametrize(("scale", "warm"), [(False, False), (True, True), (True, False)])
def test_gradcheck_of_the_whole_solver(known, noise, route, scale, warm):
    data = known("ring", 3, 3, noise=noise, shared=6, own=0)
    previous = Frame.identity(3, 3, dtype=torch.float64) if warm else None
    offsets, overlaps = data.offsets, data.overlaps

    def solve(coordinates):
        options = {"differentiable": True, "tolerance": 1e-13, "max_steps": 300, "previous": previous}
        frame = synchronise(coordinates, offsets, overlaps, route=route, scale=scale, **options)
        parts = [frame.rotations, frame.translations, *([frame.scales] if scale else [])]
        return *parts, apply_frame(coordinates, offsets, frame)

    # One random direction on either side of the Jacobian instead of all of its columns: the solver is not cheap.
    assert torch.autograd.gradcheck(solve, (data.stacked.requires_grad_(),), atol=1e-6, rtol=1e-5, fast_mode=True)


def test_gradients_are_finite_where_overlaps_are_rank_deficient(known):
    data = known("ring", 5, 4, shared=2, noise=0.1)
    coordinates = data.stacked.requires_grad_()
    frame = synchronise(coordinates, data.offsets, data.overlaps, differentiable=True)
    apply_frame(coordinates, data.offsets, frame).square().sum().backward()
    assert coordinates.grad is not None
    assert bool(torch.isfinite(coordinates.grad).all())


def test_without_the_option_the_frame_is_a_constant(known):
    data = known("ring", 3, 2)
    frame = synchronise(data.stacked.requires_grad_(), data.offsets, data.overlaps)
    assert not frame.rotations.requires_grad
    assert not frame.translations.requires_grad


def test_polar_gradients_with_equal_singular_values():
    matrices = torch.stack([torch.eye(3, **FLOAT64), torch.diag(torch.tensor([2.0, 2.0, 0.5], **FLOAT64))])
    matrices = matrices.requires_grad_()
    assert torch.autograd.gradcheck(polar_factor, (matrices,))
    assert torch.autograd.gradcheck(newton_schulz, (matrices,))


def test_the_gradient_of_a_partial_isometry():
    generator = torch.Generator().manual_seed(0)
    left = torch.randn(2, 4, 2, generator=generator, **FLOAT64, requires_grad=True)
    right = torch.randn(2, 2, 4, generator=generator, **FLOAT64, requires_grad=True)
    floors = torch.full((2,), 1e-9, **FLOAT64)
    assert torch.autograd.gradcheck(lambda a, b: polar_by_svd(a @ b, floors)[0], (left, right))


def test_newton_schulz_agrees_with_svd_also_for_partial_isometries():
    generator = torch.Generator().manual_seed(0)
    full = torch.randn(5, 6, 6, generator=generator, **FLOAT64)
    torch.testing.assert_close(newton_schulz(full), polar_factor(full), atol=1e-9, rtol=0)
    thin = torch.randn(5, 6, 3, generator=generator, **FLOAT64) @ torch.randn(5, 3, 6, generator=generator, **FLOAT64)
    floors = torch.full((5,), 1e-9, **FLOAT64)
    torch.testing.assert_close(newton_schulz(thin), polar_by_svd(thin, floors)[0], atol=1e-6, rtol=0)
    assert newton_schulz(full[:0]).shape == (0, 6, 6)
