"""Trainings whose ranks look for arrays of the length of the graph: python rank_memory_jobs.py STORE FOLDER."""

import gc
import json
import os
import sys
from pathlib import Path

import numpy as np
import torch

from l2g2g.config import make_config
from l2g2g.graphs.store import open_graph
from l2g2g.parallel.communicator import Place, join_ranks
from l2g2g.parallel.node_table import NodeTable
from l2g2g.runs.embed import embed_graph

CASES = {
    "default": {},
    "structure": {"structure": "blend", "structure_width": 5},
    "negatives by degree": {"negative_sampling": "degree", "structure": "none"},
    "aligned patches": {"preset": "paper", "assembly": "mean"},
    "whole graph": {"method": "gae", "structure": "none"},
    "node sample": {"method": "fastgae", "structure": "none", "sample_size": 100},
}


def find_long(num_nodes):
    """Shapes of arrays in memory that have a place for every node, with the variables or types that hold them."""
    found = set()
    gc.collect()

    def is_long(value):
        kinds = (np.ndarray, torch.Tensor)
        return type(value) in kinds and any(size in (num_nodes, num_nodes + 1) for size in value.shape)

    for each in gc.get_objects():
        for value in gc.get_referents(each):
            if is_long(value):
                found.add(f"{type(each).__name__} {tuple(value.shape)}")
    frame = sys._getframe(1)
    while frame is not None:
        for name, value in frame.f_locals.items():
            if is_long(value):
                found.add(f"{name} of {frame.f_code.co_name} {tuple(value.shape)}")
        frame = frame.f_back
    return found


class Watch:
    """Looks for such arrays when a method has done its work, the first two times of every case."""

    def __init__(self, kind, name, num_nodes):
        self.found, self.times, function = set(), 0, getattr(kind, name)

        def watched(*arguments, **more):
            result = function(*arguments, **more)
            self.times += 1
            if self.times <= 2:
                self.found.update(find_long(num_nodes))
            return result

        setattr(kind, name, watched)


def train(case, graph, communicator, watch):
    """What a rank found in a case, and how many nodes are its own."""
    watch.found, watch.times = set(), 0
    small = {"patches": 16, "dim": 4, "hidden": 8, "epochs": 2, "validate_every": 2, "threads": 1}
    run = embed_graph(graph, make_config(**{**small, **CASES[case]}), communicator=communicator, gather=False)
    watch.found.update(find_long(graph.num_nodes))
    return {"found": sorted(watch.found), "here": len(run.embedding), "watched": watch.times}


def main(store, folder):
    graph = open_graph(store)
    watch = Watch(NodeTable, "gather", graph.num_nodes)  # the pairs of the epoch are in memory then
    with join_ranks(Place.read(os.environ), timeout=60) as communicator:
        told = {case: train(case, graph, communicator, watch) for case in CASES}
        (folder / f"{communicator.rank}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
