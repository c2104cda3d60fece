"""Trainings from a store on one rank and on several: python rank_store_jobs.py FOLDER STORE CASE..., by torchrun.

Each rank leaves which rows of which array of the patches it read.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np

from l2g2g.config import make_config
from l2g2g.graphs.array_folder import StoredArray
from l2g2g.graphs.store import open_graph
from l2g2g.parallel.communicator import LOCAL, Place, join_ranks
from l2g2g.patches.store import open_patches
from l2g2g.runs.budget import Needs
from l2g2g.runs.embed import embed_graph
from l2g2g.runs.evaluate import evaluate_graph

SMALL = {"patches": 5, "dim": 4, "hidden": 8, "epochs": 10, "lr": 0.01, "threads": 1}
SMALL |= {"min_overlap": 5, "target_overlap": 16}
SMALL["structure"] = "none"  # rounding turns eigenvectors, and losses with them
PLENTY = 10**11
CASES = {
    "paper": {"preset": "paper"},
    "default": {},
    "sage": {"encoder": "sage", "rotate": True, "patience": 3, "validate_every": 3},
    "within a limit": {"memory": PLENTY, "assembly": "whole"},
    "nothing stays in memory": {"memory": PLENTY, "rotate": True, "assembly": "mean", "refresh_every": 3},
    "with validation": {"rotate": True, "translate": True, "patience": 3, "validate_every": 3},
    "separate encoders": {"method": "gae+l2g", "validate_every": 4},
    "apart": {"method": "gae+l2g", "preset": "paper", "patience": 0},
    "evaluation": {},
    "negatives by degree": {"negative_sampling": "degree"},
    "structure": {"structure": "blend", "structure_width": 5},
    "masked nodes": {"mask_by": "nodes"},
}
WHOLE_GRAPH = {
    "gae": {"method": "gae", "patience": 3, "validate_every": 3},
    "gae of the paper": {"method": "gae", "preset": "paper"},
    "gae read again and again": {"method": "gae", "memory": PLENTY, "encoder": "sage", "mask_by": "nodes"},
    "fastgae": {"method": "fastgae"},
    "all pairs": {"method": "gae", "pairs": "all", "encoder": "linear"},
    "vgae": {"method": "vgae", "structure": "blend", "structure_width": 5},
    "evaluation of gae": {"method": "gae", "mask_by": "nodes"},
}


READ_AGAIN = ("nothing stays in memory", "gae read again and again")


def run(store, name, communicator=LOCAL):
    options = dict({**CASES, **WHOLE_GRAPH}[name])
    if communicator.size == 1:
        options.pop("memory", None)
    small = dict(SMALL)
    if name in WHOLE_GRAPH:
        for option in ("patches", "min_overlap", "target_overlap"):
            del small[option]
    config = make_config(**{**small, **options})
    if name.startswith("evaluation"):
        return evaluate_graph(open_graph(store), config, communicator=communicator)
    return {}, embed_graph(open_graph(store), config, communicator=communicator)


def note_reads(reads):
    """Write down what is read of the patches from now on."""
    read_into = StoredArray.read_into

    def noted(self, out, low):
        if self.path.parent.name == "patches":
            reads.append((self.path.stem, int(low), int(low) + len(out)))
        read_into(self, out, low)

    StoredArray.read_into = noted


def main(folder, store, names):
    reads, spare = [], Needs.spare
    note_reads(reads)
    with join_ranks(Place.read(os.environ), timeout=60) as communicator:
        for number, name in enumerate(names):
            Needs.spare = (lambda *_: 0) if name in READ_AGAIN else spare
            row, done = run(store, name, communicator)
            (folder / f"{number}-{communicator.rank}.json").write_text(json.dumps(reads))
            reads.clear()
            if communicator.is_first:
                patches = open_patches(store)  # a case may cut others than the one before
                bounds = {"features": patches.offsets.tolist(), "indices": patches.entry_offsets.tolist()}
                told = json.dumps({"messages": done.messages, "row": row, "bounds": bounds})
                losses = np.array(done.trained.history.losses)
                np.savez(folder / f"{number}.npz", embedding=done.embedding, losses=losses, told=told)
            else:
                assert len(done.embedding) == 0
                assert row == {}


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
