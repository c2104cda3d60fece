r"""Several ranks against one process: how much faster, with the same losses and vectors, and how much less memory.

Every job is a process of its own, or one for each rank under torchrun, with one thread each. Prints one JSON line for
each graph and preset; the table goes to stderr. "wall" is by the clock, the median of all but the first epochs, and
"undisturbed" the tenth part of these that was quickest; "cpu" is what the busiest rank computes, and so what the clock
would say if nobody else used the machine and messages took no time. "others" is how many cores other processes kept
busy meanwhile: wall means nothing unless it is near 0. "limit" is what two ranks could reach on this machine: twice the
speed of one process, divided by how much two processes that have nothing to do with each other slow each other down.

    python benchmarks/ranks.py --datasets sbm-large,cora-ml --presets paper,default --epochs 100 --repeat 3
    python benchmarks/ranks.py --memory --presets default --epochs 2 \
        --datasets npm_codep --patches 16 --partition fennel
    python benchmarks/ranks.py --memory --presets default --epochs 3 --datasets STORE --ranks 2,4
    python benchmarks/ranks.py --memory --presets default --epochs 3 --datasets STORE --ranks 2,4 \
        --limits 6GB,3.85GB,2.55GB
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from machine import DATA, describe_machine, load_graph, progress

Row = dict[str, Any]
COUNTED_EPOCHS = 3  # in which ends of pairs are counted; they are not timed


def train_here(dataset: str, settings: Row, data: Path, folder: Path) -> None:
    """The work of one process: train, and leave clocks, losses, vectors and message counts in the folder."""
    from l2g2g.config import make_config
    from l2g2g.parallel.communicator import LOCAL, Place, join_ranks
    from l2g2g.parallel.node_table import NodeTable
    from l2g2g.runs.evaluate import evaluate_graph

    place = Place.read(os.environ)
    rank = 0 if place is None else place.rank
    ticks: list[tuple[float, float, float]] = []
    foreign: list[int] = []
    request = NodeTable.request

    def counted(self: NodeTable, wanted: Any, count: int) -> Any:
        """Count the ends of this rank's pairs that another rank owns."""
        asked, total = request(self, wanted, count)
        if len(foreign) < COUNTED_EPOCHS and not self.has_all:
            foreign.append(sum(asked.lengths) - asked.lengths[self.communicator.rank])
        return asked, total

    NodeTable.request = counted  # type: ignore[method-assign]
    with nullcontext(LOCAL) if place is None else join_ranks(place, timeout=300) as communicator:
        graph = load_graph(dataset, data)
        config = make_config(**settings)
        _, run = evaluate_graph(
            graph,
            config,
            on_epoch=lambda _: ticks.append((time.perf_counter(), time.process_time(), busy_seconds())),
            communicator=communicator,
        )
    walls, cpus, busy = np.diff(np.array(ticks), axis=0)[COUNTED_EPOCHS:].T
    overlaps, patch_set = run.patch_set.overlaps, run.patch_set
    found = {
        "wall": float(np.median(walls)),
        "undisturbed": float(np.quantile(walls, 0.1)),
        "cpu": float(np.median(cpus)),
        "window": [float(walls.sum()), float(cpus.sum()), float(busy.sum())],
        "total": sum(spent for stage, spent in run.seconds.items() if stage not in ("epoch_median", "synchronise")),
        "foreign_ends": float(np.mean(foreign)) if foreign else 0.0,
        "messages": run.messages,
        "num_parameters": sum(each.numel() for each in run.trained.model.parameters()),
        "num_pairs": overlaps.num_pairs,
        "num_shared": int(overlaps.sizes.sum()),
        "num_nodes": patch_set.num_nodes,
        "dim": config.dim,
    }
    (folder / f"{rank}.json").write_text(json.dumps(found))
    if rank == 0:
        np.savez(folder / "result.npz", losses=np.array(run.trained.history.losses), embedding=run.embedding)


def busy_seconds() -> float:
    """CPU seconds that all processes of this machine have taken."""
    user, nice, system = map(int, Path("/proc/stat").read_text().split(maxsplit=4)[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def cores_of_others(ranks: list[Row]) -> float:
    """Cores that other processes kept busy while the ranks trained."""
    wall, _, busy = ranks[0]["window"]
    return max(0.0, busy - sum(each["window"][1] for each in ranks)) / wall


def run_job(num_ranks: int, dataset: str, settings: Row, options: argparse.Namespace) -> tuple[list[Row], Any]:
    """(what every rank found, result) of one job."""
    with tempfile.TemporaryDirectory(prefix="l2g2g-ranks-") as folder:
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(num_ranks)]
        call = [sys.executable, *(launcher if num_ranks > 1 else []), __file__]
        call += ["--child", json.dumps([dataset, settings]), "--folder", folder, "--data-dir", str(options.data_dir)]
        threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        subprocess.run(call, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **threads})
        found = [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(num_ranks)]
        with np.load(Path(folder) / "result.npz") as result:
            return found, dict(result)


