"""Rank share: the patches of a graph over the ranks of a job."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from safetensors.numpy import load, save

from l2g2g.config import Config
from l2g2g.graphs.graph_store import GraphStore, fingerprint
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.inputs import InputMap
from l2g2g.models.local_rows import LocalRows
from l2g2g.models.structure import StructureMap
from l2g2g.parallel.communicator import Communicator
from l2g2g.patches.overlap import PatchSet
from l2g2g.runs.patches import RunPatches
from l2g2g.runs.resources import peak_memory
from l2g2g.training.assignment import assign_patches
from l2g2g.training.checkpoint_writer import CheckpointWriter, RankCheckpointWriter
from l2g2g.training.rows import rank_bounds
from l2g2g.training.shard import RowShard, Shard, shared_parameters

# What a row costs in arcs: its features times the first weights, the second layer, the products of its pairs.
_ARCS_PER_ROW = 4


def make_shard(
    communicator: Communicator,
    graph: GraphStore,
    patches: RunPatches,
    model: Autoencoder,
    config: Config,
    checkpoints: CheckpointWriter | None,
    rows: LocalRows | None = None,
    *,
    validates: bool,
) -> tuple[Shard, CheckpointWriter | RankCheckpointWriter | None]:
    """The patches that this process trains, all or those of its rank; and the writer of its checkpoints.

    graph: what the patches are cut from. rows: those of this rank, where the whole graph is one patch in rows.
    checkpoints: of this process; of several ranks only the first has one. validates: whether training does.
    """
    patch_set = patches.patch_set
    if communicator.size == 1:
        return Shard(patch_set) if rows is None else RowShard(rows, patch_set), checkpoints
    communicator.check_same("graph, setting or partition", _digest(graph, patches, config))
    is_kept = bool(communicator.broadcast("check", b"" if checkpoints is None else b"kept"))
    if rows is not None:
        row_shard = RowShard(rows, patch_set)
        return row_shard, RankCheckpointWriter(row_shard, checkpoints) if is_kept else None
    owners = deal_patches(patch_set, patches.count_arcs(graph), communicator.size)
    watched = validates or is_kept  # all patches are read while they train
    apart = not watched and config.definition.alignment != "during" and not shared_parameters(model)
    shard = Shard(patch_set, communicator, owners, rank_bounds(graph, communicator.size), apart=apart)
    return shard, RankCheckpointWriter(shard, checkpoints) if is_kept else None


def deal_patches(patch_set: PatchSet, num_arcs: np.ndarray, num_ranks: int) -> np.ndarray:
    """(num_patches,) the rank of every patch. num_arcs: (num_patches,) inside each."""
    overlaps = patch_set.overlaps
    loads = num_arcs + _ARCS_PER_ROW * patch_set.sizes
    return assign_patches(loads, overlaps.edges.numpy(), overlaps.sizes.numpy(), num_ranks)


def _digest(graph: GraphStore, patches: RunPatches, config: Config) -> bytes:
    settings = config.to_dict()
    del settings["device"]
    compared = [settings, str(torch.__version__), fingerprint(graph), patches.digest()]
    return hashlib.sha256(json.dumps(compared).encode()).digest()


def share_inputs(communicator: Communicator, inputs: InputMap) -> InputMap:
    """How nodes are read, as the first rank found it, so that all read the same bits.

    Structural columns are not sent: ranks have found them together.
    """
    if communicator.size == 1:
        return inputs
    data = communicator.broadcast("inputs", _pack(inputs) if communicator.is_first else b"")
    return inputs if communicator.is_first else _unpack(data, inputs.structure)


def _pack(inputs: InputMap) -> bytes:
    structure = inputs.structure
    arrays = {"centre": inputs.centre, "projection": inputs.projection}
    numbers: list[Any] = [inputs.num_features, inputs.scaling, inputs.structure_factor]
    numbers += [inputs.structure_only, inputs.row_power]
    if structure is not None:
        arrays |= {"eigenvalues": structure.eigenvalues}
        numbers += [structure.degree_mean, structure.degree_spread]
    header = json.dumps(numbers).encode()
    known = {name: np.ascontiguousarray(array) for name, array in arrays.items() if array is not None}
    return len(header).to_bytes(8, "little") + header + save(known)


def _unpack(data: bytes, found: StructureMap | None) -> InputMap:
    end = 8 + int.from_bytes(data[:8], "little")
    num_features, scaling, factor, only, power, *degrees = json.loads(data[8:end])
    arrays = load(data[end:])
    structure = None
    if degrees:
        assert found is not None
        mean, spread = degrees
        structure = replace(found, eigenvalues=arrays["eigenvalues"], degree_mean=mean, degree_spread=spread)
    compression = arrays.get("centre"), arrays.get("projection")
    return InputMap(num_features, scaling, *compression, structure, factor, only, power)


def describe_messages(shard: Shard) -> dict[str, dict[str, Any]]:
    """For JSON: bytes that ranks send to others, by kind of message, each time it is sent: of all, of each; how often.

    Empty for one process. A collective call.
    """
    return {
        kind.replace(" ", "_"): {
            "bytes": sum(by_rank) / times,
            "times": times,
            "by_rank": [sent / times for sent in by_rank],
        }
        for kind, (by_rank, times) in shard.communicator.count_messages().items()
        if times
    }


def describe_memory(shard: Shard) -> list[int]:
    """Peak memory of every rank so far, in bytes; empty for one process. A collective call."""
    if shard.has_all:
        return []
    return [peak for (peak,) in shard.communicator.tell_all("count", [peak_memory()])]
