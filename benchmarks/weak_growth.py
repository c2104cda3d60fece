"""Weak growth: as many nodes on each rank, more and more ranks. Counts bytes and work, and does not time them.

Blocks of equal size are planted, two patches of them to a rank. For each number of ranks the bytes that a rank sends in
an epoch stand beside the formulas of messages (docs/scale.md, "What travels"), and so does its work: arcs of its
patches, and pairs that it draws. More ranks than cores are fine.

    python benchmarks/weak_growth.py                        # 2, 4, 8 and 16 ranks of 5,000 nodes
    python benchmarks/weak_growth.py --ranks 2,4 --nodes 500

Prints a JSON line for each number of ranks; exit 1 where bytes are off by more than 10 % of a formula, where a rank
sends more than its pairs and overlaps explain, or where work of a rank varies by more than 20 %.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from l2g2g.config import make_config
from l2g2g.graphs.block_model import BlockModel
from l2g2g.graphs.graph import Graph
from l2g2g.parallel.communicator import Place, join_ranks
from l2g2g.parallel.node_directory import NodeDirectory
from l2g2g.parallel.node_table import NodeTable
from l2g2g.patches.overlap import PatchSet
from l2g2g.runs.embed import embed_graph
from l2g2g.runs.ranks import deal_patches
from l2g2g.training.batches import PatchBatches
from l2g2g.training.node_pairs import NodePairs
from machine import progress

PATCHES_PER_RANK, INSIDE_DEGREE, OUTSIDE_DEGREE, NUM_FEATURES = 2, 16, 2, 16
# Of large graphs the default scores fewer of the edges, so that epochs grow more slowly than graphs: here all count.
SETTINGS = {"epochs": 3, "patience": 0, "threads": 1, "structure": "none", "partition": "metis", "score_fraction": 1.0}
BYTES_TOLERANCE, WORK_TOLERANCE = 0.1, 0.2
Row = dict[str, Any]


def make_graph(num_ranks: int, nodes_per_rank: int) -> Graph:
    """As many blocks as patches; a node has as many neighbours inside and outside its own, whatever their number."""
    size, num_blocks = nodes_per_rank // PATCHES_PER_RANK, num_ranks * PATCHES_PER_RANK
    outside = OUTSIDE_DEGREE / (size * (num_blocks - 1))
    graph = BlockModel.planted(num_blocks, size, INSIDE_DEGREE / size, outside).sample(0, name="blocks")
    features = np.random.default_rng(0).standard_normal((graph.num_nodes, NUM_FEATURES), dtype=np.float32)
    return replace(graph, features=features)


def train_here(num_ranks: int, nodes_per_rank: int, folder: Path) -> None:
    """The work of one rank: train, and leave what it counted in the folder."""
    asked: list[int] = []
    pairs: list[int] = []
    arcs: list[int] = []
    ghosts: list[int] = []
    drawn: list[int] = []
    request, draw, make, look_up = NodeTable.request, NodePairs.draw_owned, PatchBatches.__init__, NodeDirectory.at

    def count_asked(self: NodeTable, *arguments: Any) -> Any:
        found = request(self, *arguments)
        asked.append(sum(found[0].lengths) - found[0].lengths[self.communicator.rank])
        return found

    def count_pairs(self: NodePairs, *arguments: Any, **more: Any) -> Any:
        found = draw(self, *arguments, **more)
        pairs.append(found.edges.num_pairs + found.non_edges.num_pairs)
        return found

    def count_drawn(self: NodeDirectory, places: np.ndarray) -> Any:
        first, last = np.searchsorted(places, self.bounds[[place.rank, place.rank + 1]])
        drawn.append(len(places) - int(last - first))
        return look_up(self, places)

    def count_arcs(self: PatchBatches, source: Any, groups: Any, *arguments: Any, **more: Any) -> None:
        arcs.append(int(source.num_arcs[np.concatenate([[], *groups]).astype(int)].sum()))
        ghosts.append(count_ghosts(source.patch_set, source.num_arcs, num_ranks)[place.rank])
        make(self, source, groups, *arguments, **more)

    place = Place.read(os.environ)
    assert place is not None
    NodeTable.request, NodePairs.draw_owned = count_asked, count_pairs  # type: ignore[method-assign]
    PatchBatches.__init__ = count_arcs  # type: ignore[method-assign]
    NodeDirectory.at = count_drawn  # type: ignore[method-assign]
    with join_ranks(place, timeout=300) as communicator:
        graph = make_graph(num_ranks, nodes_per_rank)
        config = make_config(patches=PATCHES_PER_RANK * num_ranks, **SETTINGS)
        run = embed_graph(graph, config, validation_fraction=0.0, communicator=communicator)
        found = {
            "asked": float(np.mean(asked)),
            "drawn": float(np.mean(drawn)) if drawn else 0.0,
            "pairs": float(np.mean(pairs)),
            "arcs": arcs[0],
            "num_parameters": sum(each.numel() for each in run.trained.model.parameters()),
            "ghosts": ghosts[0],
            "num_shared": int(run.patch_set.overlaps.sizes.sum()) + run.patch_set.num_widened,
            "num_nodes": graph.num_nodes,
            "dim": config.dim,
            "messages": run.messages,
        }
        (folder / f"{place.rank}.json").write_text(json.dumps(found))


def count_ghosts(patch_set: PatchSet, num_arcs: np.ndarray, num_ranks: int) -> list[int]:
    """Nodes of the patches of each rank that another rank owns: the one that has the first patch of a node."""
    owners = deal_patches(patch_set, num_arcs, num_ranks)
    homes = np.empty(patch_set.num_nodes, np.int64)
    for patch in range(patch_set.num_patches - 1, -1, -1):
        homes[patch_set.nodes_of(patch)] = owners[patch]
    here = (np.unique(patch_set.select(np.flatnonzero(owners == rank)).global_nodes) for rank in range(num_ranks))
    return [int((homes[nodes] != rank).sum()) for rank, nodes in enumerate(here)]


def measure(num_ranks: int, nodes_per_rank: int) -> Row:
    """One row: bytes beside formulas and work, of an average rank and of the one with most."""
    with tempfile.TemporaryDirectory(prefix="l2g2g-growth-") as folder:
        call = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(num_ranks)]
        call += [__file__, "--child", f"{num_ranks},{nodes_per_rank}", "--folder", folder]
        subprocess.run(call, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "OMP_NUM_THREADS": "1"})
        ranks = [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(num_ranks)]
    first, vector = ranks[0], 4 * ranks[0]["dim"]
    asked, num_nodes = sum(each["asked"] for each in ranks) / num_ranks, first["num_nodes"]
    sent = {kind: np.array(count["by_rank"]) for kind, count in first["messages"].items()}
    ghosts = sum(each["ghosts"] for each in ranks) / num_ranks
    overlaps = sum(sent[kind].mean() for kind in ("overlap_sums", "overlap_gradients"))
    formulas = {
        "gradient": (sent["gradient"].mean(), 4 * first["num_parameters"]),
        "pairs": (sum(sent[kind].mean() for kind in ("pair_rows", "pair_gradients")), 2 * vector * asked),
        "overlaps": (overlaps, 2 * vector * ghosts),
    }
    drawn = sum(each["drawn"] for each in ranks) / num_ranks
    ids = sum(sent[kind].mean() for kind in ("pair_requests", "far_ends", "far_ends_told") if kind in sent)
    if ids:  # not where all nodes are asked for
        formulas["ids"] = ids, 4 * asked + 9 * drawn
    # At most 8 bytes for each row that is asked for were allowed for numbers of nodes when the formulas were written.
    formulas["all"] = (
        sum(counted for counted, _ in formulas.values()),
        4 * first["num_parameters"] + 2 * vector * (asked + ghosts) + (8 * asked if ids else 0),
    )
    bounds = {
        "overlaps": (overlaps, 2 * vector * first["num_shared"] / num_ranks),
        "pairs": (formulas["pairs"][0], 2 * vector * 2 * sum(each["pairs"] for each in ranks) / num_ranks),
    }
    work = [each["arcs"] + each["pairs"] for each in ranks]
    per_epoch = formulas["all"][0]
    return {
        "ranks": num_ranks,
        "num_nodes": num_nodes,
        "bytes": {name: {"counted": a, "formula": b, "ratio": a / b} for name, (a, b) in formulas.items()},
        "at_most": {name: {"counted": a, "bound": b} for name, (a, b) in bounds.items()},
        "bytes_per_rank_and_epoch": per_epoch,
        "work": {"mean": float(np.mean(work)), "most": max(work), "least": min(work)},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="2,4,8,16")
    parser.add_argument("--nodes", type=int, default=5000, help="on each rank")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        num_ranks, nodes_per_rank = map(int, options.child.split(","))
        train_here(num_ranks, nodes_per_rank, options.folder)
        return
    rows = []
    for num_ranks in map(int, options.ranks.split(",")):
        progress(f"{num_ranks} ranks of {options.nodes} nodes")
        rows.append(measure(num_ranks, options.nodes))
        print(json.dumps(rows[-1]), flush=True)
    failed = False
    for row in rows:
        failed |= any(abs(each["ratio"] - 1) > BYTES_TOLERANCE for each in row["bytes"].values())
        failed |= any(each["counted"] > each["bound"] for each in row["at_most"].values())
        first = rows[0]["work"]["mean"]
        failed |= any(abs(row["work"][which] / first - 1) > WORK_TOLERANCE for which in ("mean", "most", "least"))
    raise SystemExit(int(failed))


if __name__ == "__main__":
    main()
