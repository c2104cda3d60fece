"""Estimate the memory of a training, in memory and from disk, and fit it to a limit."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from l2g2g.config import Config
from l2g2g.errors import ResourceError
from l2g2g.graphs.graph_store import GraphStore
from l2g2g.models.local_rows import columns_at_once
from l2g2g.models.spectral import MOST_BASELINE_EDGES, spectral_bytes
from l2g2g.models.structure import BYTES_PER_NUMBER, MORE_VECTORS
from l2g2g.parallel.node_table import num_parts
from l2g2g.runs.environment import available_memory, resident_memory
from l2g2g.training.batches import KeptBytes

# Found by measuring (benchmarks/bounded.py repeats it): bytes for each arc and each number of the largest patch.
_PER_ARC, _PER_ARC_SCORED = 38, 40
_PER_ACTIVATION, _PER_KEPT_ACTIVATION = 28, 12  # with gradients, and between the forward and backward pass
_PER_ROW_ACTIVATION = 20  # of a whole graph in rows: five tables of a hidden layer, in the backward pass
_COPIES_OF_FEATURES = 4  # as read, the one read ahead, scaled, with entries dropped
_BLOCK_ARCS, _PER_BLOCK_ARC = 1 << 20, 44  # of rows that are read and worked on
_FEATURE_BLOCK = 1 << 25
_ARC_SURPLUS = 1.6  # arcs of the largest patch, of an even share, before patches are cut
_MARGIN = 0.12  # of the limit, for what no formula knows
_MOST_PARTS = 8  # threads with a table of sums of their own
_LEAST_PATCH_NODES = 500
_PASSED_ON = 2  # vectors of a node that another rank owns: as received, and their gradients
# What a rank holds for each node that it owns, with its place in the directory of all, and for each that its rows name.
_PER_OWNED_NODE, _PER_NAMED_NODE = 56, 20
_PER_GHOST = 24  # where a neighbour stands in the tables of a pass over the whole graph, here and at its owner
_MOST_HELD_OUT = 1_000_000  # edges, for validation
_OUTSIDE = 0.3  # of the edges, between nodes of two patches, before a graph is cut
_ALL_NODES = 4  # a rank that draws so many times as many pairs as there are nodes asks for all nodes
_GHOST_COLUMNS = 32  # of a product for structural columns whose rows are exchanged at a time
# Of a training in memory, measured with 50,000 to 400,000 nodes (tests/runs/test_memory.py repeats one of them).
_BYTES_PER_ACTIVATION = 24  # per hidden or final number of a row in an epoch, with its gradients
_BYTES_PER_ARC, _BYTES_PER_ARC_READ = 26, 40
_BYTES_PER_DIRECTION = 16  # per arc of a directed graph: directions, and lists of pairs with the reversed ones
_FURTHER_BYTES_PER_ARC = 30  # if validation needs the whole graph beside the patches
_COPIES, _FURTHER_COPIES = 2, 1  # of the features: scaled, and with entries dropped; and by patches
_BYTES_PER_ARC_DRAWN = 12  # of those, for pairs of all nodes
_VECTORS_EXCHANGED = 4  # per node, between ranks: parts of means, as sent and received, and their gradients


@dataclass(frozen=True)
class StoredSizes:
    """What memory depends on, of a graph on disk.

    Attributes:
        num_nodes, num_edges, num_features: Its sizes.
        entries_per_row: Numbers that a feature row holds, of a sparse one twice its entries.
        largest_rows, largest_arcs, num_rows: Of the patches, where these are cut already.
        num_ranks: Processes that share the patches.
        gathers: Whether the process has the vectors of all nodes in the end: of several the first, or none.
    """

    num_nodes: int
    num_edges: int
    num_features: int
    entries_per_row: float
    largest_rows: int | None = None
    largest_arcs: int | None = None
    num_rows: int | None = None
    num_ranks: int = 1
    gathers: bool = True

    @classmethod
    def of(cls, graph: GraphStore) -> StoredSizes:
        """Return the sizes of a graph whose patches are not cut yet."""
        entries = (2 if graph.has_sparse_features else 1) * graph.entries_per_row
        return cls(graph.num_nodes, graph.num_edges, graph.num_features, entries)

    @property
    def feature_bytes(self) -> int:
        """Bytes of the features, as float32 values and, if they are sparse, int32 columns."""
        return int(4 * self.entries_per_row * self.num_nodes)


@dataclass(frozen=True)
class Needs:
    """Bytes that a training from disk takes.

    Attributes:
        resident: What the process holds before any work.
        nodes: What is held for every node, at the stage that needs most.
        training: The same while epochs run, with their validations.
        patch: What one patch takes, of this many.
        blocks: What is read of rows and features at a time.
        num_patches: Number of patches.
    """

    resident: int
    nodes: int
    training: int
    patch: int
    blocks: int
    num_patches: int

    @property
    def total(self) -> int:
        """Bytes of the whole run, with a margin."""
        return self._sum(self.nodes)

    def spare(self, limit: int) -> int:
        """What a limit leaves for rows and patches to stay in memory while epochs run."""
        return max(0, limit - self._sum(self.training))

    def without_limit(self, stays: int) -> int:
        """What a training takes that nothing limits. stays: bytes of rows and patches that stay while epochs run."""
        return self.resident + max(self.patch, self.blocks) + max(self.nodes, self.training + stays)

    def _sum(self, nodes: int) -> int:
        return int((self.resident + nodes + max(self.patch, self.blocks)) / (1 - _MARGIN))


def kept_bytes(config: Config, weighted: bool = False) -> KeptBytes:
    """What stays in memory of patches between the two passes of an epoch, their features aside."""
    arc = 4 + (4 if weighted else 0)  # Â shares these
    if config.hidden_fraction:
        arc *= 2  # the same in the order of an epoch: what is visible first
    row = 64  # bounds of its entries, its node
    if config.loss_scope == "inside":
        return KeptBytes(arc + 12, row)  # what is excluded, its filter, and a list of edges
    aligns = config.rotates or config.translates or config.scale
    state = 4 * config.numbers_per_row + (12 * config.dim if aligns else 0)
    return KeptBytes(arc, row, state, _PER_KEPT_ACTIVATION * config.numbers_per_row - state)


def structure_columns(sizes: StoredSizes, config: Config) -> int:
    """Columns that are made from the structure, alone or beside features."""
    wanted = not sizes.num_features or config.expects_structure(sizes.num_nodes)
    return config.structure_width + 1 if wanted else 0


def patch_bytes(rows: float, arcs: float, sizes: StoredSizes, config: Config) -> int:
    """What a patch takes while the encoder runs over it and back."""
    columns = sizes.entries_per_row + structure_columns(sizes, config)
    per_arc = _PER_ARC + (_PER_ARC_SCORED * config.negatives_per_edge if config.loss_scope == "inside" else 0)
    activations = _PER_ACTIVATION * config.numbers_per_row
    per_row = activations + 4 * _COPIES_OF_FEATURES * columns
    return int(per_row * rows + per_arc * arcs)


def node_bytes(sizes: StoredSizes, config: Config, threads: int) -> tuple[int, int]:
    """What all nodes take at the stage that needs most (columns made from the structure, an epoch, an alignment, a
    validation, the final vectors), and while epochs run.
    """
    num_nodes, vector = sizes.num_nodes, 4 * config.dim
    rows = 1.2 * num_nodes if sizes.num_rows is None else sizes.num_rows
    held_out = min(0.05 * sizes.num_edges, _MOST_HELD_OUT) * 112 + 4 * num_nodes
    always = 8 * rows + 24 * num_nodes + held_out
    structural = structure_bytes(num_nodes, config, has_features=sizes.num_features > 0)
    always += num_nodes * structural.kept
    epoch = 0.0
    if config.loss_scope == "global":
        scored = _scored_edges(sizes, config)
        epoch = num_nodes * vector * (1 + min(threads, _MOST_PARTS)) + 32 * num_nodes + 24 * scored
        epoch += sizes.num_edges / 4  # a bit for each arc: whether this epoch hides it
    aligned = 3 * rows * vector + num_nodes * vector
    last_pass = 8.0 * num_nodes * config.tables_per_layer * (config.hidden + config.dim)  # a layer and the next one
    structure = float(num_nodes * structural.found)
    ranks, gathered = sizes.num_ranks, 0
    if ranks > 1:
        # Ghost nodes may be nearly all: of these, rows of pairs; those of layers and products come part by part.
        copies = 8 / num_parts(num_nodes)  # in an exchange of these: bytes of a number, as sent and received
        always = (8 * rows + held_out + num_nodes * (_PER_OWNED_NODE + 2 * structural.kept)) / ranks
        always += _PER_NAMED_NODE * named_rows(sizes)
        passed_on = (_PASSED_ON + copies / 4) * vector * asked_rows(sizes, config)
        epoch = epoch / ranks + (passed_on if epoch else 0)
        gathered = 2 * num_nodes * vector if sizes.gathers else 0
        ghosts = ghost_rows(sizes)
        aligned = aligned / ranks
        copied = min(max(config.hidden, config.dim), columns_at_once(num_nodes))
        last_pass = last_pass / ranks + (copies * copied + _PER_GHOST) * ghosts
        structure = structure / ranks + (copies * _GHOST_COLUMNS + _PER_GHOST) * ghosts if structure else 0
    final = last_pass if config.passes_whole_graph else aligned
    aligns = config.definition.alignment == "during" and (config.rotates or config.translates or config.scale)
    training = always + max(epoch, final if config.patience else 0, aligned if aligns else 0)
    return int(max(training, always + final + gathered, always + structure)), int(training)


def asked_rows(sizes: StoredSizes, config: Config) -> float:
    """Ends of the pairs that a rank scores in an epoch and another rank owns: of non-edges, and of cut edges."""
    elsewhere = sizes.num_nodes * (1 - 1 / sizes.num_ranks)
    if asks_for_all(sizes, config):
        return elsewhere
    cut = _OUTSIDE * _scored_edges(sizes, config) / sizes.num_ranks * (1 - 1 / sizes.num_ranks)
    return min(elsewhere, drawn_rows(sizes, config) + cut)


def drawn_rows(sizes: StoredSizes, config: Config) -> float:
    """Far ends of the non-edges that a rank draws in an epoch, each once, that another rank owns."""
    draws = config.negatives_per_edge * _scored_edges(sizes, config) / sizes.num_ranks
    return -sizes.num_nodes * (1 - 1 / sizes.num_ranks) * math.expm1(-draws / sizes.num_nodes)


def asks_for_all(sizes: StoredSizes, config: Config) -> bool:
    """Whether a rank draws so many pairs that it asks for the vectors of all nodes."""
    draws = config.negatives_per_edge * _scored_edges(sizes, config) / sizes.num_ranks
    return draws >= _ALL_NODES * sizes.num_nodes


def _scored_edges(sizes: StoredSizes, config: Config) -> float:
    """Edges that an epoch scores, of all ranks."""
    share = config.scored_fraction(sizes.num_nodes, sizes.num_edges)
    return sizes.num_edges * (config.hidden_fraction or 1.0) * share


def named_rows(sizes: StoredSizes) -> float:
    """Nodes that the rows of a rank's own nodes name: these nodes, and neighbours that another rank owns."""
    own, arcs = sizes.num_nodes / sizes.num_ranks, 2 * _OUTSIDE * sizes.num_edges / sizes.num_ranks
    return own - (sizes.num_nodes - own) * math.expm1(-arcs / sizes.num_nodes)


