"""Seconds of ours until a peer's own AUC is reached, beside the peer's seconds, in one run.

Peers run in environments of their own (peer_process.py) on the same training graphs, with the same number of threads;
one that does not install is skipped with the reason. Seconds count from the graph in memory to the embedding: not
imports, compilation or files. Ours: a whole training with validation pairs, which says in which epoch they first have
an AUC at least as high as the peer's (the higher one of its validation and test AUC, so that no test pair is looked
at to stop); then trainings of as many epochs, measured from start to end, their validations counted. Peer
and ours take turns; medians of the repeats (node2vec takes minutes and has repeats of its own).

    python benchmarks/time_to_auc.py
    python benchmarks/time_to_auc.py --preset default --set method=gae --set validate_every=1

Prints JSON lines; the table goes to stderr.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from l2g2g.config import make_config
from l2g2g.evaluation.links import evaluate_links
from l2g2g.graphs.splits import LinkSplit, split_links
from l2g2g.runs.run import Run
from l2g2g.runs.training import run_split
from machine import DATA, describe_machine, load_graph, progress
from peer_process import PEERS, default_environments
from peers import first_epoch_reaching, measure_peer

GRAPHS = ("cora-ml", "amazon-photo", "pubmed")
LIMITS = {"node2vec": 1 / 20, "prone": 10.0}  # ours over theirs, at most
Row = dict[str, Any]


def train(split: LinkSplit, options: argparse.Namespace, epochs: int | None = None) -> tuple[float, Run, list[float]]:
    """(seconds from the graph to the embedding, the run, seconds at the end of every epoch)."""
    given = {"method": "l2g2g", "patches": 10, "seed": options.seed, "threads": options.threads, **options.settings}
    config = make_config(preset=options.preset, **(given | ({} if epochs is None else {"epochs": epochs})))
    stamps: list[float] = []
    with threadpool_limits(options.threads or None):
        started = time.perf_counter()
        run = run_split(split, config, on_epoch=lambda _: stamps.append(time.perf_counter() - started))
        return time.perf_counter() - started, run, stamps


def score_test(run: Run, split: LinkSplit) -> float:
    """AUC of a run on the test pairs."""
    assert split.test is not None
    return evaluate_links(run.embedding, split.test, run.trained.model.decoder.score).auc


def measure_graph(split: LinkSplit, options: argparse.Namespace) -> list[Row]:
    """A row for the training of ours, and one for each peer."""
    name = split.train.name
    train(split, options, epochs=2)  # compiles, loads; not counted
    seconds, run, stamps = train(split, options)
    trace = [(epoch, stamps[epoch - 1], auc) for epoch, auc in run.trained.history.validations]
    shared: Row = {"dataset": name, "seed": options.seed}
    whole = {**shared, "method": "ours", "seconds": seconds, "auc": score_test(run, split), "trace": trace}
    rows = [whole]
    for peer in options.peers:
        progress(f"{name}: {peer}")
        rows.append({**shared, "method": peer, **reach(peer, split, trace, options)})
    return rows


def reach(peer: str, split: LinkSplit, trace: list[tuple[int, float, float]], options: argparse.Namespace) -> Row:
    """The peer's figures and ours at its AUC."""
    first = measure_peer(peer, options.dim, options.seed, split, options)
    if "skipped" in first:
        return {"skipped": first["skipped"]}
    target = max(first["auc"], first["validation_auc"])
    row: Row = {key: first[key] for key in ("package", "auc", "validation_auc", "scored_by")} | {"target": target}
    epoch = first_epoch_reaching([(at, auc) for at, _, auc in trace], target)
    theirs, ours = [first["seconds"]], []
    for turn in range(options.repeats):
        if turn and turn < (options.slow_repeats if peer == "node2vec" else options.repeats):
            theirs.append(measure_peer(peer, options.dim, options.seed, split, options)["seconds"])
        if epoch is not None:
            seconds, run, _ = train(split, options, epochs=epoch)
            ours.append(seconds)
            row["our_auc"] = score_test(run, split)
            row["reached"] = max(auc for _, auc in run.trained.history.validations) >= target
    row |= {"peer_seconds": median(theirs), "peer_range": [min(theirs), max(theirs)], "epoch": epoch}
    if ours:
        row |= {"our_seconds": median(ours), "our_range": [min(ours), max(ours)]}
        row["ours_over_theirs"] = median(ours) / median(theirs)
        if peer in LIMITS:
            row |= {"limit": LIMITS[peer], "within_limit": row["ours_over_theirs"] <= LIMITS[peer]}
    return row | {"load_average": os.getloadavg()[0]}


