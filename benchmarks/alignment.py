"""Measure the alignment: `python benchmarks/alignment.py speed|noise|tables|routes|recovery|runs`; JSON lines."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from l2g2g.alignment.align import align
from l2g2g.alignment.frame import Frame, apply_frame, assemble
from l2g2g.alignment.hierarchy import chain_rotations, grow_forest
from l2g2g.alignment.laplacian import PatchLaplacian
from l2g2g.alignment.procrustes import PairMoments, measure_pairs, procrustes_maps
from l2g2g.alignment.solve import Problem, Settings, solve_frame, solve_translations
from l2g2g.alignment.synchronise import synchronise
from l2g2g.patches.overlap_index import OverlapIndex, index_overlaps

ROOT = Path(__file__).resolve().parent.parent


class Patches:
    """Patches of known truth: every pair of `edges` shares `shared` nodes of its own, every patch has `own` more."""

    def __init__(
        self,
        edges: np.ndarray,
        num_patches: int,
        dim: int,
        *,
        shared: int,
        own: int,
        seed: int = 0,
        noise: float = 0.0,
        centres: np.ndarray | None = None,
        dtype: Any = np.float64,
    ) -> None:
        generator = np.random.default_rng(seed)
        num_edges = len(edges)
        num_shared = num_edges * shared
        self.num_nodes = num_shared + num_patches * own
        self.truth = generator.normal(size=(self.num_nodes, dim))
        if centres is not None:
            owners = np.concatenate([centres[edges].mean(1).repeat(shared, 0), centres.repeat(own, 0)])
            self.truth *= 0.6
            self.truth[:, : centres.shape[1]] += owners
        rows = np.arange(num_shared).reshape(num_edges, shared)
        mine = [[] for _ in range(num_patches)]
        for edge, (i, j) in enumerate(edges.tolist()):
            mine[i].append(rows[edge])
            mine[j].append(rows[edge])
        private = num_shared + np.arange(num_patches * own).reshape(num_patches, own)
        self.nodes = [np.concatenate([private[i], *mine[i]]) for i in range(num_patches)]
        self.clean, self.coordinates = [], []
        for nodes in self.nodes:
            rotation = np.linalg.qr(generator.normal(size=(dim, dim)))[0]
            rotation[0] *= generator.choice([-1, 1])  # half of them reflections
            patch = (self.truth[nodes] - generator.normal(size=dim)) @ rotation.T
            self.clean.append(patch)
            noisy = patch + noise * patch.std(0).mean() * generator.normal(size=patch.shape) if noise else patch
            self.coordinates.append(noisy.astype(dtype))
        self.offsets = torch.from_numpy(np.cumsum([0] + [len(nodes) for nodes in self.nodes]))
        self.global_nodes = torch.from_numpy(np.concatenate(self.nodes))
        joined = coo_matrix((np.ones(num_edges), (edges[:, 0], edges[:, 1])), shape=(num_patches, num_patches))
        components = connected_components(joined, directed=False)[1]
        self.components = np.empty(self.num_nodes, dtype=np.int64)
        for nodes, component in zip(self.nodes, components, strict=True):
            self.components[nodes] = component

    def stacked(self) -> Tensor:
        return torch.from_numpy(np.concatenate(self.coordinates))

    def frame_error(self, frame: Frame) -> float:
        """Error of the transforms: truth against the noise-free patches brought into the frame."""
        clean = torch.from_numpy(np.concatenate(self.clean))
        return self.error(assemble(apply_frame(clean, self.offsets, frame), self.global_nodes, self.num_nodes))

    def size(self, embedding: Tensor) -> float:
        """Spread of an embedding relative to that of the truth; patches that contradict each other shrink it."""
        truth = torch.from_numpy(self.truth)
        return float((embedding - embedding.mean(0)).norm() / (truth - truth.mean(0)).norm())

    def error(self, embedding: Tensor) -> float:
        """Relative distance to the truth after the best rotation and shift of each connected part, its gauge."""
        found, truth = embedding.double(), torch.from_numpy(self.truth)
        gaps, size = 0.0, float((truth - truth.mean(0)).square().sum())
        for component in range(self.components.max() + 1):
            part = torch.from_numpy(self.components == component)
            mine, true = found[part] - found[part].mean(0), truth[part] - truth[part].mean(0)
            left, _, right = torch.linalg.svd(mine.T @ true)
            gaps += float((mine @ (left @ right) - true).square().sum())
        return float(np.sqrt(gaps / size))


def patch_graph(kind: str, num_patches: int, seed: int = 0) -> np.ndarray:
    """Pairs (num_pairs, 2) of a ring, a random tree, a grid, a random graph of mean degree 4, or a ring with chords."""
    generator = np.random.default_rng(seed)
    i = np.arange(num_patches)
    ring = np.stack([i, (i + 1) % num_patches], 1)
    tree = np.array([(j, generator.integers(0, j)) for j in range(1, num_patches)])
    if kind == "ring":
        edges = ring
    elif kind == "tree":
        edges = tree
    elif kind == "grid":
        width = max(1, int(np.sqrt(num_patches)))
        right, down = i[(i % width < width - 1) & (i + 1 < num_patches)], i[i + width < num_patches]
        edges = np.concatenate([np.stack([right, right + 1], 1), np.stack([down, down + width], 1)])
    else:
        base = tree if kind == "random" else ring
        edges = np.concatenate([base, generator.integers(0, num_patches, size=(num_patches, 2))])
    edges = np.unique(np.sort(edges[edges[:, 0] != edges[:, 1]], axis=1), axis=0)
    return edges


def geometric_patches(
    num_patches: int, dim: int, seed: int, noise: float, neighbours: int = 8, shared: int | None = None
) -> Patches:
    """Patches around random points of a square, each joined to its nearest ones."""
    shared = 2 * (dim + 1) + 6 if shared is None else shared
    generator = np.random.default_rng(seed)
    centres = generator.uniform(size=(num_patches, 2)) * np.sqrt(num_patches)
    distances = np.linalg.norm(centres[:, None] - centres, axis=-1)
    nearest = np.argsort(distances, axis=1)[:, 1 : neighbours + 1]
    edges = np.stack([np.repeat(np.arange(num_patches), neighbours), nearest.reshape(-1)], 1)
    edges = np.unique(np.sort(edges, axis=1), axis=0)
    return Patches(edges, num_patches, dim, shared=shared, own=40, seed=seed, noise=noise, centres=centres)


def chain_along_tree(coordinates: Tensor, offsets: Tensor, overlaps: OverlapIndex) -> Frame:
    """The baseline: pairwise Procrustes maps multiplied along the maximum-overlap spanning tree."""
    sizes, num_patches = offsets.diff(), len(offsets) - 1
    moments = measure_pairs(coordinates, overlaps)
    relative = procrustes_maps(moments, overlaps.sizes, "svd").relative
    forest = grow_forest(overlaps.edges, overlaps.sizes.double(), sizes)
    rotations = chain_rotations(forest, overlaps.edges, relative)
    used = forest.parent_pairs[forest.parent_pairs >= 0]
    in_tree = PairMoments(*(part[used] for part in vars(moments).values()))
    laplacian = PatchLaplacian(overlaps.edges[used], overlaps.sizes[used].double(), forest.roots, num_patches)
    scales = torch.ones(num_patches, dtype=torch.float64)
    return Frame(rotations, solve_translations(in_tree, rotations, scales, laplacian, forest, sizes), scales)


def median_seconds(run: Callable[[], Any], repeats: int) -> dict[str, float]:
    run()
    seconds, processor = [], []
    for _ in range(repeats):
        start, busy = time.perf_counter(), time.process_time()
        run()
        seconds.append(time.perf_counter() - start)
        processor.append(time.process_time() - busy)
    # Processor time tells a slow solver from a busy machine; with OMP_NUM_THREADS=1 it does not wait for others.
    times = {"median": statistics.median(seconds), "best": min(seconds), "worst": max(seconds)}
    return {**times, "processor": statistics.median(processor)}


def report(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def speed(options: argparse.Namespace) -> None:
    """Issue 3: align at most 0.2 s, refresh at most 15 ms, ten thousand patches at most 30 s."""
    edges = patch_graph("chords", 100)
    own = (1_000_000 - 64 * len(edges)) // 100
    for dtype, noise in (("float32", 0.0), ("float32", 0.1), ("float64", 0.1)):
        data = Patches(edges, 100, 16, shared=64, own=own, noise=noise, dtype=np.dtype(dtype))
        patches = list(zip(data.nodes, data.coordinates, strict=True))
        common = {"nodes": data.num_nodes, "patches": 100, "pairs": len(edges), "dtype": dtype, "noise": noise}
        seconds = median_seconds(lambda patches=patches: align(patches), options.repeats)
        report(what="align from raw arrays", limit=0.2, seconds=seconds, **common)
        stacked, overlaps = data.stacked(), index_overlaps(data.nodes)
        previous = synchronise(stacked, data.offsets, overlaps)
        seconds = median_seconds(
            lambda s=stacked, o=data.offsets, i=overlaps, p=previous: synchronise(s, o, i, previous=p),
            3 * options.repeats,
        )
        report(what="refresh", limit=0.015, seconds=seconds, **common)
    for kind in ("chords", "ring", "grid"):
        edges = patch_graph(kind, 10_000)
        data = Patches(edges, 10_000, 16, shared=34, own=200 - 2 * 34 * len(edges) // 10_000, noise=0.1)
        patches = list(zip(data.nodes, data.coordinates, strict=True))
        start = time.perf_counter()
        result = align(patches)
        seconds = time.perf_counter() - start
        error = data.error(torch.from_numpy(result.embedding))
        report(what="align 10,000 patches", graph=kind, pairs=len(edges), limit=30, seconds=seconds, error=error)


def recovery(options: argparse.Namespace) -> None:
    """Noiseless recovery: 1e-10 in float64, 1e-4 in float32, reflections included."""
    for num_patches in options.patches:
        for dim in options.dims:
            for kind in options.graphs:
                for dtype in options.dtypes:
                    edges = patch_graph(kind, num_patches)
                    data = Patches(edges, num_patches, dim, shared=dim + 4, own=2, dtype=np.dtype(dtype))
                    start = time.perf_counter()
                    frame = synchronise(data.stacked(), data.offsets, index_overlaps(data.nodes))
                    seconds = time.perf_counter() - start
                    aligned = apply_frame(data.stacked(), data.offsets, frame)
                    error = data.error(assemble(aligned, data.global_nodes, data.num_nodes))
                    limit = 1e-10 if dtype == "float64" else 1e-4
                    report(
                        patches=num_patches,
                        dim=dim,
                        graph=kind,
                        dtype=dtype,
                        error=error,
                        limit=limit,
                        holds=error <= limit,
                        seconds=round(seconds, 3),
                    )


def spoilt_pairs(overlaps: OverlapIndex, share: float, seed: int) -> tuple[Tensor, torch.Generator]:
    """The pairs that `corrupted` spoils, and the generator that goes on from there."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(overlaps.num_pairs, generator=generator)[: int(share * overlaps.num_pairs)], generator


