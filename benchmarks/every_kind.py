"""Every kind of graph: the default beside GAE and baselines on the development graphs, one process for each run.

Usage:
    python benchmarks/every_kind.py run --data-dir ../shared/data -o docs/results/every-kind.jsonl [GRAPH...]
    python benchmarks/every_kind.py table docs/results/every-kind.jsonl [--brief]
    python benchmarks/every_kind.py run --scorer auto --methods l2g2g -o docs/results/every-kind-auto.jsonl [GRAPH...]
    python benchmarks/every_kind.py scorers docs/results/every-kind.jsonl docs/results/every-kind-auto.jsonl

`run` writes a line of `l2g2g evaluate ... --json` for every method and seed, small graphs first, and goes on where it
was stopped: what has a line is not run again. The graphs of `GENERATED` are made here.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from statistics import mean

import networkx
import numpy as np

BASELINES = ("spectral", "adamic-adar", "common-neighbours", "preferential-attachment", "l3")
# Name, seeds at most; small graphs first.
GRAPHS = {
    "polblogs": 5,
    "yeast": 5,
    "cora_planetoid": 5,
    "citeseer_planetoid": 5,
    "cora_ml": 5,
    "power": 5,
    "grid": 5,
    "bipartite": 5,
    "uai": 5,
    "lastfm": 5,
    "actor": 5,
    "minesweeper": 5,
    "blogcatalog": 5,
    "sbm-small": 5,
    "pubmed": 5,
    "amazon_photo": 5,
    "coauthor_cs": 5,
    "sbm-large-sparse": 3,
    "sbm-large": 3,
    "npm_deps": 1,
    "sbm-large-dense": 1,
}


def bipartite_edges(seed: int = 0, *, documents: int = 1500, words: int = 3000, topics: int = 12) -> np.ndarray:
    """(num_edges, 2) documents and words: a degree-corrected block model, 14 words a document, 15 % off its topic."""
    generator = np.random.default_rng(seed)
    of_document, of_word = generator.integers(0, topics, documents), generator.integers(0, topics, words)
    length, frequency = generator.pareto(2.5, documents) + 0.5, generator.pareto(1.5, words) + 0.3
    wanted = 14 * documents
    sources = generator.choice(documents, 3 * wanted, p=length / length.sum())
    is_off = generator.random(len(sources)) < 0.15
    topic = np.where(is_off, generator.integers(0, topics, len(sources)), of_document[sources])
    targets = np.empty(len(sources), np.int64)
    for each in range(topics):
        members, here = np.flatnonzero(of_word == each), topic == each
        targets[here] = generator.choice(members, int(here.sum()), p=frequency[members] / frequency[members].sum())
    keys = generator.permutation(np.unique(sources.astype(np.int64) * words + targets))[:wanted]
    return np.stack([keys // words, keys % words + documents], axis=1)


def grid_edges(side: int = 60, *, gone: float = 0.05, seed: int = 0) -> np.ndarray:
    """(num_edges, 2) a square grid without some of its edges."""
    numbers = np.arange(side * side).reshape(side, side)
    across, down = (numbers[:, :-1], numbers[:, 1:]), (numbers[:-1], numbers[1:])
    edges = np.concatenate([np.stack([one.ravel(), other.ravel()], axis=1) for one, other in (across, down)])
    return edges[np.random.default_rng(seed).random(len(edges)) >= gone]


def component_edges(seed: int = 20, *, count: int = 500) -> np.ndarray:
    """(num_edges, 2) many components of 2 to 10 nodes: random trees with three fifths of all other edges."""
    generator, edges, first = np.random.default_rng(seed), [], 0
    for _ in range(count):
        size = int(generator.integers(2, 11))
        edges += [(first + node, first + int(generator.integers(0, node))) for node in range(1, size)]
        pairs = [(node, other) for node in range(size) for other in range(node)]
        edges += [(first + node, first + other) for node, other in pairs if generator.random() < 0.6]
        first += size
    return np.unique(np.sort(edges, axis=1), axis=0)


def mail_edges(seed: int = 1, *, nodes: int = 3000, hubs: int = 30, teams: int = 150) -> np.ndarray:
    """(num_edges, 2) mail: people write within teams, and a few addresses write to many."""
    generator = np.random.default_rng(seed)
    team, edges = generator.integers(0, teams, nodes), []
    for hub in range(hubs):
        reached = np.flatnonzero(generator.random(nodes) < generator.pareto(1.0) * 0.03)
        edges += [(hub, node) for node in reached if node != hub]
    for each in range(teams):
        members = np.flatnonzero(team == each)
        edges += [(one, other) for one in members for other in members if one < other and generator.random() < 0.15]
    return np.unique(np.sort(np.array(edges), axis=1), axis=0)


def paper_edges(seed: int = 1, *, authors: int = 3000, papers: int = 1500, fields: int = 40) -> np.ndarray:
    """(num_edges, 2) co-authors: the two to six authors of a paper, nearly all of one field, are joined."""
    generator = np.random.default_rng(seed)
    activity, field = generator.pareto(1.5, authors) + 0.2, generator.integers(0, fields, authors)
    edges: list[tuple[int, int]] = []
    for _ in range(papers):
        count, wanted = generator.integers(2, 7), generator.integers(fields)
        chances = activity * np.where(field == wanted, 1.0, 0.01)
        found = generator.choice(authors, count, replace=False, p=chances / chances.sum())
        edges += [(one, other) for place, one in enumerate(found) for other in found[:place]]
    return np.unique(np.sort(np.array(edges), axis=1), axis=0)


def networkx_edges(name: str, *settings: float) -> np.ndarray:
    """(num_edges, 2) of a generator of networkx."""
    return np.array(getattr(networkx, name)(*settings, seed=1).edges())


GENERATED = {
    "bipartite": bipartite_edges,
    "grid": grid_edges,
    "components": component_edges,
    "mail": mail_edges,
    "co-authors": paper_edges,
    "attachment": partial(networkx_edges, "barabasi_albert_graph", 4000, 3),
    "clustered": partial(networkx_edges, "powerlaw_cluster_graph", 4000, 4, 0.6),
    "small-world": partial(networkx_edges, "watts_strogatz_graph", 3000, 8, 0.1),
    "caveman": partial(networkx_edges, "relaxed_caveman_graph", 150, 12, 0.15),
}


def run(options: argparse.Namespace) -> None:
    """Write the lines that are missing."""
    done = set()
    if options.output.exists():
        rows = [json.loads(line) for line in options.output.read_text().splitlines()]
        done = {(row["graph"], row["method"], row["seed"]) for row in rows}
    wanted = options.graphs or list(GRAPHS)
    methods = options.methods or ["gae", "l2g2g", *BASELINES]
    with tempfile.TemporaryDirectory() as folder:
        for name in wanted:
            source = find_graph(name, options.data_dir, Path(folder))
            for seed in range(min(options.seeds, GRAPHS.get(name, options.seeds))):
                missing = [method for method in methods if (name, method, seed) not in done]
                if missing:
                    evaluate(name, source, missing, seed, options)


def find_graph(name: str, data_dir: Path, folder: Path) -> str:
    """What `evaluate` is given: a file, or the name of a block model."""
    if name in GENERATED:
        path = folder / f"{name}.csv"
        np.savetxt(path, GENERATED[name](), fmt="%d", delimiter=",", header="source,target", comments="")
        return str(path)
    path = data_dir / f"{name}.npz"
    return str(path) if path.exists() else name


def evaluate(name: str, source: str, methods: list[str], seed: int, options: argparse.Namespace) -> None:
    """One process; its lines are written when it is over."""
    command = [sys.executable, "-m", "l2g2g", "evaluate", source, "--patches", "10", "--seed", str(seed), "--json"]
    command += [part for method in methods for part in ("-m", method)]
    command += ["--scorer", options.scorer] if options.scorer != "vectors" else []
    finished = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if finished.returncode:
        raise SystemExit(f"{' '.join(command)}: exit {finished.returncode}")
    with options.output.open("a") as file:
        for line in finished.stdout.splitlines():
            file.write(json.dumps({"graph": name, **json.loads(line)}) + "\n")
    print(name, seed, flush=True)


def table(rows: list[dict]) -> str:
    """Mean AUC in percent of every graph."""
    heads = ["graph", "seeds", "GAE", "L2G2G", "trained alone", "chosen", "spectral", "AA", "CN", "PA", "L3"]
    heads += ["L2G2G - GAE", "L2G2G - best of spectral, AA, CN, PA", "largest patch", "choosing / total"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for name in dict.fromkeys(row["graph"] for row in rows):
        of = {method: [row for row in rows if (row["graph"], row["method"]) == (name, method)] for method in _all(rows)}
        ours = of["l2g2g"]
        auc = {method: 100 * mean(row["auc"] for row in found) if found else None for method, found in of.items()}
        best = max(auc[method] for method in BASELINES[:4] if auc.get(method) is not None)
        trained = [
            row["chosen"]["validation_auc"].get("trained") for row in ours if row["chosen"].get("validation_auc")
        ]
        shown = [auc["gae"], auc["l2g2g"]]
        alone = f"{100 * mean(trained):.1f} (validation)" if trained and None not in trained else "–"
        chosen = ", ".join(dict.fromkeys(_describe(row) for row in ours))
        choosing = mean(row["seconds"].get("choose", 0.0) / row["seconds"]["total"] for row in ours)
        cells = [name, str(len(ours)), *map(_show, shown), alone, chosen, *(_show(auc.get(each)) for each in BASELINES)]
        cells += [f"{auc['l2g2g'] - auc['gae']:+.2f}", f"{auc['l2g2g'] - best:+.2f}"]
        cells += [f"{max(row['largest_patch_nodes'] / row['num_nodes'] for row in ours):.2f}", f"{choosing:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def scorer_table(rows: list[dict]) -> str:
    """Mean AUC in percent of `--scorer auto` beside the baselines, over the seeds that both have."""
    names = {"spectral": "spectral", "adamic-adar": "AA", "common-neighbours": "CN"}
    names |= {"preferential-attachment": "PA", "l3": "L3"}
    heads = ["graph", "seeds", "vectors", "`--scorer auto`", "chosen", *names.values(), "auto - best of these"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    scored = [row for row in rows if "vectors_auc" in row]
    num_above, gaps = 0, []
    for name in dict.fromkeys(row["graph"] for row in scored):
        ours = {row["seed"]: row for row in scored if row["graph"] == name}
        of = {
            method: {row["seed"]: row["auc"] for row in rows if (row["graph"], row["method"]) == (name, method)}
            for method in names
        }
        seeds = sorted(set(ours).intersection(*of.values()))
        if not seeds:
            continue
        auto, vectors = (100 * mean(ours[seed][key] for seed in seeds) for key in ("auc", "vectors_auc"))
        best = {method: 100 * mean(found[seed] for seed in seeds) for method, found in of.items()}
        gaps.append(auto - max(best.values()))
        num_above += gaps[-1] > 0
        chosen = ", ".join(dict.fromkeys(ours[seed]["chosen"]["scorer"] for seed in seeds))
        cells = [name, str(len(seeds)), _show(vectors), _show(auto), chosen, *map(_show, best.values())]
        lines.append("| " + " | ".join([*cells, f"{gaps[-1]:+.2f}"]) + " |")
    lines += ["", f"Above all of them on {num_above} of {len(gaps)} graphs; lowest difference {min(gaps):+.2f}."]
    return "\n".join(lines)


def brief_table(rows: list[dict]) -> str:
    """The same with fewer columns, for the README."""
    wide = [line.strip("| ").split(" | ") for line in table(rows).splitlines() if not line.startswith("|---")]
    chosen = [wide[0].index(name) for name in ("graph", "seeds", "L2G2G", "chosen", "GAE", "spectral", "AA", "L3")]
    lines = ["| " + " | ".join(cells[place] for place in chosen) + " |" for cells in wide]
    return "\n".join([lines[0], "|" + "---|" * len(chosen), *lines[1:]])


def _all(rows: list[dict]) -> list[str]:
    return list(dict.fromkeys(["gae", "l2g2g", *(row["method"] for row in rows)]))


def _show(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _describe(row: dict) -> str:
    chosen = row["chosen"]
    vectors = chosen.get("vectors", "trained")
    parts = (
        [vectors] if vectors == "spectral" or chosen.get("structure") == "none" else [chosen.get("structure", vectors)]
    )
    return " ".join(parts + (["(mean)"] if chosen.get("assembly") == "mean" else []))


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, dest="command")
    running = commands.add_parser("run")
    running.add_argument("graphs", nargs="*", metavar="GRAPH")
    running.add_argument("--data-dir", type=Path, default=Path("../shared/data"))
    running.add_argument("-o", "--output", type=Path, required=True)
    running.add_argument("--seeds", type=int, default=3)
    running.add_argument("--methods", nargs="+", help="only these")
    running.add_argument("--scorer", choices=("vectors", "auto"), default="vectors")
    showing = commands.add_parser("table")
    showing.add_argument("lines", type=Path)
    showing.add_argument("--brief", action="store_true", help="fewer columns")
    comparing = commands.add_parser("scorers")
    comparing.add_argument("lines", type=Path, nargs="+")
    options = parser.parse_args()
    if options.command == "run":
        run(options)
    elif options.command == "scorers":
        print(scorer_table([json.loads(line) for path in options.lines for line in path.read_text().splitlines()]))
    else:
        rows = [json.loads(line) for line in options.lines.read_text().splitlines()]
        print(brief_table(rows) if options.brief else table(rows))


if __name__ == "__main__":
    main()
