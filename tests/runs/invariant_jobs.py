"""Three epochs of every option on several ranks: python invariant_jobs.py FOLDER OPTION..., started by torchrun."""

import os
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from l2g2g.config import make_config
from l2g2g.graphs.block_model import BlockModel
from l2g2g.methods import METHODS
from l2g2g.parallel.communicator import LOCAL, Place, join_ranks
from l2g2g.runs.embed import embed_graph
from l2g2g.training.shard import Shard

SMALL = {"patches": 5, "dim": 4, "hidden": 8, "epochs": 3, "lr": 0.01, "threads": 1, "patience": 0}
SMALL |= {"min_overlap": 5, "target_overlap": 16}
PATCH_OPTIONS = ("patches", "min_overlap", "target_overlap")
# What every option of a training is set to; each changes the loss of one of the first epochs.
OPTIONS = {
    "preset paper": {"preset": "paper", "patches": 5},
    "preset accurate": {"preset": "accurate", "dim": 4, "hidden": 4, "feature_width": 0},
    "method gae+l2g": {"method": "gae+l2g"},
    "method vl2g2g": {"method": "vl2g2g"},
    "dim": {"dim": 5},
    "hidden": {"hidden": 7},
    "layers": {"layers": 3},
    "encoder sage": {"encoder": "sage"},
    "encoder linear": {"encoder": "linear"},
    "activation": {"activation": "elu"},
    "residual": {"residual": True, "hidden": 4},
    "skip": {"skip": False},
    "separate encoders": {"share_encoder": False},
    "patches": {"patches": 6},
    "partition fennel": {"partition": "fennel", "fennel_passes": 2},
    "partition random": {"partition": "random"},
    "overlap": {"min_overlap": 3, "target_overlap": 6},
    "rotate": {"rotate": True},
    "translate": {"rotate": True, "translate": True},
    "scale": {"rotate": True, "scale": True},
    "refresh every epoch": {"rotate": True, "refresh_every": 1},
    "feature scaling": {"feature_scaling": "unit"},
    "raw features": {"feature_scaling": "raw"},
    "feature width": {"feature_width": 4},
    "feature dropout": {"feature_dropout": 0.3},
    "feature storage": {"feature_storage": "float16"},
    "structure": {"structure": "blend", "structure_width": 5},
    "mask": {"mask": 0.3},
    "mask nodes": {"mask_by": "nodes"},
    "decoder cosine": {"decoder": "cosine"},
    "decoder distance": {"decoder": "distance"},
    "decoder product": {"decoder": "product"},
    "scope inside": {"scope": "inside"},
    "all pairs": {"scope": "inside", "pairs": "all"},
    "score fraction": {"score_fraction": 0.5},
    "weighted loss": {"weighted_loss": True},
    "fixed negatives": {"negatives": "fixed"},
    "negatives by degree": {"negative_sampling": "degree"},
    "degree and weights": {"negative_sampling": "degree", "weighted_loss": True},
    "learning rate": {"lr": 0.02},
    "schedule": {"schedule": "linear"},
    "seed": {"seed": 1},
    "patch by patch": {"together": False, "rotate": True},
    "method gae": {"method": "gae"},
    "method fastgae": {"method": "fastgae", "sample_size": 60},
    "method vgae": {"method": "vgae"},
    "gae preset paper": {"method": "gae", "preset": "paper"},
    "gae sage": {"method": "gae", "encoder": "sage"},
    "gae linear": {"method": "gae", "encoder": "linear"},
    "gae mask nodes": {"method": "gae", "mask_by": "nodes"},
    "gae weighted by degree": {"method": "gae", "weighted_loss": True, "negative_sampling": "degree"},
    "gae all pairs": {"method": "gae", "pairs": "all"},
    "gae feature dropout": {"method": "gae", "feature_dropout": 0.3},
    "gae feature storage": {"method": "gae", "feature_storage": "float16"},
    "gae structure": {"method": "gae", "structure": "blend", "structure_width": 5},
}
# Whose loss is that of another option, because they change no sum but its order.
SAME = {"patch by patch": "rotate"}


def make_graph():
    """Four blocks of 60 nodes, edges of different weights, twelve dense columns."""
    graph = BlockModel.planted(num_blocks=4, block_size=60, inside=0.3, outside=0.02).sample(0, name="blocks")
    generator = np.random.default_rng(0)
    sources, targets = graph.edges()
    weights = generator.integers(1, 5, len(sources)).astype(np.float32)
    features = generator.random((graph.num_nodes, 12)) + graph.features @ np.eye(4, 12)
    heavy = graph.with_edges(sources, targets, weights)
    return replace(heavy, features=features.astype(np.float32), weighted=True)


@contextmanager
def first_gradient():
    """A dictionary that gets the gradient of every parameter in the first epoch, zeros where this rank has none."""
    found, add_gradients = {}, Shard.add_gradients

    def noted(self, model, loss):
        loss = add_gradients(self, model, loss)
        for name, parameter in model.named_parameters():
            gradient = parameter.grad
            found.setdefault(name, np.zeros(parameter.shape) if gradient is None else gradient.numpy().copy())
        return loss

    try:
        Shard.add_gradients = noted
        yield found
    finally:
        Shard.add_gradients = add_gradients


def run(options, graph=None, communicator=LOCAL, **more):
    """(the training, the gradient of its first epoch) on this rank."""
    given = {**SMALL, **options, **more}
    method = given.pop("method", "l2g2g")
    if not METHODS[method].uses_patches:
        given = {option: value for option, value in given.items() if option not in PATCH_OPTIONS}
    config = make_config(method, given.pop("preset", "default"), **given)
    with first_gradient() as gradient:
        done = embed_graph(make_graph() if graph is None else graph, config, communicator=communicator)
    return done, gradient


def main(folder, names):
    with join_ranks(Place.read(os.environ), timeout=60) as communicator:
        for number, name in enumerate(names):
            done, gradient = run(OPTIONS.get(name, {}), communicator=communicator)
            told = {"losses": np.array(done.trained.history.losses), "nodes": done.patch_set.global_nodes}
            np.savez(folder / f"{number}-{communicator.rank}.npz", **told, **gradient)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
