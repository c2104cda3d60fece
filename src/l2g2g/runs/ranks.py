"""What the ranks of a job share: split, held-out pairs, patches and input columns.

The first rank computes the split. Each rank then holds the pairs whose first node is in its range of nodes, and the
rows of this range of the pairs that are never drawn as negatives. Rows for the nodes of its patches are fetched.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from safetensors.numpy import load, save

from l2g2g.config import Config
from l2g2g.graphs.graph_store import GraphStore, fingerprint
from l2g2g.graphs.held_out import HashedPair, HeldOutRule
from l2g2g.graphs.splits import LinkSplit, Pairs, PairShare, split_edges
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.models.inputs import InputMap
from l2g2g.models.local_rows import LocalRows
from l2g2g.models.number_columns import NumberScale
from l2g2g.models.shared_rows import SharedRows
from l2g2g.models.structure import StructureMap
from l2g2g.parallel.communicator import Communicator
from l2g2g.patches.overlap import PatchSet
from l2g2g.runs.environment import peak_memory
from l2g2g.runs.patches import RunPatches
from l2g2g.training.assignment import assign_patches
from l2g2g.training.checkpoint_writer import CheckpointWriter, RankCheckpointWriter
from l2g2g.training.rows import rank_bounds
from l2g2g.training.shard import RowShard, Shard, shared_parameters

_HELD_OUT_KIND = "held out pairs"  # of messages, in the profile
# Cost of a row in arcs: its features times the first weights, the second layer, the products of its pairs.
_ARCS_PER_ROW = 4


def split_on_ranks(graph: GraphStore, communicator: Communicator, **options: Any) -> LinkSplit[Any]:
    """Split the edges of a graph and return the part of this rank. options: see `split_edges`. A collective call."""
    found = split_edges(graph, **options) if communicator.is_first else None
    if communicator.size == 1:
        assert found is not None
        return found.of(graph)

    def describe_rule() -> dict[str, Any]:
        assert found is not None
        rule = None if found.rule is None else {"seed": found.rule.seed, **asdict(found.rule.last)}
        return {"rule": rule, "num_edges": found.num_edges}

    told = communicator.decide(describe_rule)
    rule = None if told["rule"] is None else HeldOutRule(told["rule"].pop("seed"), HashedPair(**told["rule"]))
    train = graph.without(rule, told["num_edges"])
    return share_split(None if found is None else found.of(graph), train, communicator)


def share_split(split: LinkSplit[Any] | None, train: GraphStore, communicator: Communicator) -> LinkSplit[Any]:
    """Return the part of this rank. split: on the first rank; train: its training graph, on all. A collective call."""
    if communicator.size == 1:
        assert split is not None
        return split
    bounds = rank_bounds(train, communicator.size)
    sets = [None, None] if split is None else [split.validation, split.test]
    validation, test = (_share_pairs(each, bounds, communicator) for each in sets)
    held_out = _share_pattern(None if split is None else split.held_out, bounds, communicator)
    protocol = communicator.decide(lambda: "" if split is None else split.protocol)
    return LinkSplit(train, validation, test, held_out, protocol)


def held_out_rows(split: LinkSplit[Any], nodes: np.ndarray, communicator: Communicator) -> sp.csr_array:
    """Fetch the (num_wanted, num_nodes) pattern of the held-out pairs of some nodes. A collective call.

    nodes: (num_wanted,) ascending; a single process returns all rows.
    """
    if communicator.size == 1:
        return split.held_out
    return SharedRows(communicator, _HELD_OUT_KIND).fetch_pattern(split.held_out, nodes.astype(np.int64))


def _share_pairs(pairs: Pairs | None, bounds: np.ndarray, communicator: Communicator) -> Pairs | None:
    """Scatter all pairs of the first rank by the range of their first node."""
    size, order, counts, both = communicator.size, None, [[0, 0, 0]], np.empty((0, 2), np.int64)
    if pairs is not None:
        both = np.concatenate([pairs.positive, pairs.negative]).astype(np.int64, copy=False)
        ranks = np.searchsorted(bounds[1:], both[:, 0], side="right")
        order = np.argsort(ranks, kind="stable")  # of each rank the positives first, and reversed arcs last
        parts = np.split(ranks, [len(pairs.positive), len(both) - pairs.num_reversed])
        counts = np.stack([np.bincount(part, minlength=size) for part in parts], axis=1).tolist()
        both = both[order]
    counts = communicator.decide(lambda: None if pairs is None else counts)
    if counts is None:
        return None
    rows = _scatter(torch.from_numpy(both), [sum(each) for each in counts], communicator).numpy()
    num_positive, _, num_reversed = counts[communicator.rank]
    share = PairShare(communicator, sum(each[0] for each in counts), order)
    return Pairs(rows[:num_positive], rows[num_positive:], num_reversed, share)


def _share_pattern(pattern: sp.csr_array | None, bounds: np.ndarray, communicator: Communicator) -> sp.csr_array:
    """Scatter the (num_nodes, num_nodes) pattern of the first rank by ranges of rows."""
    lengths, indices, num_entries = np.empty(0, np.int32), np.empty(0, np.int32), []
    if pattern is not None:
        num_entries = np.diff(pattern.indptr[bounds]).tolist()
        lengths, indices = np.diff(pattern.indptr).astype(np.int32), pattern.indices.astype(np.int32, copy=False)
    num_entries = communicator.decide(lambda: num_entries)
    rows = _scatter(torch.from_numpy(lengths), np.diff(bounds).tolist(), communicator).numpy()
    entries = _scatter(torch.from_numpy(indices), num_entries, communicator).numpy()
    indptr = np.concatenate([[0], np.cumsum(rows, dtype=np.int64)])
    indptr = indptr.astype(np.int32) if indptr[-1] < 2**31 else indptr
    return sp.csr_array((np.ones(len(entries), np.float32), entries, indptr), shape=(len(rows), int(bounds[-1])))


def _scatter(rows: torch.Tensor, lengths: list[int], communicator: Communicator) -> torch.Tensor:
    """Send each rank its rows. rows: of the first rank, rank by rank; lengths: rows of each rank."""
    nothing = [0] * (communicator.size - 1)
    expected = [lengths[communicator.rank], *nothing]
    sent = lengths if communicator.is_first else [0, *nothing]
    return communicator.all_to_all(_HELD_OUT_KIND, rows.to(communicator.device), sent, expected).cpu()


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
    """Return the patches that this process trains (all, or its share), and the writer of its checkpoints.

    graph: the training graph. rows: of this rank, if the whole graph is one patch that is read by rows.
    checkpoints: None on all ranks but the first. validates: True if training validates. A collective call.
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
    """Assign patches to ranks; return the (num_patches,) ranks. num_arcs: (num_patches,) arcs inside each patch."""
    overlaps = patch_set.overlaps
    loads = num_arcs + _ARCS_PER_ROW * patch_set.sizes
    return assign_patches(loads, overlaps.edges.numpy(), overlaps.sizes.numpy(), num_ranks)