def compare(dataset: str, preset: str, options: argparse.Namespace) -> Row:
    """One row: the best clocks of all turns, differences, bytes beside formulas."""
    settings = {"method": options.method, "preset": preset, "epochs": options.epochs, "threads": 1}
    settings |= {"patches": options.patches, "patience": 0}
    ones, twos, pairs = [], [], []
    for _ in range(options.repeat):  # in turn, so that all meet the same machine
        ones.append(run_job(1, dataset, settings, options))
        twos.append(run_job(2, dataset, settings, options))
        with ThreadPoolExecutor(2) as pool:  # two processes that have nothing to do with each other
            pairs.append(
                [found[0] for found, _ in pool.map(lambda _: run_job(1, dataset, settings, options), range(2))]
            )
    one_result, (two, two_result) = ones[0][1], twos[0]
    clocks = {}
    for clock in ("wall", "undisturbed", "cpu", "total"):
        alone = min(found[0][clock] for found, _ in ones)
        shared = min(max(each[clock] for each in found) for found, _ in twos)
        beside = min(max(each[clock] for each in pair) for pair in pairs)
        clocks[clock] = {"one": alone, "two": shared, "faster": alone / shared, "limit": 2 * alone / beside}
    return {
        "dataset": dataset,
        "preset": preset,
        "method": options.method,
        "epochs": options.epochs,
        "seconds": clocks,
        "others": [max(cores_of_others(found) for found, _ in jobs) for jobs in (ones, twos)],
        "loss_difference": float(np.abs(one_result["losses"] - two_result["losses"]).max()),
        "embedding_difference": float(np.abs(one_result["embedding"] - two_result["embedding"]).max()),
        "largest_coordinate": float(np.abs(one_result["embedding"]).max()),
        "bytes": compare_bytes(two),
    }


def compare_memory(dataset: str, preset: str, options: argparse.Namespace) -> Row:
    """One row: peak memory of one process, and of every rank, by the command that users run.

    On all edges; with limits, as a graph that needs them is embedded: with validations, on the patches of its store.
    Beside it what interpreter and libraries take of it, and how far vectors are from those of one process.
    """
    libraries = measure_libraries()  # first: the peak that the system tells of a child is at least its parent's size
    found, vectors = {}, {}
    numbers = [1, *map(int, options.ranks.split(","))]
    limits = options.limits.split(",") if options.limits else [None] * len(numbers)
    for num_ranks, limit in zip(numbers, limits, strict=True):
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(num_ranks)]
        with tempfile.TemporaryDirectory(prefix="l2g2g-ranks-") as folder:
            call = [sys.executable, *(launcher if num_ranks > 1 else []), "-m", "l2g2g", "embed", dataset]
            output = Path(folder) / "vectors"
            call += ["--data-dir", str(options.data_dir), "-o", f"{output}/", "--json", "--threads", "1"]
            call += ["--method", options.method, "--preset", preset, "--epochs", str(options.epochs)]
            if limit is None:
                call += ["--patches", str(options.patches), "--partition", options.partition, "--no-validation"]
            else:
                call += ["--memory", limit]
            threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
            done = subprocess.run(call, check=True, capture_output=True, text=True, env={**os.environ, **threads})
            vectors[num_ranks] = read_parts(output)
        row = json.loads(done.stdout)
        # That of the first rank once more: it also writes what the job leaves.
        found[num_ranks] = [row["peak_memory_bytes"], *row.get("rank_memory_bytes", [])[1:]]
    (one,) = found[1]
    return {
        "dataset": dataset,
        "preset": preset,
        "method": options.method,
        "patches": options.patches,
        "partition": options.partition,
        "limits": options.limits,
        "one_process": one,
        "libraries": libraries,
        "ranks": {size: found[size] for size in numbers[1:]},
        "share": {size: [peak / one for peak in found[size]] for size in numbers[1:]},
        "share_without_libraries": {
            size: [(peak - libraries) / (one - libraries) for peak in found[size]] for size in numbers[1:]
        },
        "vectors_off": {
            size: float(np.linalg.norm(vectors[size] - vectors[1]) / np.linalg.norm(vectors[1])) for size in numbers[1:]
        },
    }


