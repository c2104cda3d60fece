"""Memory: an estimate of what a training needs, compared with what is available before it starts."""

from __future__ import annotations

import resource
from dataclasses import dataclass
from pathlib import Path

import scipy.sparse as sp

from l2g2g.config import Config
from l2g2g.errors import ResourceError
from l2g2g.graphs.graph import Graph
from l2g2g.models.spectral import MOST_BASELINE_EDGES, spectral_bytes
from l2g2g.models.structure import BYTES_PER_NUMBER, MORE_VECTORS

# Found by measuring trainings of 50,000 to 400,000 nodes (tests/runs/test_memory.py repeats one of them).
_BYTES_PER_ACTIVATION = 24  # what an epoch holds of every hidden or final number of a row, with its gradients
_BYTES_PER_ARC = 26
_BYTES_PER_ARC_READ = 40
_BYTES_PER_DIRECTION = 16  # of every arc where edges have directions: these, and pairs as lists, with those reversed
_FURTHER_BYTES_PER_ARC = 30  # where validation holds the whole graph beside the patches
_COPIES = 2  # of the features: scaled, and with entries dropped
_FURTHER_COPIES = 1  # by patches
_BYTES_PER_ARC_DRAWN = 12  # of those, for pairs of all nodes
_VECTORS_EXCHANGED = 4  # of every node, between ranks: parts of means, as sent and received, and their gradients
_CGROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def estimate_memory(graph: Graph, config: Config) -> int:
    """Bytes that a training needs at its peak beside the graph itself."""
    features = graph.features
    columns = 0
    if features is not None:
        columns = 8 * features.nnz if sp.issparse(features) else 4 * features.size
    return estimate_bytes(graph.num_nodes, graph.adjacency.nnz, columns, config)


def graph_bytes(graph: Graph) -> int:
    """Bytes of a graph itself, and of the training graph that is made of it."""
    features = graph.features
    columns = 0 if features is None else (8 * features.nnz if sp.issparse(features) else features.nbytes)
    return int(16 * graph.adjacency.nnz + columns)


def estimate_bytes(num_nodes: int, num_arcs: int, columns: int, config: Config, num_ranks: int = 1) -> int:
    """The same for a graph of this size. columns: bytes of its features, 0 for none.

    num_ranks: processes that share the patches; this is the first of them. Each has the graph and draws the
    pairs of all nodes; what is made of patches is shared out.
    """
    local = config.definition.uses_patches
    together = not local or (config.together and config.shares_encoder)
    rows = num_nodes / num_ranks if together else num_nodes / config.num_patches(num_nodes)
    activations = _BYTES_PER_ACTIVATION * rows * config.numbers_per_row
    has_features = columns > 0
    columns = columns or 4 * num_nodes * config.structure_width
    copies = _COPIES + (_FURTHER_COPIES / num_ranks if local else 0)
    drawn = _BYTES_PER_ARC_DRAWN if config.loss_scope == "global" else 0
    per_arc = drawn + (_BYTES_PER_ARC - drawn) / num_ranks
    per_arc += _FURTHER_BYTES_PER_ARC if local and config.passes_whole_graph else 0
    per_arc += _BYTES_PER_DIRECTION if config.directed else 0
    exchanged = 0 if num_ranks == 1 else _VECTORS_EXCHANGED * 4 * config.dim * num_nodes
    training = activations + copies * columns + per_arc * num_arcs + exchanged
    structure = structure_bytes(num_nodes, config, has_features=has_features)
    if has_features:  # columns that are tried beside them
        training += num_nodes * structure.found
    else:
        training = max(training + num_nodes * structure.kept - columns, num_nodes * structure.found)
    if config.patience and num_arcs <= 2 * MOST_BASELINE_EDGES:
        # The baseline is found when no epoch runs.
        training += max(0.0, spectral_bytes(num_nodes, num_arcs // 2, config.dim) - activations)
    return int(training)


@dataclass(frozen=True)
class StructureBytes:
    """Bytes of structural columns for every node: while they are found, and while they are kept for a training."""

    found: int
    kept: int


def structure_bytes(num_nodes: int, config: Config, *, has_features: bool) -> StructureBytes:
    """What the columns that the encoder reads take, and those that spectral vectors are chosen from."""
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
        found.append(4 * width + _bytes_found(num_negative))  # sought when the others are found
        kept += 4 * (width + num_negative + 1)
    return StructureBytes(max(found), kept)


def _bytes_found(num_vectors: int) -> int:
    return BYTES_PER_NUMBER * (num_vectors + 1 + MORE_VECTORS)


def peak_of_reading(num_arcs: int, columns: int) -> int:
    """Bytes at the peak of reading a graph into memory. columns: bytes of its features."""
    return _BYTES_PER_ARC_READ * num_arcs + 2 * columns


def available_memory() -> int:
    """Bytes that this process may still take: of the machine, of its group and of its own address space."""
    found = [1 << 62]
    status = _read_table(Path("/proc/self/status"))
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and "VmSize" in status:
        found.append(limit - status["VmSize"])
    free = _read_table(Path("/proc/meminfo")).get("MemAvailable")
    if free is not None:
        found.append(free)
    for most, used in _CGROUPS:
        try:
            found.append(int(Path(most).read_text()) - int(Path(used).read_text()))
        except (OSError, ValueError):  # no such group, or "max"
            continue
    return max(0, min(found))


def resident_memory() -> int:
    """Bytes that this process holds now; 0 where the system does not tell."""
    return _read_table(Path("/proc/self/status")).get("VmRSS", 0)


def check_memory(graph: Graph, config: Config) -> None:
    """Refuse a training that does not fit, with both numbers."""
    needed, available = estimate_memory(graph, config), available_memory()
    if config.memory is not None:
        available = min(available, max(0, config.memory - resident_memory()))
    if needed > available:
        raise ResourceError(
            f"{graph.name}: training needs about {needed / 1e6:,.0f} MB and {available / 1e6:,.0f} MB may be used; "
            f"lower --dim or --hidden, or use a larger machine"
        )


def _read_table(path: Path) -> dict[str, int]:
    """Lines `Name:  123 kB` of the system as bytes; empty where there are none."""
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    return {cells[0].rstrip(":"): int(cells[1]) * 1024 for cells in lines if len(cells) == 3 and cells[2] == "kB"}
