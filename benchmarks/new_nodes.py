"""New nodes: hide a tenth of the nodes with their edges, train on the rest, embed them afterwards, score their links.

    python benchmarks/new_nodes.py cora-ml pubmed --data-dir DIR --seeds 5

One JSON line per data set, method and seed. A fifth of the links of the hidden nodes is held out of everything and told
apart from as many pairs of a hidden node and another that are not linked. `auc_new`: the hidden nodes come after
training, with their features and the rest of their links. `auc_present`: they were there all along. `auc_warm`:
training goes on for them, and `movement` is how far known nodes with the same edges went, of their length.
The lines of graphs without features say `"features": false`. `--table FILE...` shows lines as a table and runs nothing.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from l2g2g.config import make_config
from l2g2g.evaluation.links import evaluate_links
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.read import read_graph
from l2g2g.graphs.splits import Pairs
from l2g2g.runs.embed import embed_graph
from l2g2g.runs.new_nodes import embed_grown
from l2g2g.runs.warm_start import continue_training

HIDDEN, HELD_OUT = 0.1, 0.2
_SHOWN = ("auc_new", "auc_present", "gap", "auc_warm", "movement")


@dataclass(frozen=True)
class Hidden:
    """A graph before and after some nodes came, and held-out links of these.

    before: the graph of the nodes that are known. after: the same nodes first, then the new ones, without `test`.
    """

    before: Graph
    after: Graph
    test: Pairs


def hide_nodes(graph: Graph, seed: int) -> Hidden:
    """Hide some nodes, and hold out some of their links and as many pairs without one."""
    generator = np.random.default_rng([seed, 0x4E57])
    order = generator.permutation(graph.num_nodes)
    num_new = int(HIDDEN * graph.num_nodes)
    known, new = np.sort(order[num_new:]), np.sort(order[:num_new])
    graph = graph.induce(np.concatenate([known, new]))
    num_known = len(known)
    sources, targets = graph.edges()  # sources < targets, so that a link of a new node has it as its target
    of_new = np.flatnonzero(targets >= num_known)
    held = generator.choice(of_new, int(HELD_OUT * len(of_new)), replace=False)
    positive = np.stack([sources[held], targets[held]], axis=1).astype(np.int64)
    kept = np.ones(len(sources), bool)
    kept[held] = False
    negative = _pairs_without_link(graph, num_known, len(held), generator)
    after = graph.with_edges(sources[kept], targets[kept], graph.edge_weights()[kept] if graph.weighted else None)
    return Hidden(after.induce(np.arange(num_known)), after, Pairs(positive, negative))


def _pairs_without_link(graph: Graph, num_known: int, count: int, generator: np.random.Generator) -> np.ndarray:
    found: set[tuple[int, int]] = set()
    while len(found) < count:
        new, other = int(generator.integers(num_known, graph.num_nodes)), int(generator.integers(graph.num_nodes))
        if new != other and graph.adjacency[new, other] == 0:
            found.add((min(new, other), max(new, other)))
    return np.array(sorted(found))


def measure(graph: Graph, method: str, preset: str, seed: int) -> dict[str, Any]:
    """Both ways, one seed."""
    hidden = hide_nodes(graph, seed)
    config = make_config(method, preset, seed=seed)
    before = embed_graph(hidden.before, config, keep=True)
    assert before.fitted is not None
    started = time.perf_counter()
    vectors, _ = embed_grown(before.fitted, before.embedding, None, hidden.after)
    seconds = time.perf_counter() - started
    present = embed_graph(hidden.after, config)
    best_epoch = before.trained.history.best_epoch
    warm, movement = continue_training(
        before.fitted, before.embedding, None, hidden.after, config, best_epoch=best_epoch
    )
    new, there, after = (
        evaluate_links(embedding, hidden.test, run.trained.model.decoder.score).auc
        for embedding, run in ((vectors, before), (present.embedding, present), (warm.embedding, warm))
    )
    return {
        "dataset": graph.name,
        "method": method,
        "preset": preset,
        "seed": seed,
        "features": graph.features is not None,
        "num_known": before.patch_set.num_nodes,
        "num_new": hidden.after.num_nodes - hidden.before.num_nodes,
        "num_test_links": len(hidden.test.positive),
        "auc_new": new,
        "auc_present": there,
        "auc_warm": after,
        "gap": there - new,
        "movement": movement.relative,
        "known_unchanged": bool((vectors[: len(before.embedding)] == before.embedding).all()),
        "seconds_new": seconds,
        "seconds_present": present.seconds["train"],
        "seconds_warm": warm.seconds["train"],
    }


def render_table(lines: list[dict[str, Any]]) -> str:
    """Means over the seeds, in Markdown; AUC in percent."""
    rows = [
        "| graph | features | method | seeds | new after training | there all along | gap | training goes on | moved |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, bool, str], list[dict[str, Any]]] = {}
    for line in lines:
        groups.setdefault((line["dataset"], line["features"], line["method"]), []).append(line)
    for (dataset, features, method), group in groups.items():
        means = {name: 100 * fmean(line[name] for line in group) for name in _SHOWN}
        cells = [dataset, "yes" if features else "no", method, str(len(group))]
        rows.append(f"| {' | '.join(cells)} | " + " | ".join(f"{means[name]:.1f}" for name in _SHOWN) + " % |")
    return "\n".join(rows) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("graphs", nargs="*", help="data sets or files")
    parser.add_argument("--table", nargs="+", type=Path, help="files of lines")
    parser.add_argument("--data-dir", type=Path, default=None)
    parser.add_argument("--method", action="append", help="repeatable; l2g2g and gae by default")
    parser.add_argument("--preset", default="default")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", choices=["features", "structure"], help="with features, or without; by default both")
    arguments = parser.parse_args()
    if arguments.table:
        texts = [path.read_text() for path in arguments.table]
        print(render_table([json.loads(line) for text in texts for line in text.splitlines()]), end="")
        return
    for name in arguments.graphs:
        graph = read_graph(name, data_dir=arguments.data_dir)
        variants = [] if arguments.only == "structure" else [graph]
        variants += [] if arguments.only == "features" else [replace(graph, features=None)]
        for variant in variants:
            for method in arguments.method or ["l2g2g", "gae"]:
                for seed in range(arguments.seeds):
                    print(json.dumps(measure(variant, method, arguments.preset, seed)), flush=True)


if __name__ == "__main__":
    main()