def read_parts(folder: Path) -> np.ndarray:
    """(num_nodes, dim) the vectors of a folder of parts."""
    tables = [pq.read_table(part).column(1).combine_chunks() for part in sorted(folder.glob("*.parquet"))]
    return np.concatenate([table.flatten().to_numpy().reshape(len(table), -1) for table in tables])


def measure_libraries() -> int:
    """Peak memory of a process that only imports what a rank does."""
    code = "import torch.distributed, l2g2g.cli.embed, l2g2g.runs.embed, l2g2g.runs.finished; "
    code += "from l2g2g.runs.environment import peak_memory; print(peak_memory())"
    return int(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


def compare_bytes(ranks: list[Row]) -> Row:
    """Counted bytes beside the formulas of messages, where a message was sent."""
    first, sent = ranks[0], {kind: count["bytes"] for kind, count in ranks[0]["messages"].items()}
    dim, pairs, shared = first["dim"], first["num_pairs"], first["num_shared"]
    formulas = {
        "gradient": (sent.get("gradient", 0) / len(ranks), 4 * first["num_parameters"]),
        "pairs": (
            sum(sent.get(f"pair_{what}", 0) for what in ("requests", "rows", "gradients")),
            2 * 4 * dim * sum(each["foreign_ends"] for each in ranks),
        ),
        "overlaps (at most)": (sent.get("overlaps", 0), 4 * shared * dim),
        "alignment": (sent.get("alignment", 0), 4 * pairs * (dim * dim + dim)),
        "end (at most)": (
            sent.get("node_sums", 0) + sent.get("node_means", 0),
            4 * dim * (first["num_nodes"] + shared),
        ),
    }
    return {
        kind: {"counted": counted, "formula": formula, "ratio": counted / formula}
        for kind, (counted, formula) in formulas.items()
        if counted
    }


def show(rows: list[Row]) -> None:
    if "share" in rows[0]:
        shares = "share of one process", "without libraries"
        table = Table("graph", "preset", "one process", "libraries", "each rank", *shares, "vectors off")
        for row in rows:
            one, libraries = (f"{row[name] / 1e9:.2f} GB" for name in ("one_process", "libraries"))
            for size, peaks in row["ranks"].items():
                each = ", ".join(f"{peak / 1e9:.2f}" for peak in peaks)
                parts = [", ".join(f"{x:.2f}" for x in row[n][size]) for n in ("share", "share_without_libraries")]
                off = f"{row['vectors_off'][size]:.0e}"
                table.add_row(Path(row["dataset"]).name, row["preset"], one, libraries, f"{each} GB", *parts, off)
        Console(stderr=True, width=160).print(table)
        return
    clocks = "epoch, 1 rank", "2 ranks", "faster", "limit", "undisturbed", "limit", "by cpu", "others"
    table = Table("graph", "preset", *clocks, "loss off", "vectors off", "bytes")
    for row in rows:
        wall, cpu = row["seconds"]["wall"], row["seconds"]["cpu"]
        ratios = ", ".join(f"{kind} {each['ratio']:.2f}" for kind, each in row["bytes"].items())
        table.add_row(
            row["dataset"],
            row["preset"],
            f"{1e3 * wall['one']:.1f} ms",
            f"{1e3 * wall['two']:.1f} ms",
            *(
                f"{row['seconds'][clock][what]:.2f}"
                for clock in ("wall", "undisturbed")
                for what in ("faster", "limit")
            ),
            f"{cpu['faster']:.2f}",
            ", ".join(f"{cores:.2f}" for cores in row["others"]),
            f"{row['loss_difference']:.0e}",
            f"{row['embedding_difference']:.0e} of {row['largest_coordinate']:.1f}",
            ratios,
        )
    Console(stderr=True, width=160).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default="sbm-large,cora-ml")
    parser.add_argument("--presets", default="paper,default")
    parser.add_argument("--method", default="l2g2g")
    parser.add_argument("--patches", type=int, default=10)
    parser.add_argument("--partition", default="metis", help="with --memory")
    parser.add_argument("--ranks", default="4", help="with --memory, some numbers; the clocks are of two")
    parser.add_argument("--memory", action="store_true", help="peak memory instead of clocks")
    parser.add_argument("--limits", help="with --memory, that of one process and of each number of ranks: 6GB,4GB")
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--data-dir", type=Path, default=DATA)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        dataset, settings = json.loads(options.child)
        train_here(dataset, settings, options.data_dir, options.folder)
        return
    rows = []
    for dataset in options.datasets.split(","):
        for preset in options.presets.split(","):
            progress(f"{dataset} {preset}")
            measure = compare_memory if options.memory else compare
            rows.append({**measure(dataset, preset, options), "machine": describe_machine()})
            print(json.dumps(rows[-1]), flush=True)
    show(rows)


if __name__ == "__main__":
    main()