def ghost_rows(sizes: StoredSizes) -> float:
    """Neighbours of the nodes of a rank's range that another rank owns: nodes may lie in any order."""
    return (
        min(1.0, 2 * sizes.num_edges / (sizes.num_ranks * sizes.num_nodes))
        * sizes.num_nodes
        * (1 - 1 / sizes.num_ranks)
    )


def find_needs(sizes: StoredSizes, config: Config, num_patches: int, threads: int, resident: int) -> Needs:
    """What a training with this many patches takes."""
    if sizes.largest_rows is not None and sizes.largest_arcs is not None:
        rows, arcs = float(sizes.largest_rows), float(sizes.largest_arcs)
    else:
        rows = 1.2 * sizes.num_nodes / num_patches + 4 * config.overlap_range[1]
        arcs = _ARC_SURPLUS * 2 * sizes.num_edges / num_patches
    patch = patch_bytes(rows, arcs, sizes, config)
    blocks = _PER_BLOCK_ARC * min(_BLOCK_ARCS, 2 * sizes.num_edges) + 3 * min(_FEATURE_BLOCK, sizes.feature_bytes)
    return Needs(resident, *node_bytes(sizes, config, threads), patch, blocks, num_patches)


def row_needs(sizes: StoredSizes, config: Config, threads: int, resident: int) -> Needs:
    """What a training of the whole graph as one patch takes, whose rows are read from disk: tables of all layers."""
    if config.loss_pairs == "sampled":
        config = replace(config, scope="global")  # one patch: pairs inside it are pairs of all nodes
    nodes, training = node_bytes(sizes, config, threads)
    activations = _PER_ROW_ACTIVATION * config.numbers_per_row * sizes.num_nodes // sizes.num_ranks
    if sizes.num_ranks > 1:  # rows of ghost nodes, which may be nearly all
        widest = max(config.hidden, config.dim) * config.tables_per_layer
        activations += int((8 / num_parts(sizes.num_nodes) * widest + _PER_GHOST) * ghost_rows(sizes))
    blocks = _PER_BLOCK_ARC * min(_BLOCK_ARCS, 2 * sizes.num_edges) + 3 * min(_FEATURE_BLOCK, sizes.feature_bytes)
    training += activations
    return Needs(resident, max(nodes, training), training, 0, blocks, 1)


