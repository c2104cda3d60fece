"""A large block model on disk, written in a stream: edges.parquet and features.npy, one JSON line about them.

    python benchmarks/scale_input.py FOLDER --nodes 1000000 --edges 10000000 --features 64
    python benchmarks/scale_input.py FOLDER --parts 16    # folders edges and features of Parquet parts, ids are text

Ids are shuffled, so that nodes of one block lie all over the files. An edge joins two nodes of one block with the
chance --inside, otherwise any two. Feature rows are the centre of the block and noise. Memory: 12 bytes for every
node, with parts 36.
Repeated edges and self-loops are not taken out: a few in a million, which the readers merge and count.
"""

import argparse
import json
import os
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

EDGES_AT_ONCE = 1 << 20
NUMBERS_AT_ONCE = 1 << 24


def write_edges(
    path: Path,
    ids: np.ndarray | pa.Array,
    num_edges: int,
    num_blocks: int,
    inside: float,
    generator: np.random.Generator,
    num_parts: int = 0,
) -> None:
    """ids: (num_nodes,) id of every place; places of one block are next to each other. num_parts: 0 for one file."""
    num_nodes = len(ids)
    starts = np.arange(num_blocks + 1) * num_nodes // num_blocks
    kind = pa.int32() if isinstance(ids, np.ndarray) else ids.type
    schema = pa.schema([("source", kind), ("target", kind)])
    bounds = np.arange(max(1, num_parts) + 1) * num_edges // max(1, num_parts)
    for number, (begin, end) in enumerate(pairwise(bounds.tolist())):
        file = path / f"part-{number:05}.parquet" if num_parts else path
        with pq.ParquetWriter(file, schema, compression="none", use_dictionary=False) as writer:
            for low in range(begin, end, EDGES_AT_ONCE):
                count = min(EDGES_AT_ONCE, end - low)
                blocks = generator.integers(0, num_blocks, count)
                sizes = starts[blocks + 1] - starts[blocks]
                first = starts[blocks] + (generator.random(count) * sizes).astype(np.int64)
                near = starts[blocks] + (generator.random(count) * sizes).astype(np.int64)
                far = generator.integers(0, num_nodes, count)
                second = np.where(generator.random(count) < inside, near, far)
                writer.write_table(pa.table([_taken(ids, first), _taken(ids, second)], schema=schema))


def _taken(ids: np.ndarray | pa.Array, places: np.ndarray) -> np.ndarray | pa.Array:
    return ids[places] if isinstance(ids, np.ndarray) else ids.take(pa.array(places))


def make_names(numbers: np.ndarray) -> pa.Array:
    """(num_numbers,) text "user-00000000042", made a block at a time."""
    digits = 10 ** np.arange(10, -1, -1, dtype=np.int64)
    names = np.empty((len(numbers), 16), np.uint8)
    names[:, :5] = np.frombuffer(b"user-", np.uint8)
    for low in range(0, len(numbers), EDGES_AT_ONCE):
        part = numbers[low : low + EDGES_AT_ONCE].astype(np.int64)
        names[low : low + EDGES_AT_ONCE, 5:] = part[:, None] // digits % 10 + ord("0")
    offsets = np.arange(0, 16 * len(numbers) + 1, 16, dtype=np.int64)
    return pa.LargeStringArray.from_buffers(len(numbers), pa.py_buffer(offsets), pa.py_buffer(names))


def write_feature_parts(
    folder: Path,
    names: pa.Array,
    num_features: int,
    num_blocks: int,
    signal: float,
    generator: np.random.Generator,
    num_parts: int,
) -> None:
    """Parts of id and a list of float32. names: as ids of `write_edges`; a row follows the one of another block."""
    num_nodes = len(names)
    centres = signal * generator.standard_normal((num_blocks, num_features), dtype=np.float32)
    schema = pa.schema([("id", names.type), ("features", pa.list_(pa.float32(), num_features))])
    at_once = max(1, NUMBERS_AT_ONCE // num_features // 4)
    for number in range(num_parts):
        places = np.arange(number, num_nodes, num_parts)
        file = folder / f"part-{number:05}.parquet"
        with pq.ParquetWriter(file, schema, compression="none", use_dictionary=False) as writer:
            for low in range(0, len(places), at_once):
                part = places[low : low + at_once]
                rows = generator.standard_normal((len(part), num_features), dtype=np.float32)
                rows += centres[part * num_blocks // num_nodes]
                lists = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), num_features)
                writer.write_table(pa.table([_taken(names, part), lists], schema=schema))


def write_features(
    path: Path, ids: np.ndarray, num_features: int, num_blocks: int, signal: float, generator: np.random.Generator
) -> None:
    num_nodes = len(ids)
    blocks = np.empty(num_nodes, np.int32)
    blocks[ids] = np.arange(num_nodes) * num_blocks // num_nodes
    centres = signal * generator.standard_normal((num_blocks, num_features), dtype=np.float32)
    at_once = max(1, NUMBERS_AT_ONCE // num_features)
    with path.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (num_nodes, num_features)}
        np.lib.format.write_array_header_1_0(file, header)
        for low in range(0, num_nodes, at_once):
            rows = blocks[low : low + at_once]
            block = generator.standard_normal((len(rows), num_features), dtype=np.float32)
            block += centres[rows]
            file.write(block.data)


def write_input(
    folder: Path,
    *,
    num_nodes: int,
    num_edges: int,
    num_features: int,
    num_blocks: int | None = None,
    inside: float = 0.8,
    signal: float = 0.5,
    seed: int = 0,
    num_parts: int = 0,
) -> dict[str, object]:
    """Write both files, or both folders of parts; returns what is said about them."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(seed)
    num_blocks = max(2, num_nodes // 5000) if num_blocks is None else num_blocks
    ids = generator.permutation(num_nodes).astype(np.int32)
    started = time.perf_counter()
    edges, features = folder / "edges.parquet", folder / "features.npy"
    if num_parts:
        edges, features = folder / "edges", folder / "features"
        edges.mkdir(), features.mkdir()
        names = make_names(ids)
        write_edges(edges, names, num_edges, num_blocks, inside, generator, num_parts)
    else:
        write_edges(edges, ids, num_edges, num_blocks, inside, generator)
    between = time.perf_counter()
    if num_features and num_parts:
        write_feature_parts(features, names, num_features, num_blocks, signal, generator, num_parts)
    elif num_features:
        write_features(features, ids, num_features, num_blocks, signal, generator)
    written = [path for each in (edges, features) for path in (each.iterdir() if each.is_dir() else [each])]
    return {
        "num_nodes": num_nodes,
        "num_edges": num_edges,
        "num_features": num_features,
        "num_blocks": num_blocks,
        "edges": str(edges),
        "features": str(features) if num_features else None,
        "bytes": sum(os.path.getsize(path) for path in written if path.exists()),
        "seconds": {"edges": between - started, "features": time.perf_counter() - between},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=10_000_000)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument("--blocks", type=int)
    parser.add_argument("--inside", type=float, default=0.8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parts", type=int, default=0, help="write folders of so many Parquet parts, ids are text")
    options = parser.parse_args()
    row = write_input(
        options.folder,
        num_nodes=options.nodes,
        num_edges=options.edges,
        num_features=options.features,
        num_blocks=options.blocks,
        inside=options.inside,
        seed=options.seed,
        num_parts=options.parts,
    )
    print(json.dumps(row))


if __name__ == "__main__":
    main()
