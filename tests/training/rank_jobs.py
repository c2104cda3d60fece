"""Trainings that the tests run on one rank and on several: python rank_jobs.py FOLDER CASE..., started by torchrun."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from l2g2g.config import make_config
from l2g2g.graphs.block_model import BlockModel
from l2g2g.parallel.communicator import LOCAL, Place, join_ranks
from l2g2g.parallel.node_directory import NodeDirectory
from l2g2g.parallel.node_table import NodeTable
from l2g2g.runs.embed import embed_graph
from l2g2g.runs.evaluate import evaluate_graph

SMALL = {"patches": 5, "dim": 4, "hidden": 8, "epochs": 12, "lr": 0.01, "threads": 1, "target_overlap": 16}
SMALL["structure"] = "none"  # rounding turns eigenvectors, and losses with them
CASES = {
    "paper": {"preset": "paper", "patience": 0},
    "paper with all of the alignment": {"preset": "paper", "translate": True, "scale": True, "refresh_every": 3},
    "default": {"patience": 0},
    "default with validation": {"rotate": True, "translate": True, "patience": 3, "validate_every": 3},
    "patch by patch": {"together": False, "rotate": True, "refresh_every": 4},
    "learned decoder": {"preset": "accurate", "hidden": 4, "feature_width": 0},
    "variational": {"method": "vl2g2g"},
    "sage": {"encoder": "sage", "rotate": True, "patience": 3, "validate_every": 3},
    "separate encoders": {"share_encoder": False, "validate_every": 4},
    "negatives by degree": {"negative_sampling": "degree"},
    "many negatives": {"negatives_per_edge": 4.0, "patience": 0},
    "structure": {"structure": "blend", "structure_width": 5, "patience": 0},
    "masked nodes": {"mask_by": "nodes", "patience": 0},
    "evaluated paper": {"preset": "paper", "epochs": 30, "patience": 0},
    "evaluated default": {"epochs": 30, "patience": 0},
    "apart": {"method": "gae+l2g", "preset": "paper"},
    "apart with a learned bias": {"method": "gae+l2g", "validate_every": 6},
}


def make_graph():
    """Four blocks of 60 nodes with six dense columns."""
    graph = BlockModel.planted(num_blocks=4, block_size=60, inside=0.3, outside=0.02).sample(0, name="blocks")
    features = np.random.default_rng(0).normal(size=(graph.num_nodes, 6)) + graph.features @ np.eye(4, 6)
    return replace(graph, features=features.astype(np.float32))


def run(name, communicator=LOCAL):
    """(AUC or None, the training)."""
    graph, config = make_graph(), make_config(**{**SMALL, **CASES[name]})
    if name.startswith("evaluated"):
        row, done = evaluate_graph(graph, config, communicator=communicator)
        return row.get("auc"), done
    return None, embed_graph(graph, config, communicator=communicator)


def count_ends(found):
    """Write down, every time vectors are asked for, how many of them other ranks own."""
    request = NodeTable.request

    def counted(self, wanted, count):
        asked, total = request(self, wanted, count)
        found.append(sum(asked.lengths) - asked.lengths[self.communicator.rank])
        return asked, total

    NodeTable.request = counted


def count_drawn(found):
    """Write down how many of the far ends of non-edges another rank knows."""
    at = NodeDirectory.at

    def counted(self, places):
        here = slice(*np.searchsorted(places, self.bounds[self.communicator.rank : self.communicator.rank + 2]))
        found.append(len(places) - len(places[here]))
        return at(self, places)

    NodeDirectory.at = counted


def main(folder, names):
    ends, drawn = [], []
    count_ends(ends)
    count_drawn(drawn)
    with join_ranks(Place.read(os.environ), timeout=60) as communicator:
        for number, name in enumerate(names):
            ends.clear()
            drawn.clear()
            auc, done = run(name, communicator)
            asked, far = (communicator.tell_all("test", [sum(counts)]) for counts in (ends, drawn))
            if communicator.is_first:
                told = json.dumps({"messages": done.messages, "auc": auc, "asked": asked, "drawn": far})
                losses = np.array(done.trained.history.losses)
                np.savez(folder / f"{number}.npz", embedding=done.embedding, losses=losses, told=told)
            else:
                assert len(done.embedding) == 0


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
