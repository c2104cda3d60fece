"""Record: what a run leaves for those who look at it later: the vectors, and about as much again where edges are kept.

DIR/record.json          what was run, on what, how it went; the SHA-256 of the other files
DIR/names.json           node ids and names of the classes
DIR/arrays.safetensors   vectors, degrees, patches, residuals, edges, the parameters of the decoder
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from l2g2g.evaluation.separation import Separation
from l2g2g.graphs.graph import Cleaning
from l2g2g.training.state import History


@dataclass(frozen=True)
class GraphFacts:
    """What the graph was, and cleaning: what was changed on the way in. None for what nobody knows any more."""

    name: str
    num_nodes: int
    num_edges: int | None = None
    num_features: int | None = None
    weighted: bool = False
    directed: bool = False
    cleaning: Cleaning | None = None


@dataclass(frozen=True)
class PatchFacts:
    """The patch graph.

    Attributes:
        sizes: (num_patches,) nodes of each patch.
        pairs: (num_pairs, 2) joined patches, and overlaps: (num_pairs,) nodes they share.
        pair_residuals: (num_pairs,) root mean square distance of the two copies of a shared node, after alignment.
        patch_residuals: (num_patches,) the same against the mean of all copies. Both are empty where nobody measured.
        before, after: over all pairs, before alignment and after it.
        num_joined: Joins between patches with no edge between them.
        final_pass: Whether the final vectors come from a pass over the whole graph and not from the patches.
    """

    sizes: list[int]
    pairs: list[list[int]] = field(default_factory=list)
    overlaps: list[int] = field(default_factory=list)
    pair_residuals: list[float] = field(default_factory=list)
    patch_residuals: list[float] = field(default_factory=list)
    before: float = 0.0
    after: float = 0.0
    num_joined: int = 0
    final_pass: bool = False


@dataclass(frozen=True, eq=False)
class RunRecord:
    """A finished training as it is kept.

    Attributes:
        name: Of the training in its run: embed, or METHOD-seed-S.
        row: The JSON line that the command printed.
        settings: All settings as they were used.
        vectors: (num_nodes, dim) float32.
        node_ids: (num_nodes,) integers or text; None where a node is its row number.
        classes: Names of the classes, and labels: (num_nodes,) int32 class of each node; None where there are none.
        degrees: (num_nodes,) int32.
        home: (num_nodes,) int32, the first patch that holds each node.
        residuals: (num_nodes,) float32, how far the patches disagree about a node; None for one patch.
        edges: (num_nodes, num_nodes) upper triangle of the adjacency as CSR pattern; None where they were too many.
        decoder: Parameters of the decoder by name; empty for inner products.
        tensors: The patch set (patches.*) and its alignment (frame.*), for those who want to go on with them.
        command: What was typed, without the folders of the machine.
        versions: Of Python and the packages.
    """

    name: str
    row: dict[str, Any]
    settings: dict[str, Any]
    graph: GraphFacts
    history: History
    patches: PatchFacts
    separation: Separation | None
    vectors: np.ndarray
    degrees: np.ndarray | None = None
    home: np.ndarray | None = None
    node_ids: np.ndarray | None = None
    classes: list[str] | None = None
    labels: np.ndarray | None = None
    residuals: np.ndarray | None = None
    edges: sp.csr_array | None = None
    decoder: dict[str, np.ndarray] = field(default_factory=dict)
    tensors: dict[str, np.ndarray] = field(default_factory=dict)
    command: str = ""
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def num_nodes(self) -> int:
        """Number of vectors."""
        return len(self.vectors)

    @property
    def decoder_kind(self) -> str:
        """How pairs are scored: a name in `models.decoders.DECODERS`."""
        return str(self.settings.get("decoder", "inner"))

    def names(self) -> list[str] | None:
        """Ids as text; None where a node is its row number."""
        return None if self.node_ids is None else [str(node) for node in self.node_ids.tolist()]
