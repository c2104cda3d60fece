"""Embed: a graph in memory or on disk becomes one vector per node."""

from __future__ import annotations

from typing import Any

from l2g2g.config import Config
from l2g2g.graphs.graph_store import GraphStore
from l2g2g.parallel.communicator import LOCAL, Communicator
from l2g2g.runs.fitted import Start
from l2g2g.runs.patches import RunPatches, find_patches
from l2g2g.runs.ranks import split_on_ranks
from l2g2g.runs.resources import Stopwatch, prepare_torch
from l2g2g.runs.run import Run
from l2g2g.runs.run_directory import RunDirectory
from l2g2g.runs.sources import check_settings, place_graph, share_graph
from l2g2g.runs.training import check_graph, keep_training, run_split
from l2g2g.training.loop import OnEpoch

_MOST_VALIDATION_EDGES = 1_000_000
_LEAST_EDGES = 20  # below, none is held out for validation


def embed_graph(
    graph: GraphStore,
    config: Config,
    *,
    validation_fraction: float = 0.05,
    on_epoch: OnEpoch | None = None,
    directory: RunDirectory | None = None,
    keep: bool = False,
    start: Start | None = None,
    communicator: Communicator = LOCAL,
    patches: RunPatches | None = None,
    gather: bool = True,
) -> Run:
    """Embed a graph. A few edges are held out for early stopping only and used for the final vectors.

    A graph on disk is read into memory where `config.memory` allows it, otherwise it is worked on patch by patch. The
    patches of its store are used if they are cut as the settings want; otherwise patches are cut, and kept in the
    store where they are needed on disk.

    validation_fraction: of the edges, at most a million; 0 trains on all edges, without early stopping.
    directory: where the state of training is kept, and read from where the run is resumed.
    keep, start, patches, gather: as in `run_split`.
    communicator: of the ranks of a torchrun job, which train together: each reads its own rows and patches from a
    store and keeps to `config.memory` by itself.
    """
    clock = Stopwatch()
    prepare_torch(config, graph.num_nodes, graph.num_edges)
    check_settings(graph, config, communicator)
    with share_graph(graph, communicator, directory) as shared:
        placed = place_graph(shared, config, communicator)
        check_graph(placed, config)
        fraction = limit_validation(validation_fraction, placed.num_edges, config)
        with clock.measure("split"):
            shares: dict[str, Any] = {"validation_fraction": fraction, "test_fraction": 0.0}
            split = split_on_ranks(placed, communicator, **shares, seed=config.seed)
        if patches is None:
            how: dict[str, Any] = {"prepared": shared.stored, "communicator": communicator, "gathers": gather or keep}
            patches = find_patches(split.train, config, clock, **how)
        more: dict[str, Any] = {} if start is None or directory is None else {"warm_start": start.digest()}
        checkpoints = keep_training(directory, "embed", shared, patches, config, validation_fraction=fraction, **more)
        return run_split(
            split,
            config,
            final_graph=placed,
            clock=clock,
            on_epoch=on_epoch,
            checkpoints=checkpoints,
            keep=keep,
            start=start,
            patches=patches,
            communicator=communicator,
            gather=gather,
        )


def limit_validation(fraction: float, num_edges: int, config: Config) -> float:
    """The fraction of edges that `embed` holds out for early stopping: at most a million edges, none of very few."""
    if config.epochs == 0 or num_edges < _LEAST_EDGES:
        return 0.0
    return min(fraction, _MOST_VALIDATION_EDGES / num_edges)