def most_patches(num_nodes: int, config: Config) -> int:
    """Beyond this many, patches would be little more than what they share."""
    return max(2, num_nodes // max(_LEAST_PATCH_NODES, 4 * config.overlap_range[1]))


def fit_budget(sizes: StoredSizes, config: Config, threads: int, name: str, resident: int | None = None) -> Needs:
    """The fewest patches with which a training keeps to `config.memory`; refused where there is no such number."""
    assert config.memory is not None
    resident = resident_memory() if resident is None else resident
    if not config.definition.uses_patches:
        needs = row_needs(sizes, config, threads, resident)
        if needs.total > config.memory:
            raise _too_small(name, config.memory, needs)
        return needs
    wanted = config.num_patches(sizes.num_nodes)
    most = wanted if config.patches is not None else max(wanted, most_patches(sizes.num_nodes, config))
    needs = find_needs(sizes, config, wanted, threads, resident)
    if config.patches is None and sizes.largest_rows is None:
        while needs.total > config.memory and needs.num_patches < most:
            more = min(most, math.ceil(1.2 * needs.num_patches))
            needs = find_needs(sizes, config, more, threads, resident)
    if needs.total > config.memory:
        raise _too_small(name, config.memory, find_needs(sizes, config, most, threads, resident))
    return needs


def _too_small(name: str, memory: int, needs: Needs) -> ResourceError:
    enough = show_size(math.ceil(needs.total / 1e7) * 10_000_000)
    with_patches = f" with {needs.num_patches} patches" if needs.num_patches > 1 else ""
    return ResourceError(f"{name}: --memory {show_size(memory)} is too small; {enough} would do{with_patches}")


def show_size(num_bytes: int) -> str:
    """A number of bytes as an option takes it: 4GB, 750MB."""
    return f"{num_bytes / 1e9:.4g}GB" if num_bytes >= 10**9 else f"{math.ceil(num_bytes / 1e6)}MB"


@dataclass(frozen=True)
class StructureBytes:
    """Bytes per node of structural columns.

    Attributes:
        found: While the eigenvectors are computed.
        kept: During training.
    """

    found: int
    kept: int


def structure_bytes(num_nodes: int, config: Config, *, has_features: bool) -> StructureBytes:
    """Estimate the structural columns that the encoder reads, and those that spectral vectors are chosen from."""
    found, kept = [0], 0
    if not has_features or config.expects_structure(num_nodes):
        found.append(_bytes_found(config.structure_width))
        kept = 4 * (config.structure_width + 1)
    elif config.considers_structure(num_nodes):  # a first look at fewer columns
        found.append(_bytes_found(config.spectral_width(1)))
    compared = config.structure == "auto" and config.patience and config.epochs != 0
    if kept and config.can_be_spectral and (compared or config.structure == "spectral"):
        width = config.spectral_width(int(has_features))
        num_negative = min(config.dim, width) if config.can_be_signed else 0
        found.append(_bytes_found(width))
        found.append(4 * width + _bytes_found(num_negative))  # computed while the others are in memory
        kept += 4 * (width + num_negative + 1)
    return StructureBytes(max(found), kept)


def _bytes_found(num_vectors: int) -> int:
    return BYTES_PER_NUMBER * (num_vectors + 1 + MORE_VECTORS)


def estimate_memory(sizes: StoredSizes, config: Config) -> int:
    """Estimate the peak bytes of a training in memory, without the graph itself.

    Of several ranks this is the first: each has the graph and draws the pairs of all nodes, and patches are shared out.
    """
    num_nodes, num_arcs, num_ranks = sizes.num_nodes, 2 * sizes.num_edges, sizes.num_ranks
    uses_patches = config.definition.uses_patches
    together = not uses_patches or (config.together and config.shares_encoder)
    rows = num_nodes / num_ranks if together else num_nodes / config.num_patches(num_nodes)
    activations = _BYTES_PER_ACTIVATION * rows * config.numbers_per_row
    has_features = sizes.feature_bytes > 0
    columns = sizes.feature_bytes or 4 * num_nodes * config.structure_width
    copies = _COPIES + (_FURTHER_COPIES / num_ranks if uses_patches else 0)
    drawn = _BYTES_PER_ARC_DRAWN if config.loss_scope == "global" else 0
    per_arc = drawn + (_BYTES_PER_ARC - drawn) / num_ranks
    per_arc += _FURTHER_BYTES_PER_ARC if uses_patches and config.passes_whole_graph else 0
    per_arc += _BYTES_PER_DIRECTION if config.directed else 0
    exchanged = 0 if num_ranks == 1 else _VECTORS_EXCHANGED * 4 * config.dim * num_nodes
    training = activations + copies * columns + per_arc * num_arcs + exchanged
    structure = structure_bytes(num_nodes, config, has_features=has_features)
    if has_features:  # columns that are tried beside them
        training += num_nodes * structure.found
    else:
        training = max(training + num_nodes * structure.kept - columns, num_nodes * structure.found)
    if config.patience and num_arcs <= 2 * MOST_BASELINE_EDGES:
        # The baseline is computed while no epoch runs.
        training += max(0.0, spectral_bytes(num_nodes, sizes.num_edges, config.dim) - activations)
    return int(training)


def graph_bytes(sizes: StoredSizes) -> int:
    """Estimate the bytes of a graph in memory and of the training graph that is made from it."""
    return 16 * 2 * sizes.num_edges + sizes.feature_bytes


def peak_of_reading(sizes: StoredSizes) -> int:
    """Estimate the peak bytes of reading a graph into memory."""
    return _BYTES_PER_ARC_READ * 2 * sizes.num_edges + 2 * sizes.feature_bytes


def fits_memory(graph: GraphStore, config: Config) -> bool:
    """Return True if `config.memory` allows a training in memory beside what this process holds already."""
    if config.memory is None:
        return True
    sizes = StoredSizes.of(graph)
    return estimate_memory(sizes, config) + graph_bytes(sizes) + resident_memory() <= config.memory


def check_memory(graph: GraphStore, config: Config) -> None:
    """Raise ResourceError, with both numbers, if training needs more memory than there is."""
    needed, available = estimate_memory(StoredSizes.of(graph), config), available_memory()
    if config.memory is not None:
        available = min(available, max(0, config.memory - resident_memory()))
    if needed > available:
        raise ResourceError(
            f"{graph.name}: training needs about {needed / 1e6:,.0f} MB and {available / 1e6:,.0f} MB may be used; "
            f"lower --dim or --hidden, or use a larger machine"
        )
