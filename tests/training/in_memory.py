"""Batches, pairs and trainings of a graph in memory, as a run makes them."""

import numpy as np

from l2g2g.graphs.graph import Graph
from l2g2g.parallel.communicator import LOCAL
from l2g2g.parallel.node_table import NodeTable, RangeOwners
from l2g2g.training.batches import BatchOptions, PatchBatches, group_patches
from l2g2g.training.loop import Training
from l2g2g.training.node_pairs import NodePairs
from l2g2g.training.objective import GlobalPairs
from l2g2g.training.pair_source import PairOptions
from l2g2g.training.patch_source import InducedPatches
from l2g2g.training.rows import TrainingRows


def prepare_batches(
    patch_set,
    adjacency,
    features,
    held_out,
    *,
    together=True,
    patches=None,
    options=None,
    arcs=None,
    **more,
):
    wanted = np.arange(patch_set.num_patches) if patches is None else patches
    source = InducedPatches(patch_set, adjacency, features, not (adjacency.data == 1).all(), arcs)
    how = BatchOptions(pairs=options or PairOptions(), **more)
    return PatchBatches(source, group_patches(wanted, together=together), held_out, how)


def prepare_global_pairs(patch_set, adjacency, held_out, *, batches=(), arcs=None, **more):
    graph = Graph(adjacency, arcs=arcs, weighted=True)
    num_nodes = patch_set.num_nodes
    pairs = NodePairs(
        TrainingRows(graph),
        held_out,
        patch=batches[0].pairs if patch_set.num_patches == 1 and len(batches) else None,
        **more,
    )
    table = NodeTable(LOCAL, RangeOwners(np.array([0, num_nodes])), np.arange(num_nodes))
    return GlobalPairs(pairs, table, patch_set.shares_of)


def train(model, batches, patch_set, settings, *, on_epoch=None, **parts):
    training = Training(model, batches, patch_set, settings, **parts)
    training.run(on_epoch=on_epoch)
    return training.finish()
