"""Our Adam against torch's."""

import pytest
import torch

from l2g2g.training.adam import Adam


@pytest.mark.slow
def test_steps_are_those_of_torch():
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(4, 3, generator=generator), torch.randn((), generator=generator)]
    ours, theirs = ([each.clone().requires_grad_() for each in start] for _ in range(2))
    unused = torch.zeros(2, requires_grad=True)
    mine, reference = Adam([*ours, unused], 0.1), torch.optim.Adam(theirs, lr=0.1)
    for step in range(5):
        for parameters in (ours, theirs):
            loss = ((parameters[0] - step) ** 2).sum() * parameters[1]
            for each in parameters:
                each.grad = None
            loss.backward()
        mine.step()
        reference.step()
    for found, expected in zip(ours, theirs, strict=True):
        assert torch.allclose(found, expected, atol=1e-6)
    assert torch.equal(unused, torch.zeros(2))


def test_forgetting_starts_again():
    weight = torch.ones(3, requires_grad=True)
    optimiser = Adam([weight], 0.5)
    weight.grad = torch.ones(3)
    optimiser.step()
    first = 1 - weight.detach()
    optimiser.forget()
    before = weight.detach().clone()
    optimiser.step()
    assert torch.allclose(before - weight.detach(), first)
