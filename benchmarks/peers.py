"""Link prediction of peers beside ours, on the same held-out splits in one run, and our time to reach their AUC.

Each peer runs in a virtual environment of its own; one that does not install is skipped and the reason printed.
Seconds count from the graph in memory to the embedding, for peers and for ours: not imports, compilation, files or
scoring. All use the same number of threads. Vectors of peers are scored in the way (inner product, cosine or a
logistic regression on elementwise products) that validation pairs prefer.

    python benchmarks/peers.py --results docs/results/peers.jsonl
    python benchmarks/peers.py --results docs/results/peers.jsonl --methods ours --again    # after a change of ours
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from threadpoolctl import threadpool_limits

from l2g2g.config import make_config
from l2g2g.evaluation.links import evaluate_links
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.read import read_graph
from l2g2g.graphs.splits import LinkSplit, split_links
from l2g2g.runs.run import Run
from l2g2g.runs.training import run_split
from peer_process import PEERS, PeerSkipped, default_environments, run_peer
from peer_scores import score_peer

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
OURS = ("default", "accurate")
Row = dict[str, Any]
KEY = ("dataset", "method", "dim", "seed", "target", "target_dim")


class Results:
    """Finished cells, by key; each new one is appended to the file at once, and so a run can be taken up again."""

    def __init__(self, path: Path | None, *, as_json: bool) -> None:
        self.path, self.as_json = path, as_json
        self.rows: dict[tuple, Row] = {}
        if path is not None and path.exists():
            for line in path.read_text().splitlines():
                row = json.loads(line)
                self.rows[self.key(row)] = row

    @staticmethod
    def key(row: Row) -> tuple:
        """What a cell is about."""
        return tuple(row.get(name) for name in KEY)

    def forget(self, unwanted: Callable[[Row], bool]) -> None:
        """Drop rows, in the file too."""
        kept = {key: row for key, row in self.rows.items() if not unwanted(row)}
        if self.path is not None and len(kept) < len(self.rows):
            self.path.write_text("".join(json.dumps(row) + "\n" for row in kept.values()))
        self.rows = kept

    def has(self, **cell: Any) -> bool:
        """Whether a cell is finished."""
        return self.key(cell) in self.rows

    def add(self, row: Row) -> None:
        """Keep, write and print a finished cell."""
        self.rows[self.key(row)] = row
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(json.dumps(row) + "\n")
        if self.as_json:
            print(json.dumps(row), flush=True)


def measure_peer(name: str, dim: int | None, seed: int, split: LinkSplit, options: argparse.Namespace) -> Row:
    """One cell of a peer: scores and seconds, or the reason why there are none."""
    cell: Row = {"dataset": split.train.name, "method": name, "dim": dim, "seed": seed}
    try:
        found = run_peer(
            PEERS[name],
            split.train,
            dim=dim or 0,
            seed=seed,
            threads=options.threads,
            environments=options.environments,
            timeout=options.timeout,
        )
    except PeerSkipped as reason:
        return {**cell, "skipped": str(reason)}
    scores = score_peer(found.vectors, split, seed=seed)
    return {
        **cell,
        "package": f"{PEERS[name].packages[0]} {found.version}",
        "auc": scores.test.auc,
        "ap": scores.test.average_precision,
        "validation_auc": scores.validation_auc,
        "scored_by": scores.chosen,
        "auc_by_way": scores.test_auc_by_way,
        "seconds": found.seconds,
        "cpu_seconds": found.cpu_seconds,
        **circumstances(options.threads),
    }


def train_ours(split: LinkSplit, preset: str, seed: int, threads: int, epochs: int | None = None) -> tuple[Row, Run]:
    """Train, and measure from the graph in memory to the embedding; validation during training counts."""
    config = make_config("l2g2g", preset, patches=10, seed=seed, threads=threads, epochs=epochs)
    with threadpool_limits(threads):
        wall, processor = time.perf_counter(), time.process_time()
        run = run_split(split, config)
        spent = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - processor}
    assert split.test is not None
    scores = evaluate_links(run.embedding, split.test, run.trained.model.decoder.score)
    validations = [score for _, score in run.trained.history.validations]
    row = {
        "dataset": split.train.name,
        "method": f"l2g2g {preset}",
        "dim": config.dim,
        "seed": seed,
        "auc": scores.auc,
        "ap": scores.average_precision,
        "validation_auc": max(validations, default=None),
        "epochs": run.trained.history.num_epochs,
        **spent,
        **circumstances(threads),
    }
    return row, run


def circumstances(threads: int) -> Row:
    """What a reader needs to judge seconds."""
    return {
        "threads": threads,
        "load_average": os.getloadavg()[0],
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }


def first_epoch_reaching(validations: list[tuple[int, float]], target: float) -> int | None:
    """The first validated epoch whose AUC is at least the target."""
    return next((epoch for epoch, auc in validations if auc >= target), None)


def measure_ours(preset: str, seed: int, split: LinkSplit, options: argparse.Namespace) -> Row:
    """The cell of ours, with its validation history."""
    train_ours(split, preset, seed, options.threads, epochs=2)  # compiles, loads; not counted
    row, run = train_ours(split, preset, seed, options.threads)
    return {**row, "validations": run.trained.history.validations}


def measure_reaching(whole: Row, preset: str, split: LinkSplit, results: Results, options: argparse.Namespace) -> None:
    """For each peer a cell of ours: a training that ends where its validation AUC reaches the peer's.

    To reach is to have, on validation pairs, the higher one of the peer's validation and test AUC.
    The history of the whole run says in which epoch that is; a run of as many epochs is measured from start to end.
    """
    cell = {name: whole[name] for name in ("dataset", "method", "dim", "seed")}
    stopped: dict[int, Row] = {}
    for peer in peer_rows(results, whole["dataset"], whole["seed"]):
        target = max(peer["auc"], peer["validation_auc"])
        aim = {"target": peer["method"], "target_dim": peer["dim"]}
        if results.has(**cell, **aim):
            continue
        epoch = first_epoch_reaching(whole["validations"], target)
        if epoch is None:
            results.add({**cell, **aim, "target_auc": target, "reached": False})
            continue
        if epoch not in stopped:
            progress(f"{whole['dataset']}, seed {whole['seed']}: l2g2g {preset} until epoch {epoch}")
            train_ours(split, preset, whole["seed"], options.threads, epochs=2)  # not counted
            stopped[epoch], _ = train_ours(split, preset, whole["seed"], options.threads, epochs=epoch)
        again = stopped[epoch]
        results.add({**again, **aim, "target_auc": target, "reached": again["validation_auc"] >= target})


def peer_rows(results: Results, dataset: str, seed: int) -> list[Row]:
    """Finished cells of peers on this split."""
    return [
        row
        for row in results.rows.values()
        if row["dataset"] == dataset and row["seed"] == seed and row["method"] in PEERS and "skipped" not in row
    ]


def run_cells(graph: Graph, options: argparse.Namespace, results: Results) -> None:
    """Every wanted cell of a graph that is not finished yet."""
    for seed in options.seeds:
        split = split_links(graph, seed=seed)
        for name, dim in peer_cells(options):
            if not results.has(dataset=graph.name, method=name, dim=dim, seed=seed):
                progress(f"{graph.name}, seed {seed}: {name}, dim {dim}")
                results.add(measure_peer(name, dim, seed, split, options))
        for preset in options.presets if options.methods != "peers" else ():
            cell = {
                "dataset": graph.name,
                "method": f"l2g2g {preset}",
                "dim": make_config(preset=preset).dim,
                "seed": seed,
            }
            if not results.has(**cell):
                progress(f"{graph.name}, seed {seed}: l2g2g {preset}")
                results.add(measure_ours(preset, seed, split, options))
            if preset in options.reach:
                measure_reaching(results.rows[results.key(cell)], preset, split, results, options)


def peer_cells(options: argparse.Namespace) -> Iterator[tuple[str, int | None]]:
    """(peer, dim) pairs that are wanted; no dim for a peer that cannot run at all."""
    if options.methods != "ours":
        for name in options.peers:
            yield from ((name, dim) for dim in ([None] if PEERS[name].missing else options.dims))


def progress(message: str) -> None:
    """Say on stderr what is being done."""
    print(message, file=sys.stderr, flush=True)


def percent(values: list[float]) -> str:
    """Mean ± deviation in percent."""
    scaled = [100 * value for value in values]
    return f"{mean(scaled):.2f}" + (f" ± {stdev(scaled):.2f}" if len(scaled) > 1 else "")


def grouped(rows: list[Row], *names: str) -> dict[tuple, list[Row]]:
    """Rows that agree in these names."""
    groups: dict[tuple, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(name) for name in names), []).append(row)
    return groups


def in_order(rows: list[Row]) -> list[Row]:
    """By graph, then peers as listed, then ours; a run taken up again has its lines in any order."""
    places = {name: place for place, name in enumerate(PEERS)}

    def place(row: Row) -> tuple:
        peer, dim = row.get("target", row["method"]), row.get("target_dim", row["dim"])
        return row["dataset"], places.get(peer, len(places)), dim or 0, row["dim"] or 0, row["seed"]

    return sorted(rows, key=place)


def accuracy_table(rows: list[Row]) -> str:
    """AUC, AP and time of every method, graph by graph."""
    lines = [
        "| graph | method | dim | AUC % | AP % | scored by | AUC % by cosine | seeds | seconds | CPU seconds |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (dataset, method, dim), cells in grouped(rows, "dataset", "method", "dim").items():
        done = [cell for cell in cells if "skipped" not in cell]
        name = f"{method} ({done[0]['package']})" if done and "package" in done[0] else method
        if done:
            ways = ", ".join(dict.fromkeys(cell.get("scored_by", "its decoder") for cell in done))
            texts = [percent([cell["auc"] for cell in done]), percent([cell["ap"] for cell in done]), ways]
            cosine = [cell["auc_by_way"]["cosine"] for cell in done if "auc_by_way" in cell]
            texts += [percent(cosine) if cosine else "–", str(len(done))]
            texts += [f"{mean(cell[clock] for cell in done):.2f}" for clock in ("seconds", "cpu_seconds")]
        else:
            texts = ["–", "–", f"skipped: {cells[0]['skipped']}", "–", "0", "–", "–"]
        lines.append("| " + " | ".join([dataset, name, str(dim or "–"), *texts]) + " |")
    return "\n".join(lines)


def target_table(rows: list[Row], peers: list[Row]) -> str:
    """Our time to reach each peer's AUC, over the seeds on which it was reached."""
    theirs = {(row["dataset"], row["method"], row["dim"], row["seed"]): row for row in peers if "skipped" not in row}
    lines = [
        "| graph | peer | dim | its AUC % | its seconds | ours | reached | our AUC % then | our seconds "
        "| ours / theirs | by CPU time |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for (dataset, peer, dim, method), cells in grouped(rows, "dataset", "target", "target_dim", "method").items():
        pairs = [(cell, theirs.get((dataset, peer, dim, cell["seed"]))) for cell in cells]
        known = [(cell, other) for cell, other in pairs if other is not None]
        reached = [(cell, other) for cell, other in known if cell["reached"]]
        if not known:
            continue
        texts = [percent([other["auc"] for _, other in known]), f"{mean(other['seconds'] for _, other in known):.2f}"]
        texts += [method, f"{len(reached)} of {len(known)}"]
        if reached:
            texts += [
                percent([cell["auc"] for cell, _ in reached]),
                f"{mean(cell['seconds'] for cell, _ in reached):.2f}",
            ]
            for clock in ("seconds", "cpu_seconds"):
                ratio = sum(cell[clock] for cell, _ in reached) / sum(other[clock] for _, other in reached)
                texts.append(f"{ratio:.3g}")
        else:
            texts += ["–"] * 4
        lines.append("| " + " | ".join([dataset, peer, str(dim), *texts]) + " |")
    return "\n".join(lines)


def print_tables(rows: list[Row]) -> None:
    """Both tables."""
    rows = in_order(rows)
    plain = [row for row in rows if "target" not in row]
    targets = [row for row in rows if "target" in row]
    print(accuracy_table(plain))
    if targets:
        print("\n" + target_table(targets, [row for row in plain if row["method"] in PEERS]))


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Options of the command."""

    def names(text: str) -> list[str]:
        return [part.strip() for part in text.split(",") if part.strip()]

    def numbers(text: str) -> list[int]:
        return [int(part) for part in names(text)]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=names, default=["cora-ml", "pubmed", "amazon-photo"])
    parser.add_argument("--data-dir", type=Path, default=DATA, help="folder of the .npz graphs")
    parser.add_argument("--seeds", type=numbers, default=[0, 1, 2], help="for example 0,1,2")
    parser.add_argument("--methods", choices=("all", "ours", "peers"), default="all")
    parser.add_argument("--peers", type=names, default=list(PEERS), help=f"of {','.join(PEERS)}")
    parser.add_argument("--presets", type=names, default=list(OURS), help="of ours")
    parser.add_argument("--reach", type=names, default=["default"], help="presets timed to each peer's AUC")
    parser.add_argument("--dims", type=numbers, default=[16, 128], help="of the peers' vectors")
    parser.add_argument("--threads", type=int, default=1, help="of every method")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds until a peer is given up")
    parser.add_argument("--environments", type=Path, default=default_environments(), help="folder of the peers'")
    parser.add_argument("--results", type=Path, help="file of JSON lines: finished cells are kept and not done again")
    parser.add_argument("--again", action="store_true", help="measure the chosen methods anew, even if finished")
    parser.add_argument("--json", action="store_true", help="JSON lines instead of tables")
    options = parser.parse_args(arguments)
    for peer in options.peers:
        if peer not in PEERS:
            parser.error(f"unknown peer '{peer}'; choose from {', '.join(PEERS)}")
    return options


def is_wanted(row: Row, graphs: list[str], options: argparse.Namespace) -> bool:
    """Whether a row is of a cell that this command would measure, or rests on one."""
    if row["dataset"] not in graphs or row["seed"] not in options.seeds:
        return False
    cells = set(peer_cells(options))
    if (row.get("target"), row.get("target_dim")) in cells:
        return True
    if row["method"] in PEERS:
        return (row["method"], row["dim"]) in cells
    return options.methods != "peers" and row["method"].removeprefix("l2g2g ") in options.presets


def main(arguments: list[str] | None = None) -> None:
    """Parse, measure what is missing, print."""
    options = parse(arguments)
    results = Results(options.results, as_json=options.json)
    graphs = [read_graph(name, data_dir=options.data_dir) for name in options.graphs]
    measured = [graph.name for graph in graphs]
    # What was skipped is tried again: the reason may be gone.
    results.forget(lambda row: is_wanted(row, measured, options) and (options.again or "skipped" in row))
    for graph in graphs:
        run_cells(graph, options, results)
    if not options.json:
        print_tables(list(results.rows.values()))


if __name__ == "__main__":
    main()
