"""Saved models: all that new nodes need comes back to the bit; older and damaged ones are told apart."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from l2g2g import GAE, GAEL2G, L2G2G, InputError
from l2g2g.estimator import load_model
from l2g2g.saved_model import read_model

KINDS = {
    "features": GAE(dim=4, epochs=3),
    "compressed": L2G2G(dim=4, patches=2, epochs=3, preset="accurate", hidden=4, feature_width=6),
    "blended": GAE(dim=4, epochs=3, structure="blend"),
    "patches": GAEL2G(dim=4, patches=2, epochs=3),
    "learned decoder": GAE(dim=4, epochs=3, decoder="product"),
}


@pytest.fixture(scope="module")
def known(noisy):
    return noisy.induce(np.arange(0, 110))


@pytest.mark.parametrize("kind", KINDS)
def test_new_nodes_get_the_same_vectors_from_a_loaded_model(noisy, known, kind, tmp_path):
    model = KINDS[kind].fit(known)
    wanted = model.transform(noisy)
    assert (model.fitted.inputs.projection is not None) == (kind == "compressed")
    model.save(tmp_path)
    loaded = load_model(tmp_path)
    assert type(loaded) is type(model)
    assert (loaded.transform(noisy) == wanted).all()
    assert loaded.n_features_in_ == model.n_features_in_ == 12
    assert loaded.score(noisy) == model.score(noisy)
    loaded.set_params(epochs=2).partial_fit(noisy) if kind != "patches" else None


def test_structure_alone_comes_back(plain, tmp_path):
    model = GAE(dim=4, epochs=3).fit(plain.induce(np.arange(110)))
    model.save(tmp_path)
    assert (GAE.load(tmp_path).transform(plain) == model.transform(plain)).all()


def test_the_first_format_is_read_but_knows_nothing_of_new_nodes(noisy, tmp_path):
    model = GAE(dim=4, epochs=3).fit(noisy)
    model.save(tmp_path)
    manifest = json.loads((tmp_path / "model.json").read_text())
    for name in ("inputs", "files", "sha256"):
        del manifest[name]
    (tmp_path / "model.json").write_text(json.dumps({**manifest, "format": "l2g2g model 1"}))
    tensors = load_file(tmp_path / "model.safetensors")
    save_file({name: tensors[name] for name in tensors if name == "embedding"}, tmp_path / "model.safetensors")
    old = GAE.load(tmp_path)
    assert (old.embedding_ == model.embedding_).all()
    for ask in (old.transform, old.partial_fit, old.score):
        with pytest.raises(InputError, match=r"lacks what new nodes need.*older version"):
            ask(noisy)
    with pytest.raises(InputError, match="cannot be saved again"):
        old.save(tmp_path / "again")


def test_a_changed_file_is_noticed(noisy, tmp_path):
    GAE(dim=4, epochs=3).fit(noisy).save(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["embedding"] = tensors["embedding"] + torch.tensor(1e-3)
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(InputError, match=r"model.safetensors is damaged \(its checksum differs\)"):
        read_model(tmp_path)


@pytest.mark.parametrize("missing", ["known.degrees", "frame.scales", "known.layers.1", "model.encoders.0.weights.0"])
def test_a_missing_part_is_noticed(noisy, tmp_path, missing, monkeypatch):
    from l2g2g import saved_model

    GAE(dim=4, epochs=3).fit(noisy).save(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors[missing]
    monkeypatch.setattr(saved_model, "load_file", lambda path: tensors)  # as if someone had signed it
    with pytest.raises(InputError, match="is not a model that was saved here"):
        read_model(tmp_path)
    monkeypatch.undo()
    assert read_model(tmp_path).fitted is not None