def render(rows: list[Row]) -> Table:
    """One line per graph and peer."""
    table = Table(title="Time to each peer's AUC, from the graph in memory to the embedding (medians)")
    for name in ("graph", "peer", "its AUC %", "its s", "our epochs", "our AUC %", "our s", "ours / theirs", "limit"):
        table.add_column(name, justify="right")
    for row in rows:
        if row["method"] == "ours" or "skipped" in row:
            continue
        texts = [f"{100 * row['auc']:.2f}", f"{row['peer_seconds']:.3f}"]
        if row["epoch"] is None:
            texts += ["not reached"]
        else:
            limit = f"{row['limit']:.3g} {'ok' if row['within_limit'] else 'MISSED'}" if "limit" in row else "–"
            texts += [str(row["epoch"]), f"{100 * row['our_auc']:.2f}", f"{row['our_seconds']:.3f}"]
            texts += [f"{row['ours_over_theirs']:.3g}", limit]
        table.add_row(row["dataset"], row["method"], *texts)
    return table


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Options of the command."""

    def names(text: str) -> list[str]:
        return [part.strip() for part in text.split(",") if part.strip()]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=names, default=list(GRAPHS))
    parser.add_argument("--data-dir", type=Path, default=DATA)
    parser.add_argument("--peers", type=names, default=["prone", "pycleora", "node2vec"], help=f"of {','.join(PEERS)}")
    parser.add_argument("--preset", default="default", help="of ours")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of ours; repeatable"
    )
    parser.add_argument("--dim", type=int, default=16, help="of the peers' vectors")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="of every method")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--slow-repeats", type=int, default=1, help="of node2vec")
    parser.add_argument("--timeout", type=float, default=3600, help="seconds until a peer is given up")
    parser.add_argument("--environments", type=Path, default=default_environments(), help="folder of the peers'")
    options = parser.parse_args(arguments)
    options.settings = dict(read_setting(text, parser) for text in options.set)
    for peer in options.peers:
        if peer not in PEERS:
            parser.error(f"unknown peer '{peer}'; choose from {', '.join(PEERS)}")
    return options


def read_setting(text: str, parser: argparse.ArgumentParser) -> tuple[str, Any]:
    """'name=value' with the value as JSON, or else as it stands."""
    name, equals, value = text.partition("=")
    if not equals:
        parser.error(f"--set {text}: write NAME=VALUE")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


def main(arguments: list[str] | None = None) -> None:
    """Parse, measure, print."""
    options = parse(arguments)
    print(
        json.dumps({"machine": describe_machine(), "preset": options.preset, "settings": options.settings}), flush=True
    )
    rows: list[Row] = []
    for name in options.graphs:
        graph = load_graph(name, options.data_dir)
        if isinstance(graph, str):
            found = [{"dataset": name, "method": "ours", "skipped": graph}]
        else:
            found = measure_graph(split_links(graph, seed=options.seed), options)
        for row in found:
            print(json.dumps(row), flush=True)
            if "skipped" in row:
                progress(f"{name}, {row['method']} skipped: {row['skipped']}")
        rows += found
    Console(stderr=True, width=None if sys.stderr.isatty() else 160).print(render(rows))


if __name__ == "__main__":
    main()
