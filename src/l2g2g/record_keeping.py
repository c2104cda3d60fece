"""Record keeping: a finished run becomes the record that its directory keeps, and gives back to those who look."""

from __future__ import annotations

import os
import platform
import shlex
import warnings
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from l2g2g.errors import InputError
from l2g2g.evaluation.separation import Separation, separate
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.store import StoredGraph
from l2g2g.model_record import read_model_record
from l2g2g.preparation import passes_whole_graph
from l2g2g.published import LINK_MODEL
from l2g2g.record_graph import AnyGraph, classes_of, degrees_of, ids_of, sample_pairs, upper_edges
from l2g2g.reports.record import GraphFacts, PatchFacts, RunRecord
from l2g2g.reports.record_files import read_record, read_row, write_record
from l2g2g.run import Run
from l2g2g.run_directory import RunDirectory
from l2g2g.scoring import pair_scorer

_RECORDS = "records"
_SAMPLED_EDGES = 20_000
_PLACES = ("output", "warm_start")  # a page that is passed on tells nobody's folders
_PACKAGES = ("l2g2g", "torch", "numpy", "scipy")
# Edges are kept unless they would dwarf the vectors, or are too many to be read at once from a store; what is small in
# itself is no burden.
_FEW_BYTES = 64_000_000
_NODE_BYTES = 64  # of memory for each node while a record is made: degrees, patches, residuals and what they come from


def keep_record(
    directory: RunDirectory | None,
    name: str,
    graph: AnyGraph,
    run: Run,
    row: dict[str, Any],
    *,
    arguments: list[str] | None = None,
) -> None:
    """Keep what a report needs of a finished training; nothing where the run has no directory.

    name: of the training in the run. row: the JSON line about it. arguments: of the command line.
    """
    if directory is None:
        return
    limit, needed = run.config.memory, run.embedding.nbytes + _NODE_BYTES * graph.num_nodes
    if isinstance(graph, StoredGraph) and limit is not None and needed > limit:
        text = (
            f"no record is kept: it takes {needed / 1e9:.1f} GB of memory, more than --memory; there is no report then"
        )
        warnings.warn(text, stacklevel=2)
        return
    write_record(directory.folder / _RECORDS / name, make_record(name, graph, run, row, arguments=arguments))


def make_record(
    name: str,
    graph: AnyGraph,
    run: Run,
    row: dict[str, Any],
    *,
    arguments: list[str] | None = None,
) -> RunRecord:
    """What is known of a run; see `keep_record`."""
    model, frame, patch_set = run.trained.model, run.trained.frame, run.patch_set
    residuals = run.inspection.residuals
    classes, labels = classes_of(graph)
    burden = _FEW_BYTES if isinstance(graph, StoredGraph) else max(_FEW_BYTES, run.embedding.nbytes)
    keeps_edges = 4 * graph.num_edges <= burden
    tensors = {
        "patches.nodes": patch_set.global_nodes.astype(np.int32),
        "patches.offsets": patch_set.offsets.astype(np.int64),
        **{f"frame.{part}": getattr(frame, part).cpu().numpy() for part in ("rotations", "translations", "scales")},
    }
    return RunRecord(
        name=name,
        row={field: value for field, value in row.items() if field not in _PLACES}
        | ({} if run.inspection.link_model is None else {LINK_MODEL: run.inspection.link_model}),
        settings=run.config.to_dict(),
        graph=GraphFacts(
            graph.name,
            graph.num_nodes,
            graph.num_edges,
            graph.num_features,
            graph.weighted,
            isinstance(graph, Graph) and graph.directed,
            graph.cleaning,
        ),
        history=run.trained.history,
        patches=_describe_patches(run),
        separation=run.inspection.separation or _separate_learned(graph, run),
        vectors=run.embedding,
        node_ids=ids_of(graph),
        classes=classes,
        labels=labels,
        degrees=degrees_of(graph),
        home=_first_patches(run),
        residuals=None if residuals is None else residuals.per_node.astype(np.float32),
        edges=upper_edges(graph) if keeps_edges else None,
        decoder=model.decoder.saved_parameters(),
        tensors=tensors if patch_set.num_patches > 1 else {},
        command=show_command(arguments or []),
        versions={"python": platform.python_version(), **{name: metadata.version(name) for name in _PACKAGES}},
    )


def list_records(folder: Path) -> list[str]:
    """Names of the trainings that a run directory keeps records of."""
    return sorted(path.parent.name for path in (folder / _RECORDS).glob("[!.]*/record.json"))


def list_rows(folder: Path) -> list[dict[str, Any]]:
    """The JSON lines of all trainings of a run, each with its name."""
    return [{"name": name, **read_row(folder / _RECORDS / name)} for name in list_records(folder)]


def open_record(folder: Path, name: str | None = None) -> RunRecord:
    """The record of a training in a run directory; the first one where no name is given."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such run directory; give what --run-dir was, or a folder of model.save")
    names = list_records(folder)
    if not names and (folder / "model.json").exists():
        if name is not None:
            raise InputError(f"{folder}: holds one saved model; leave --training out")
        return read_model_record(folder)
    if not names:
        raise InputError(f"{folder}: no run has finished here; give a directory of embed or evaluate --run-dir")
    if name is not None and name not in names:
        raise InputError(f"{folder}: no training '{name}'; it holds {', '.join(names)}")
    return read_record(folder / _RECORDS / (name or names[0]))


def show_command(arguments: list[str]) -> str:
    """The command as it was typed, with the names of files but without the folders of the machine.

    Example:
        >>> show_command(["embed", "/home/me/my edges.csv", "-o", "out.npy"])
        "l2g2g embed 'my edges.csv' -o out.npy"
    """
    shown = [os.path.basename(part.rstrip("/")) if os.path.isabs(part) else part for part in arguments]
    return shlex.join(["l2g2g", *shown]) if arguments else ""


def _describe_patches(run: Run) -> PatchFacts:
    patch_set, residuals = run.patch_set, run.inspection.residuals
    overlaps = patch_set.overlaps
    sizes = [int(size) for size in patch_set.sizes]
    found = PatchFacts(
        sizes,
        overlaps.edges.tolist(),
        overlaps.sizes.tolist(),
        num_joined=patch_set.num_joined,
        final_pass=passes_whole_graph(patch_set, run.config),
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


def _separate_learned(graph: AnyGraph, run: Run) -> Separation | None:
    """Scores of edges that were learned from, where no others were scored."""
    pairs = sample_pairs(graph, _SAMPLED_EDGES, np.random.default_rng([run.config.seed, 0x2EC0]))
    if pairs is None:
        return None
    return separate("training", run.embedding, pairs, pair_scorer(run.trained.model), run.config.seed)


def _first_patches(run: Run) -> np.ndarray:
    patch_set = run.patch_set
    patches = np.repeat(np.arange(patch_set.num_patches, dtype=np.int32), patch_set.sizes)
    home = np.empty(patch_set.num_nodes, np.int32)
    home[patch_set.global_nodes[::-1]] = patches[::-1]  # from the end, so that the first patch is what stays
    return home
