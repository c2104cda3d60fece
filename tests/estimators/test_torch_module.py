"""Torch module: the vectors of the model it comes from, and gradients to train on."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from l2g2g import GAE, GAEL2G, L2G2G, VGAE, InputError


@pytest.mark.parametrize(
    "model",
    [
        GAE(dim=4, epochs=5, structure="none"),
        VGAE(dim=4, epochs=5, structure="none"),
        L2G2G(dim=4, patches=2, epochs=5, preset="accurate", hidden=4, structure="none"),
    ],
    ids=["gae", "vgae", "accurate"],
)
@pytest.mark.parametrize("sparse", [False, True])
def test_a_module_gives_the_vectors_of_its_model(noisy, model, sparse):
    graph = noisy
    module = model.fit(graph).module_
    edges = torch.from_numpy(np.stack(graph.edges()).astype(np.int64))
    features = sp.csr_array(graph.features) if sparse else torch.from_numpy(graph.features)
    found = module(features, edges)
    assert found.detach().numpy() == pytest.approx(model.embedding_, abs=1e-5)
    csr = graph.adjacency
    tensor = torch.sparse_csr_tensor(
        *(torch.from_numpy(part) for part in (csr.indptr, csr.indices, csr.data)), csr.shape, check_invariants=True
    )
    for kind in (csr, tensor, tensor.to_sparse_coo()):
        assert module(features, kind).detach().numpy() == pytest.approx(model.embedding_, abs=1e-5)


def test_a_module_trains_on(noisy):
    model = GAE(dim=4, epochs=5, structure="none").fit(noisy)
    published, before = model.embedding_.copy(), model.transform(noisy, new_graph=True)
    head = torch.nn.Linear(4, 4)
    module = model.module_
    optimiser = torch.optim.Adam([*module.parameters(), *head.parameters()], lr=0.05)
    features, edges = torch.from_numpy(noisy.features), torch.from_numpy(np.stack(noisy.edges()).astype(np.int64))
    labels = torch.from_numpy(noisy.labels)
    losses = []
    for _ in range(30):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(head(module(features, edges)), labels)
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.3 * losses[0]
    assert model.module_ is module
    assert (model.embedding_ == published).all()
    assert (model.transform(noisy, new_graph=True) == before).all()  # the model itself has not moved
    assert isinstance(module, torch.nn.Module)
    assert sum(value.numel() for value in module.parameters()) > 0


def test_a_module_needs_features_and_one_frame(noisy, plain):
    with pytest.raises(InputError, match="from 2 patches"):
        _ = GAEL2G(dim=4, patches=2, epochs=2).fit(noisy).module_
    with pytest.raises(InputError, match="columns made from the structure"):
        _ = GAE(dim=4, epochs=2).fit(plain).module_
    with pytest.raises(InputError, match="trained on 12"):
        GAE(dim=4, epochs=2, structure="none").fit(noisy).module_(np.ones((5, 3)), np.array([[0], [1]]))
    with pytest.raises(InputError, match=r"edges have shape \(5, 2\)"):
        GAE(dim=4, epochs=2, structure="none").fit(noisy).module_(noisy.features, np.zeros((5, 2), int))