def _digest(graph: GraphStore, patches: RunPatches, config: Config) -> bytes:
    settings = config.to_dict()
    del settings["device"]
    compared = [settings, str(torch.__version__), fingerprint(graph), patches.digest()]
    return hashlib.sha256(json.dumps(compared).encode()).digest()


def share_inputs(communicator: Communicator, inputs: InputMap) -> InputMap:
    """Return the input map of the first rank, so that all ranks read the same bits. A collective call.

    Structural columns are not sent: ranks have computed them together.
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
    if inputs.numbers is not None:
        arrays |= {"number_centres": inputs.numbers.centres, "number_spreads": inputs.numbers.spreads}
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
    numbers = None
    if "number_centres" in arrays:
        numbers = NumberScale(arrays["number_centres"], arrays["number_spreads"])
    return InputMap(num_features, scaling, *compression, structure, factor, only, power, numbers=numbers)


def describe_messages(shard: Shard) -> dict[str, dict[str, Any]]:
    """Describe messages by kind, for JSON: bytes per exchange in total and by rank, and the number of exchanges.

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
    """Return the peak memory of every rank in bytes; empty for one process. A collective call."""
    if shard.has_all:
        return []
    return [peak for (peak,) in shard.communicator.tell_all("count", [peak_memory()])]
