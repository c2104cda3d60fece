"""Calibration: hide a tenth of the edges, ask `predict` for the likeliest missing links, and count the hidden ones.

    python benchmarks/calibration.py lastfm citeseer_planetoid blogcatalog --data-dir DIR --seeds 3

Every graph and seed is one `l2g2g embed --run-dir` of the graph that is left, and one `l2g2g predict --top` per scorer
with the share of the links that is really missing. `ratio` is expected over observed precision of the printed list.
`--table FILE...` shows lines as a table and runs nothing.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import scipy.sparse as sp

from l2g2g.graphs.graph import Graph
from l2g2g.graphs.read import read_graph

HIDDEN = 0.1
SCORERS = ("vectors", "auto")


def hide_edges(graph: Graph, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(edges that stay, edges that are hidden), each (num_edges, 2)."""
    edges = np.stack(graph.edges(), axis=1).astype(np.int64)
    order = np.random.default_rng([seed, 0xCA1B]).permutation(len(edges))
    num_hidden = int(HIDDEN * len(edges))
    return edges[np.sort(order[num_hidden:])], edges[np.sort(order[:num_hidden])]


def write_archive(path: Path, graph: Graph, edges: np.ndarray) -> None:
    """Write the nodes and features of a graph with these edges, as `.npz`."""
    shape = (graph.num_nodes, graph.num_nodes)
    ones = np.ones(len(edges), np.float32)
    half = sp.csr_array((ones, (edges[:, 0], edges[:, 1])), shape=shape)
    parts = {"adj_indptr": half.indptr, "adj_indices": half.indices, "adj_shape": np.array(shape)}
    if graph.features is not None:
        rows = sp.csr_array(graph.features)
        parts |= {"attr_indptr": rows.indptr, "attr_indices": rows.indices, "attr_data": rows.data}
        parts["attr_shape"] = np.array(rows.shape)
    np.savez(path, **parts)


def run_command(*words: str) -> list[dict[str, Any]]:
    """The JSON lines of an `l2g2g` command."""
    done = subprocess.run([sys.executable, "-m", "l2g2g", *words], check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_graph(path: Path, seed: int, top: int, options: list[str]) -> list[dict[str, Any]]:
    """One line per scorer. options: of `embed`."""
    graph = read_graph(path)
    kept, hidden = hide_edges(graph, seed)
    is_hidden = {(int(u), int(v)) for u, v in hidden}
    share = len(hidden) / len(kept)
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        left, run = Path(folder) / "left.npz", Path(folder) / "run"
        write_archive(left, graph, kept)
        how = ["--seed", str(seed), "--quiet", "--json", "--run-dir", str(run), "-o", str(Path(folder) / "out.npy")]
        run_command("embed", str(left), *how, *options)
        for scorer in SCORERS:
            asked = ["--top", str(top), "--graph", str(left), "--missing-share", str(share), "--scorer", scorer]
            links = run_command("predict", str(run), *asked, "--quiet", "--json")
            ends = (sorted((int(link["source"]), int(link["target"]))) for link in links)
            found = fmean((u, v) in is_hidden for u, v in ends)
            expected = links[0]["expected_precision"]
            lines.append(
                {
                    "dataset": graph.name,
                    "seed": seed,
                    "scorer": scorer,
                    "used": links[0]["scorer"],
                    "options": options,
                    "top": len(links),
                    "missing_share": share,
                    "expected_precision": expected,
                    "observed_precision": found,
                    "ratio": expected / found if found else None,
                }
            )
    return lines


def show_table(files: list[Path]) -> None:
    """Lines of files as a table, the mean over the seeds."""
    lines = [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in lines:
        groups.setdefault((line["dataset"], line["scorer"]), []).append(line)
    print("| graph | scorer | seeds | expected % | observed % | ratio of each seed |\n|---|---|---|---|---|---|")
    for (dataset, scorer), found in groups.items():
        means = [100 * fmean(line[f"{name}_precision"] for line in found) for name in ("expected", "observed")]
        ratios = ", ".join("–" if line["ratio"] is None else f"{line['ratio']:.2f}" for line in found)
        print(f"| {dataset} | {scorer} | {len(found)} | {means[0]:.1f} | {means[1]:.1f} | {ratios} |")


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*")
    parser.add_argument("--data-dir", type=Path, default=Path("../shared/data"))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--top", type=int, default=300)
    parser.add_argument("--table", type=Path, nargs="+")
    arguments, options = parser.parse_known_args()
    if arguments.table:
        show_table(arguments.table)
        return
    for dataset in arguments.datasets:
        for seed in range(arguments.seeds):
            for line in check_graph(arguments.data_dir / f"{dataset}.npz", seed, arguments.top, options):
                print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
