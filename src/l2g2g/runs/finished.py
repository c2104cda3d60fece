"""Finished: what the artefact of a finished training contains.

Arrays with a row for each node: vectors, ids, labels, degrees, first_patch, residuals. The edges u < v as CSR
(edges_indptr, edges_indices) and their directions, unless they are too many. The patches (patch_nodes, patch_offsets).
What new nodes need (state_*, structure_columns). The held-out pairs with their scores (pairs, pair_scores,
pair_is_edge), a row for each pair.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import chain
from typing import Any

import numpy as np

from l2g2g.core.randomness import Purpose, stream_key
from l2g2g.evaluation.separation import ScoredPairs
from l2g2g.graphs.array_folder import blocks_of, name_arrays
from l2g2g.graphs.checks import find_classes
from l2g2g.graphs.graph_store import GraphStore
from l2g2g.graphs.held_out import smallest_pairs
from l2g2g.graphs.splits import Pairs, draw_non_edges, edge_blocks
from l2g2g.graphs.store import node_ids_of
from l2g2g.models.node_states import Parts
from l2g2g.runs.artefact import Contents, write_artefact
from l2g2g.runs.environment import package_versions
from l2g2g.runs.published import LINK_MODEL
from l2g2g.runs.record import GraphFacts, PatchFacts
from l2g2g.runs.run import Run
from l2g2g.runs.run_directory import RunDirectory
from l2g2g.runs.saved_model import frame_weights, model_parts, model_values, model_weights

ESTIMATORS = {
    "gae": "GAE",
    "vgae": "VGAE",
    "fastgae": "FastGAE",
    "gae+l2g": "GAEL2G",
    "l2g2g": "L2G2G",
    "vl2g2g": "VL2G2G",
}
_SAMPLED_EDGES = 20_000
_LOCAL_FIELDS = ("output", "warm_start")  # paths on this machine, which a page for others leaves out
_FEW_BYTES = 64_000_000  # edges are kept if they take at most this, or no more than the vectors


def keep_run(
    directory: RunDirectory | None,
    name: str,
    graph: GraphStore,
    run: Run,
    row: dict[str, Any],
    *,
    arguments: list[str] | None = None,
) -> None:
    """Write the artefact of a finished training into its run directory; without a directory nothing is written.

    name: of the training in the run. row: the JSON line about it. arguments: of the command line.
    """
    if directory is not None:
        write_artefact(directory.folder, name, describe_run(graph, run, row, arguments=arguments))


def describe_run(
    graph: GraphStore,
    run: Run,
    row: dict[str, Any],
    *,
    arguments: list[str] | None = None,
    parameters: dict[str, Any] | None = None,
    keeps_edges: bool | None = None,
) -> Contents:
    """The contents of the artefact of a finished training; arrays are read from the graph when they are written.

    parameters: of the estimator that was fitted; None for a run of the command line. keeps_edges: None to keep edges
    unless they are too many. Other arguments as in `keep_run`.
    """
    fitted = run.fitted
    assert fitted is not None, "a run is kept with what new nodes need"
    scored = run.inspection.scored or _score_learned(graph, run)
    labels = graph.labels
    classes, codes = (None, None) if labels is None else find_classes(labels)
    has_patches = run.patch_set.num_patches > 1
    values = {
        **model_values(fitted),
        "estimator": ESTIMATORS[run.config.method],
        "parameters": parameters,
        "row": {field: value for field, value in row.items() if field not in _LOCAL_FIELDS},
        "command": show_command(arguments or []),
        "versions": package_versions(),
        "graph": asdict(_describe_graph(graph)),
        "history": asdict(run.trained.history),
        "patches": asdict(_describe_patches(run)),
        LINK_MODEL: run.inspection.link_model,
        "separation": None if scored is None else asdict(scored.separation),
        "classes": None if classes is None else [str(name) for name in classes.tolist()],
        "columns": None if graph.columns is None else graph.columns.to_dict(),
    }

    if keeps_edges is None:
        keeps_edges = 4 * graph.num_edges <= max(_FEW_BYTES, run.embedding.nbytes)
    sources: list[Callable[[], Parts]] = [
        lambda: _run_parts(run, codes, scored),
        lambda: _id_parts(graph),
        lambda: _edge_parts(graph, keeps_edges),
        lambda: model_parts(fitted),
    ]
    weights = model_weights(fitted)
    if has_patches and fitted.patches is None:  # otherwise the frame of the vectors is that of the patches
        weights |= frame_weights("patch_frame", run.trained.frame)
    return Contents(values, weights, lambda: chain.from_iterable(source() for source in sources))


def show_command(arguments: list[str]) -> str:
    """The command as it was typed, with the names of files but without the folders of the machine.

    Example:
        >>> show_command(["embed", "/home/me/my edges.csv", "-o", "out.npy"])
        "l2g2g embed 'my edges.csv' -o out.npy"
    """
    shown = [os.path.basename(part.rstrip("/")) if os.path.isabs(part) else part for part in arguments]
    return shlex.join(["l2g2g", *shown]) if arguments else ""


def sample_pairs(graph: GraphStore, count: int, seed: int) -> Pairs | None:
    """Draw some edges and as many non-edges; None if every pair of nodes is an edge."""
    num_non_edges = graph.num_nodes * (graph.num_nodes - 1) // 2 - graph.num_edges
    if num_non_edges == 0:
        return None
    key, count = stream_key(seed, Purpose.RECORD), min(count, graph.num_edges)
    edges = smallest_pairs(lambda: edge_blocks(graph), graph.num_edges, count, key, graph.name)
    return Pairs(edges, draw_non_edges(graph, edges[:num_non_edges], key))


def _score_learned(graph: GraphStore, run: Run) -> ScoredPairs | None:
    """Score training edges, for a run that scored no held-out ones."""
    pairs = sample_pairs(graph, _SAMPLED_EDGES, run.config.seed)
    if pairs is None:
        return None
    return ScoredPairs.of("training", run.embedding, pairs, run.trained.model.decoder.score, run.config.seed)


def _describe_graph(graph: GraphStore) -> GraphFacts:
    return GraphFacts(
        graph.name,
        graph.num_nodes,
        graph.num_edges,
        graph.num_features,
        graph.weighted,
        graph.directed,
        graph.cleaning,
    )


def _describe_patches(run: Run) -> PatchFacts:
    patch_set, residuals = run.patch_set, run.inspection.residuals
    overlaps = patch_set.overlaps
    assert run.fitted is not None
    found = PatchFacts(
        [int(size) for size in patch_set.sizes],
        overlaps.edges.tolist(),
        overlaps.sizes.tolist(),
        num_joined=patch_set.num_joined,
        final_pass=run.fitted.patches is None and patch_set.num_patches > 1,
    )
    if residuals is None:
        return found
    return replace(
        found,
        pair_residuals=residuals.per_pair.tolist(),
        patch_residuals=residuals.per_patch.tolist(),
        before=residuals.before,
        after=residuals.after,
    )


def _run_parts(run: Run, classes: np.ndarray | None, scored: ScoredPairs | None) -> Parts:
    """Vectors and patches, classes (num_nodes,) as numbers, and the scored pairs."""
    patch_set, residuals = run.patch_set, run.inspection.residuals
    yield "vectors", run.embedding
    if classes is not None:
        yield "labels", classes.astype(np.int32)
    if residuals is not None:
        yield "residuals", residuals.per_node.astype(np.float32)
    yield "first_patch", _first_patches(run)
    if patch_set.num_patches > 1:
        yield "patch_nodes", np.asarray(patch_set.global_nodes, np.int32)
        yield "patch_offsets", patch_set.offsets.astype(np.int64)
    if scored is not None:
        yield "pairs", scored.ends.astype(np.int32)
        yield "pair_scores", scored.scores.astype(np.float32)
        yield "pair_is_edge", scored.is_edge.astype(np.uint8)


def _first_patches(run: Run) -> np.ndarray:
    """(num_nodes,) int32 first patch that holds each node."""
    first = np.empty(run.patch_set.num_nodes, np.int32)
    for patch in reversed(range(run.patch_set.num_patches)):  # the first patch is written last and stays
        first[run.patch_set.nodes_of(patch)] = patch
    return first


def _id_parts(graph: GraphStore) -> Parts:
    ids = node_ids_of(graph)
    return iter(()) if ids is None else name_arrays("ids", blocks_of(ids))


def _edge_parts(graph: GraphStore, keeps_edges: bool) -> Parts:
    """Degrees; if keeps_edges also the edges u < v as CSR, with directions if the graph has them."""
    if keeps_edges:
        yield "edges_indptr", np.zeros(1, np.int64)
    end = 0
    for block in graph.row_blocks(directions=keeps_edges):
        yield "degrees", np.diff(block.indptr).astype(np.int32)
        if not keeps_edges:
            continue
        sources, targets, places = block.upper()
        ends = end + np.cumsum(np.bincount(sources - block.low, minlength=block.high - block.low))
        yield "edges_indptr", ends
        yield "edges_indices", targets.astype(np.int32)
        if block.directions is not None:
            yield "edge_directions", block.directions[places]
        end = int(ends[-1])