def corrupted(data: Patches, overlaps: OverlapIndex, how: str, share: float, seed: int) -> Tensor:
    """Spoil a share of the overlaps: a wrong rigid motion, or nodes that are mixed up."""
    pairs, generator = spoilt_pairs(overlaps, share, seed)
    stacked = data.stacked()
    dim = stacked.shape[1]
    for pair in pairs.tolist():
        rows = overlaps.first_rows[overlaps.pointers[pair] : overlaps.pointers[pair + 1]]
        if how == "moved":
            rotation = torch.linalg.qr(torch.randn(dim, dim, generator=generator, dtype=torch.float64))[0]
            stacked[rows] = stacked[rows] @ rotation + torch.randn(dim, generator=generator, dtype=torch.float64)
        else:
            stacked[rows] = stacked[rows[torch.randperm(len(rows), generator=generator)]]
    return stacked


def undecidable(edges: np.ndarray, spoilt: np.ndarray, num_patches: int) -> bool:
    """Whether another frame explains as many pairs as the true one does, so that nobody can tell them apart.

    Wrong motions are random, so no two of them agree. Cut the patches into m groups that move apart: at most m − 1
    wrong pairs can be explained, and all right pairs between the groups are given up. Where the right pairs are
    2-edge-connected those are at least m, and the truth wins. A wrong pair over a bridge of right ones (or over no
    right pair at all) is as good as the bridge.
    """

    def parts(pairs: np.ndarray) -> tuple[int, np.ndarray]:
        graph = coo_matrix((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(num_patches, num_patches))
        return connected_components(graph, directed=False)

    right, count = edges[~spoilt], parts(edges[~spoilt])[0]
    bridges = [pair for pair in range(len(right)) if parts(np.delete(right, pair, axis=0))[0] > count]
    labels = parts(np.delete(right, bridges, axis=0))[1]
    wrong = edges[spoilt]
    return bool((labels[wrong[:, 0]] != labels[wrong[:, 1]]).any())


def noise(options: argparse.Namespace) -> None:
    """Error against noise for random geometric patches; the design was fixed before its seeds were looked at.

    30 patches with 4, 6 and 8 neighbours in 2 and 16 dimensions: the spanning tree, this solver, the robust option with
    10 % of the overlaps moved or mixed up, and an oracle, this solver told which overlaps are spoilt. Then 400 patches
    in 2 dimensions that share 8 nodes a pair, at the highest noise. Development used seeds below 1000.
    """
    for neighbours in options.neighbours:
        for dim in (2, 16):
            for level in options.levels:
                measure_noise(30, dim, level, neighbours, None, options)
        measure_noise(400, 2, max(options.levels), neighbours, 8, options)


def measure_noise(
    num_patches: int, dim: int, level: float, neighbours: int, shared: int | None, options: argparse.Namespace
) -> None:
    """One line: means over the seeds. "… decidable" are means over the seeds whose spoilt overlaps can be told."""
    errors: dict[str, list[float]] = {}
    decidable = []
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        data = geometric_patches(num_patches, dim, seed, level, neighbours, shared)
        overlaps, stacked = index_overlaps(data.nodes), data.stacked()

        def add(name: str, frame: Frame, data: Patches = data, errors: dict = errors) -> None:
            errors.setdefault(name, []).append(data.frame_error(frame))

        for name, frame in (
            ("tree", chain_along_tree(stacked, data.offsets, overlaps)),
            ("l2g2g", synchronise(stacked, data.offsets, overlaps)),
        ):
            add(name, frame)
            assembled = assemble(apply_frame(stacked, data.offsets, frame), data.global_nodes, data.num_nodes)
            errors.setdefault(f"{name} assembled", []).append(data.error(assembled))
            errors.setdefault(f"{name} size", []).append(data.size(assembled))
        if level == 0 or num_patches > 30:
            continue
        if neighbours == max(options.neighbours):
            add("robust", synchronise(stacked, data.offsets, overlaps, robust=True))
        spoilt = torch.zeros(overlaps.num_pairs, dtype=torch.bool)
        spoilt[spoilt_pairs(overlaps, 0.1, seed)[0]] = True
        decidable.append(not undecidable(overlaps.edges.numpy(), spoilt.numpy(), num_patches))
        add("oracle", told_which(stacked, data, overlaps, spoilt))
        for how in ("moved", "mixed"):
            wrong = corrupted(data, overlaps, how, 0.1, seed)
            add(how, synchronise(wrong, data.offsets, overlaps))
            add(f"{how} robust", synchronise(wrong, data.offsets, overlaps, robust=True))
    means = {name: float(np.mean(values)) for name, values in errors.items()}
    if decidable:
        means["decidable seeds"] = int(np.sum(decidable))
        for name in ("l2g2g", "oracle", "moved robust", "mixed robust"):
            means[f"{name} decidable"] = float(np.mean(np.array(errors[name])[decidable]))
    settings = {"dim": dim, "patches": num_patches, "neighbours": neighbours, "noise": level}
    report(**settings, first_seed=options.first_seed, seeds=options.seeds, **means)


def told_which(stacked: Tensor, data: Patches, overlaps: OverlapIndex, spoilt: Tensor) -> Frame:
    """The frame of the same solver without the spoilt overlaps (their weight is 1e-9, so that none falls apart)."""
    factors = torch.where(spoilt, 1e-9, 1.0).double()
    return solve_frame(Problem(stacked, overlaps, data.offsets.diff(), None, Settings(), pair_factors=factors))


def tables(options: argparse.Namespace) -> None:
    """Markdown tables and the figure from the lines that `noise` printed."""
    lines = [json.loads(line) for line in Path(options.lines).read_text().splitlines()]
    print("| patches | neighbours | dimensions | noise | tree | l2g2g | ratio | assembled: tree | l2g2g | ratio |")
    print("|" + "---|" * 10)
    for row in lines:
        cells = [row[name] for name in ("patches", "neighbours", "dim", "noise")]
        for kind in ("", " assembled"):
            tree, ours = row[f"tree{kind}"], row[f"l2g2g{kind}"]
            cells += [f"{tree:.3g}", f"{ours:.3g}", f"{ours / tree:.2f}"]
        print("| " + " | ".join(map(str, cells)) + " |")
    print("\n| neighbours | dimensions | noise | l2g2g | oracle | moved | mixed | decidable seeds | moved | mixed |")
    print("|" + "---|" * 10)
    for row in lines:
        if "oracle" in row:
            cells = [row[name] for name in ("neighbours", "dim", "noise")] + [f"{row['l2g2g']:.3g}"]
            cells += [f"{row[name] / row['l2g2g']:.2f}" for name in ("oracle", "moved robust", "mixed robust")]
            cells += [row["decidable seeds"]]
            cells += [f"{row[f'{how} robust decidable'] / row['l2g2g decidable']:.2f}" for how in ("moved", "mixed")]
            print("| " + " | ".join(map(str, cells)) + " |")
    draw_noise([row for row in lines if row["patches"] == 30], Path(options.figure))


def draw_noise(table: list[dict[str, Any]], path: Path) -> None:
    """A panel for each dimension and number of neighbours; error of the frame against noise."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    lines = {
        "tree": ("chained along a spanning tree", "0.55", "--"),
        "l2g2g": ("l2g2g", "C0", "-"),
        "moved": ("l2g2g, 10 % of overlaps moved", "C0", ":"),
        "moved robust": ("robust, 10 % of overlaps moved", "C3", "-"),
        "mixed robust": ("robust, 10 % of overlaps mixed up", "C2", "-"),
        "oracle": ("told which 10 % are wrong", "k", ":"),
    }
    dims, degrees = (sorted({row[name] for row in table}) for name in ("dim", "neighbours"))
    size = (3.6 * len(degrees), 3.2 * len(dims))
    figure, axes = plt.subplots(len(dims), len(degrees), figsize=size, sharey=True, squeeze=False, layout="constrained")
    for (dim, degree), axis in zip(((d, n) for d in dims for n in degrees), axes.flat, strict=True):
        rows = [row for row in table if (row["dim"], row["neighbours"]) == (dim, degree)]
        for name, (label, colour, style) in lines.items():
            known = [row for row in rows if name in row]
            axis.plot([row["noise"] for row in known], [row[name] for row in known], style, color=colour, label=label)
        axis.set_title(f"{dim} dimensions, {degree} neighbours", fontsize=10)
        axis.grid(alpha=0.3)
    figure.supxlabel("noise, relative to the spread of a patch", fontsize=10)
    figure.supylabel("relative error of the frame", fontsize=10)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    for suffix in (".svg", ".png"):
        figure.savefig(path.with_suffix(suffix), dpi=130)


def routes(options: argparse.Namespace) -> None:
    """SVD against Newton–Schulz and conjugate gradients: difference of the frames, and their times."""
    for num_patches, dim in ((10, 16), (100, 16), (100, 64), (1000, 16)):
        for level in (0.0, 0.1, 0.3):
            edges = patch_graph("chords", num_patches)
            data = Patches(edges, num_patches, dim, shared=4 * dim, own=4, noise=level)
            overlaps, stacked = index_overlaps(data.nodes), data.stacked()
            frames, seconds = {}, {}
            # A refresh starts from the frame of slightly different coordinates, not from the answer.
            moved = stacked + 0.05 * torch.randn(stacked.shape, generator=torch.Generator().manual_seed(1))
            stale = synchronise(moved, data.offsets, overlaps, max_steps=200)
            for route in ("svd", "newton-schulz"):

                def run(
                    route: Any = route,
                    stale: Frame = stale,
                    stacked: Tensor = stacked,
                    offsets: Tensor = data.offsets,
                    overlaps: OverlapIndex = overlaps,
                ) -> Frame:
                    options = {"route": route, "previous": stale, "tolerance": 1e-9, "max_steps": 200}
                    return synchronise(stacked, offsets, overlaps, **options)

                frames[route] = run()
                seconds[route] = median_seconds(run, options.repeats)["median"]
            difference = float((frames["svd"].rotations - frames["newton-schulz"].rotations).abs().max())
            report(patches=num_patches, dim=dim, pairs=len(edges), noise=level, difference=difference, seconds=seconds)


def runs(options: argparse.Namespace) -> None:
    """Two GAE runs of one graph with different seeds, all nodes shared: residual before and after, and link AUC."""
    from l2g2g.config import Config
    from l2g2g.evaluation.links import evaluate_links
    from l2g2g.graphs.datasets import load_dataset
    from l2g2g.graphs.splits import split_links
    from l2g2g.runs.training import run_split

    graph = load_dataset(options.dataset, options.data_dir)
    split = split_links(graph, seed=0)
    found = [run_split(split, Config(method="gae", seed=seed)).embedding for seed in (0, 1)]
    nodes = np.arange(graph.num_nodes)
    spread = float(np.sqrt(np.mean([np.sum((part - part.mean(0)) ** 2, 1).mean() for part in found])))
    for name, settings in (("rotate", {"translate": False}), ("rotate and translate", {}), ("all", {"scale": True})):
        aligned = align([(nodes, part) for part in found], **settings)
        report(
            dataset=options.dataset,
            transforms=name,
            residual_before=aligned.residuals.before,
            residual_after=aligned.residuals.after,
            spread=spread,
            auc_of_runs=[evaluate_links(part, split.test).auc for part in found],
            auc_of_unaligned_mean=evaluate_links(np.mean(found, 0), split.test).auc,
            auc_of_assembled=evaluate_links(aligned.embedding, split.test).auc,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("speed", "noise", "tables", "routes", "recovery", "runs"))
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--levels", type=float, nargs="+", default=[0.0, 0.1, 0.4, 0.7, 1.0])
    parser.add_argument("--neighbours", type=int, nargs="+", default=[4, 6, 8], help="noise: of each geometric patch")
    parser.add_argument("--first-seed", type=int, default=1000, help="noise; development used those below 1000")
    parser.add_argument("--lines", default=str(ROOT / "docs" / "results" / "alignment-noise.jsonl"), help="tables")
    parser.add_argument("--patches", type=int, nargs="+", default=[2, 10, 100, 1000, 10000])
    parser.add_argument("--graphs", nargs="+", default=["ring", "tree", "grid", "random"])
    parser.add_argument("--dims", type=int, nargs="+", default=[2, 16, 64])
    parser.add_argument("--dtypes", nargs="+", default=["float64", "float32"], help="recovery")
    parser.add_argument("--dataset", default="cora-ml")
    parser.add_argument("--data-dir", default=None, help="where runs finds its data set")
    parser.add_argument("--figure", default=str(ROOT / "docs" / "figures" / "alignment-noise.svg"))
    options = parser.parse_args()
    commands = {"speed": speed, "noise": noise, "tables": tables, "routes": routes, "recovery": recovery, "runs": runs}
    commands[options.what](options)


if __name__ == "__main__":
    main()
