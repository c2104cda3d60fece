"""Reference: every formula of the core once more in plain NumPy and torch, for reading, for tests and other devices."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

# Kernels on graphs: NumPy arrays in, NumPy arrays out, the same names and arguments as in `_native`.


def pack_pattern(
    indptr: np.ndarray,
    indices: np.ndarray,
    other_indptr: np.ndarray,
    other_indices: np.ndarray,
    order: np.ndarray,
    places: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """(indptr int64, columns int32) of the union of two square CSR patterns, rows and columns in another order.

    order: (num_rows,) int32 row at each new place. places: (num_rows,) int32 new place of each row.
    """
    num_rows = len(order)
    keys = []
    for pointers, columns in ((indptr, indices), (other_indptr, other_indices)):
        rows = np.repeat(np.arange(num_rows), np.diff(pointers))
        keys.append(places[rows].astype(np.int64) * num_rows + places[columns])
    union = np.unique(np.concatenate(keys))
    counts = np.bincount(union // max(1, num_rows), minlength=num_rows)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), (union % max(1, num_rows)).astype(np.int32)


def draw_targets(
    offsets: np.ndarray,
    num_draws: np.ndarray,
    shifts: np.ndarray,
    keys: np.ndarray,
    unit_starts: np.ndarray,
    node_hashes: np.ndarray,
    places: np.ndarray,
    indptr: np.ndarray,
    columns: np.ndarray,
    wanted: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """(rows, columns) int32 of negatives whose columns are drawn in proportion to their units.

    Row p of a patch draws ⌊((p + 1) draws + shift) / rows⌋ − ⌊(p draws + shift) / rows⌋ columns, p its packed place. A
    column is the row on whose part of the line of units a random number falls; excluded pairs are left out.
    """
    found: list[tuple[np.ndarray, np.ndarray]] = [(np.empty(0, np.int32), np.empty(0, np.int32))]
    for patch in np.flatnonzero(num_draws):
        low, high, count, shift = *offsets[patch : patch + 2], num_draws[patch], shifts[patch]
        chosen = np.arange(low, high) if wanted is None else low + np.flatnonzero(wanted[low:high])
        units = int(unit_starts[high] - unit_starts[low])
        sizes = high - low, count, shift, int(keys[patch]), units
        drawn, units_drawn = draw_units(places[chosen].astype(np.int64) - low, node_hashes[chosen], *sizes)
        rows, units_drawn = chosen[drawn], units_drawn + unit_starts[low]
        targets = np.searchsorted(unit_starts, units_drawn, side="right") - 1
        excluded = find_entries(indptr, columns, places[rows].astype(np.int64), places[targets].astype(np.int64)) >= 0
        allowed = (rows != targets) & ~excluded
        found.append((rows[allowed].astype(np.int32), targets[allowed].astype(np.int32)))
    drawn_rows, drawn_columns = (np.concatenate(side) for side in zip(*found, strict=True))
    return drawn_rows, drawn_columns


def draw_units(
    places: np.ndarray, hashes: np.ndarray, size: int, num_draws: int, shift: int, key: int, units: int
) -> tuple[np.ndarray, np.ndarray]:
    """(numbers, units) int64 of the draws of some rows of a patch: which row draws, and a random number below units.

    places, hashes: (num_rows,) packed place of each row in the patch, hash of its node. size: rows of the patch.
    """
    counts = ((places + 1) * num_draws + shift) // size - (places * num_draws + shift) // size
    numbers = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    rows = np.repeat(np.arange(len(places)), counts)
    words = hash_numbers(hashes[rows], numbers.astype(np.uint32), key).astype(np.uint64)
    return rows, ((words * np.uint64(units)) >> np.uint64(32)).astype(np.int64)


def induced_indptr(
    indptr: np.ndarray, indices: np.ndarray, first_node: int, num_nodes: int, nodes: np.ndarray, offsets: np.ndarray
) -> np.ndarray:
    """(num_stacked + 1,) row bounds of the block-diagonal induced submatrices of all patches."""
    return induce(indptr, indices, first_node, num_nodes, nodes, offsets)[0]


def induce(
    indptr: np.ndarray, indices: np.ndarray, first_node: int, num_nodes: int, nodes: np.ndarray, offsets: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(indptr, columns, entries) of the block-diagonal induced submatrices of all patches.

    indptr, indices: rows of the nodes from first_node on; rows of other nodes are empty. entries: which of the graph's.
    nodes: (num_stacked,) patch after patch; patch p has the rows offsets[p]:offsets[p + 1].
    """
    lengths = np.zeros(len(nodes), np.int64)
    columns, entries = [np.empty(0, np.int32)], [np.empty(0, np.int64)]
    row_of_node = np.full(num_nodes, -1, np.int32)
    for patch in range(len(offsets) - 1):
        rows = np.arange(offsets[patch], offsets[patch + 1])
        row_of_node[nodes[rows]] = rows
        for row in rows[(nodes[rows] >= first_node) & (nodes[rows] < first_node + len(indptr) - 1)]:
            own = nodes[row] - first_node
            places = np.arange(indptr[own], indptr[own + 1])
            found = row_of_node[indices[places]]
            lengths[row] = (found >= 0).sum()
            columns.append(found[found >= 0])
            entries.append(places[found >= 0])
        row_of_node[nodes[rows]] = -1
    return _bounds(lengths), np.concatenate(columns), np.concatenate(entries)


def cut_edges(
    indptr: np.ndarray, indices: np.ndarray, first_node: int, held_indptr: np.ndarray, held: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(sources, targets), source < target, of the edges that no patch holds. held: CSR of the patches of each node.

    indptr, indices: rows of the nodes from first_node on.
    """
    patches = [set(held[begin:end].tolist()) for begin, end in pairwise(held_indptr)]
    sources = np.repeat(np.arange(first_node, first_node + len(indptr) - 1, dtype=np.int32), np.diff(indptr))
    targets = indices[indptr[0] : indptr[-1]]
    pairs = zip(sources.tolist(), targets.tolist(), strict=True)
    cut = np.array([source < target and patches[source].isdisjoint(patches[target]) for source, target in pairs], bool)
    return sources[cut], targets[cut]


def count_between(
    indptr: np.ndarray, indices: np.ndarray, labels: np.ndarray, members: np.ndarray, starts: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(indptr, columns, counts): entries of each cluster's rows whose column is in another cluster.

    members: rows, cluster after cluster; cluster c has members[starts[c]:starts[c + 1]]. labels: of the columns.
    """
    columns, counts = [np.empty(0, np.int32)], [np.empty(0, np.int64)]
    num_clusters = len(starts) - 1
    for cluster in range(num_clusters):
        rows = members[starts[cluster] : starts[cluster + 1]]
        entries = [labels[indices[indptr[row] : indptr[row + 1]]] for row in rows]
        found = np.bincount(np.concatenate([np.empty(0, np.int32), *entries]), minlength=num_clusters)
        found[cluster] = 0
        columns.append(np.flatnonzero(found).astype(np.int32))
        counts.append(found[columns[-1]])
    lengths = np.array([len(part) for part in columns[1:]], np.int64)
    return _bounds(lengths), np.concatenate(columns), np.concatenate(counts)


def find_entries(indptr: np.ndarray, indices: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """(num_pairs,) place of each pair's entry in a CSR pattern with ascending columns, -1 where there is none."""
    if len(indices) == 0:
        return np.full(len(rows), -1, np.int64)
    width = max(int(indices.max()), int(columns.max(initial=0))) + 1
    keys = (
        np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)) * width + indices
    )  # ascending, as rows and columns are
    wanted = rows.astype(np.int64) * width + columns
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, places, -1)


def find_places(nodes: np.ndarray, starts: np.ndarray, shift: int, values: np.ndarray) -> np.ndarray:
    """(num_values,) int32 place of each value in an ascending list of nodes, -1 where it has none.

    starts: (num_buckets + 1,) place of the first node that is not below bucket << shift.
    """
    if len(nodes) == 0 or len(starts) == 0:
        return np.full(len(values), -1, np.int32)
    places = np.minimum(np.searchsorted(nodes, values), len(nodes) - 1).astype(np.int32)
    return np.where(nodes[places] == values, places, np.int32(-1))


def sort_pairs(rows: np.ndarray, columns: np.ndarray, num_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(rows, columns, starts): pairs in the order of their rows, those of one row as they come."""
    order = np.argsort(rows, kind="stable")
    return rows[order], columns[order], np.searchsorted(rows[order], np.arange(num_rows + 1))


def add_rows(rows: np.ndarray, places: np.ndarray, factors: np.ndarray, table: np.ndarray) -> None:
    """Add to rows of a table, in place and in order: table[places[i]] += factors[i] rows[i]."""
    np.add.at(table, places, factors[:, None] * rows)


def hidden_edges(
    indptr: np.ndarray,
    indices: np.ndarray,
    nodes: np.ndarray,
    hashes: np.ndarray,
    groups: np.ndarray | None,
    key: int,
    bound: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(rows, columns, entries) of the edges u < v of some rows that a mask hides. nodes: (num_rows,) of the rows.

    hashes: (num_nodes,) of all nodes under the key. groups: (num_nodes,) inside which no edge is hidden. bound: hashes
    of pairs below it are hidden.
    """
    rows = np.repeat(nodes, np.diff(indptr))
    words = mix((hashes[rows] + hashes[indices]) ^ np.uint32(key >> 32))
    chosen = (indices > rows) & (words < bound)
    if groups is not None:
        chosen &= groups[rows] != groups[indices]
    entries = np.flatnonzero(chosen)
    return rows[entries], indices[entries], entries


def common_sums(
    indptr: np.ndarray, indices: np.ndarray, sources: np.ndarray, targets: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """(num_pairs, width) sums of the weights of the common neighbours of each pair. weights: (num_nodes, width)."""
    sums = np.zeros((len(sources), weights.shape[1]))
    for pair, (source, target) in enumerate(zip(sources, targets, strict=True)):
        one, other = (indices[indptr[node] : indptr[node + 1]] for node in (source, target))
        sums[pair] = weights[np.intersect1d(one, other)].sum(axis=0)
    return sums


def path_sums(
    indptr: np.ndarray,
    indices: np.ndarray,
    sources: np.ndarray,
    targets: np.ndarray,
    first: int,
    block_indptr: np.ndarray,
    block_indices: np.ndarray,
    factors: np.ndarray,
    sums: np.ndarray,
) -> None:
    """Add factor_a · factor_b of the paths s – a – b – t of each pair, a among the rows of a block from `first` on.

    a is the neighbour of the end that has fewer neighbours, of the source where both have as many.
    """
    last = first + len(block_indptr) - 1
    for pair, (source, target) in enumerate(zip(sources, targets, strict=True)):
        near, far = (indices[indptr[node] : indptr[node + 1]] for node in (source, target))
        near, far = (near, far) if len(near) <= len(far) else (far, near)
        for middle in near[(near >= first) & (near < last)]:
            row = block_indices[block_indptr[middle - first] : block_indptr[middle - first + 1]]
            sums[pair] += factors[middle] * factors[np.intersect1d(row, far)].sum()


def fennel(
    indptr: np.ndarray,
    indices: np.ndarray,
    first_node: int,
    labels: np.ndarray,
    loads: np.ndarray,
    alpha: float,
    limit: int,
) -> int:
    """Give every node of a block of rows its best cluster, in place; returns how many were somewhere else before.

    The best has most neighbours less the price 1.5 alpha sqrt(load); a cluster of `limit` nodes takes no more. Of equal
    clusters without a neighbour the least loaded is taken, then the first.
    """
    num_moved = 0
    for node in range(first_node, first_node + len(indptr) - 1):
        before = labels[node]
        if before >= 0:
            loads[before] -= 1
        around = labels[indices[indptr[node - first_node] : indptr[node - first_node + 1]]]
        neighbours = np.bincount(around[around >= 0], minlength=len(loads))
        scores = neighbours - 1.5 * alpha * np.sqrt(loads)
        scores[((loads >= limit) | (neighbours == 0)) & (loads > loads.min())] = -np.inf
        labels[node] = int(scores.argmax())
        loads[labels[node]] += 1
        num_moved += int(labels[node] != before)
    return num_moved


def boundary_nodes(
    indptr: np.ndarray,
    indices: np.ndarray,
    first_node: int,
    labels: np.ndarray,
    pairs: np.ndarray,
    bounds: np.ndarray,
    nodes: np.ndarray,
    ties: np.ndarray,
) -> None:
    """Update in place the nodes of each cluster of a pair that have most edges to the other one.

    Place 2 p + s of the bounds has the nodes of pairs[p, s], most edges first and of equals the first node, -1 behind
    the last. indptr, indices: rows of the nodes from first_node on. ties: their edges.
    """
    num_clusters = int(labels.max(initial=0)) + 1
    keys = pairs.ravel() * num_clusters + pairs[:, ::-1].ravel()
    order = np.argsort(keys)
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    wanted = labels[first_node + rows].astype(np.int64) * num_clusters + labels[indices]
    places = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
    inside = keys[places] == wanted
    more, edges = np.unique(places[inside] * len(indptr) + rows[inside], return_counts=True)
    place_of = np.concatenate([np.repeat(np.arange(len(keys)), np.diff(bounds)), more // len(indptr)])
    all_nodes, all_ties = np.concatenate([nodes, first_node + more % len(indptr)]), np.concatenate([ties, edges])
    best = np.lexsort((all_nodes, -all_ties, place_of))
    ranks = np.arange(len(best)) - np.searchsorted(place_of[best], place_of[best])
    kept = best[ranks < np.diff(bounds)[place_of[best]]]
    nodes[:], ties[:] = all_nodes[kept], all_ties[kept]


def inner_products(embedding: np.ndarray, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """(num_pairs,) float64 inner products of the rows of each pair, summed in the order of the columns."""
    total = np.zeros(len(sources))
    for column in embedding.T.astype(np.float64):
        total += column[sources] * column[targets]
    return total


def areas_under_curves(edges: np.ndarray, others: np.ndarray) -> tuple[float, float]:
    """(AUC, average precision) of ascending scores of edges against those of others. Equal scores pass together."""
    thresholds, passed = np.unique(edges, return_counts=True)
    thresholds, passed = thresholds[::-1], passed[::-1]
    below, not_above = (np.searchsorted(others, thresholds, side=side) for side in ("left", "right"))
    won = passed @ (below + 0.5 * (not_above - below))
    found, mistaken = np.cumsum(passed), len(others) - below
    precision = passed @ (found / (found + mistaken))
    return float(won / (len(edges) * len(others))), float(precision / len(edges))


def draw_candidates(
    fixed: np.ndarray,
    order: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    starts: np.ndarray,
    downwards: np.ndarray,
    indptr: np.ndarray,
    indices: np.ndarray,
    num_candidates: int,
) -> np.ndarray:
    """(num_rows, num_candidates) nodes that are neither the fixed node nor joined to it; -1 where there are fewer.

    Round order[low:high] from a start inside, then above and below by turns.
    """
    found = np.full((len(fixed), num_candidates), -1, np.int64)
    for row, node in enumerate(fixed):
        allowed = np.ones(len(order), bool)
        allowed[indices[indptr[node] : indptr[node + 1]]] = False
        allowed[node] = False
        same = np.concatenate([order[starts[row] : high[row]], order[low[row] : starts[row]]])
        below, above = order[: low[row]][::-1], order[high[row] :]
        same, below, above = (part[allowed[part]].tolist() for part in (same, below, above))
        down = bool(downwards[row])
        taken = same[:num_candidates]
        while len(taken) < num_candidates and (below or above):
            taken.append((below if (down and below) or not above else above).pop(0))
            down = not down
        found[row, : len(taken)] = taken
    return found


def keep_best(block: np.ndarray, first: int, own: np.ndarray, scores: np.ndarray, nodes: np.ndarray) -> None:
    """Merge a block of scores into the k best so far of each row, in place. Of equals those that came first stay first.

    block: (num_rows, num_columns), its columns the nodes from `first` on; own: the node that a row must not find.
    """
    columns = np.broadcast_to(first + np.arange(block.shape[1]), block.shape)
    block = np.where(columns == own[:, None], -np.inf, block)
    all_scores, all_nodes = np.concatenate([scores, block], axis=1), np.concatenate([nodes, columns], axis=1)
    best = np.argsort(-all_scores, axis=1, kind="stable")[:, : scores.shape[1]]
    scores[:] = np.take_along_axis(all_scores, best, axis=1)
    nodes[:] = np.take_along_axis(all_nodes, best, axis=1)


def bound_boxes(
    low: np.ndarray,
    high: np.ndarray,
    other_low: np.ndarray,
    other_high: np.ndarray,
    longest: np.ndarray,
    other_longest: np.ndarray,
) -> np.ndarray:
    """(num_boxes, num_others): the largest inner product that two boxes allow, at most that of the longest vectors."""
    bounds = np.zeros((len(low), len(other_low)))
    for a, b, c, d in zip(low.T, high.T, other_low.T, other_high.T, strict=True):
        bounds += np.maximum.reduce([np.outer(one, other) for one in (a, b) for other in (c, d)])
    return np.minimum(bounds, np.outer(longest, other_longest))


def best_pairs(
    products: np.ndarray,
    tiles: np.ndarray,
    order: np.ndarray,
    starts: np.ndarray,
    other_order: np.ndarray,
    other_starts: np.ndarray,
    indptr: np.ndarray,
    indices: np.ndarray,
    threshold: float,
    same: bool,
    one_way: bool,
    scores: np.ndarray,
    keys: np.ndarray,
) -> np.ndarray:
    """(num_tiles,) how many pairs were kept of each pair of groups: the best that reach a threshold and are not known.

    products: (num_tiles, height, width) scores of nodes of group tile // num_others with those of tile % num_others.
    Kept pairs go into the rows of `scores` and `keys` (source · num_nodes + target).
    """
    num_nodes, num_others, found = len(order), len(other_starts) - 1, np.zeros(len(tiles), np.int64)
    for tile, (one, other) in enumerate(zip(tiles // num_others, tiles % num_others, strict=True)):
        sources, targets = (
            order[starts[one] : starts[one + 1]],
            other_order[other_starts[other] : other_starts[other + 1]],
        )
        block = products[tile, : len(sources), : len(targets)]
        wanted = block >= np.float32(threshold)
        if same and one == other:
            wanted &= np.triu(np.ones_like(wanted), k=1)
        elif not same:
            wanted &= (sources[:, None] != targets) if one_way else (sources[:, None] < targets)
        rows, columns = np.nonzero(wanted)
        values, sources, targets = block[rows, columns], sources[rows], targets[columns]
        unknown = find_entries(indptr, indices, sources, targets) < 0
        values, sources, targets = values[unknown], sources[unknown], targets[unknown]
        if same:
            sources, targets = np.minimum(sources, targets), np.maximum(sources, targets)
        pairs = sources * num_nodes + targets
        best = np.lexsort((pairs, -values))[: scores.shape[1]]
        found[tile] = len(best)
        scores[tile, : len(best)], keys[tile, : len(best)] = values[best], pairs[best]
    return found


def _bounds(lengths: np.ndarray) -> np.ndarray:
    """Row bounds from the lengths of rows."""
    return np.concatenate([[0], np.cumsum(lengths)])


# Random numbers: see core/cpp/hashing.hpp. NumPy's uint32 wraps around as C++'s does.

_SPREAD = np.uint32(0x9E3779B1)


def mix(words: np.ndarray) -> np.ndarray:
    """A bijection of uint32 words in which every input bit reaches every output bit."""
    words = words ^ (words >> np.uint32(16))
    words = words * np.uint32(0x7FEB352D)
    words = words ^ (words >> np.uint32(15))
    words = words * np.uint32(0x846CA68B)
    return words ^ (words >> np.uint32(16))


def hash_nodes(nodes: np.ndarray, key: int) -> np.ndarray:
    """(num_nodes,) uint32 hashes of node numbers under a 64-bit key."""
    return mix(nodes.astype(np.uint32) + np.uint32(key & 0xFFFFFFFF))


def hash_pairs(one: np.ndarray, other: np.ndarray, key: int) -> np.ndarray:
    """(num_pairs,) uint32 hashes of pairs of nodes, the same in both directions."""
    return mix((hash_nodes(one, key) + hash_nodes(other, key)) ^ np.uint32(key >> 32))


def hash_numbers(node_hashes: np.ndarray, numbers: np.ndarray, key: int) -> np.ndarray:
    """(count,) uint32 hashes of (node, number), from the hashes of the nodes."""
    return mix((node_hashes + numbers.astype(np.uint32) * _SPREAD) ^ np.uint32(key >> 32))


def keep_factors(dropout: Any, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """(num_entries,) float32 factor of each entry under a dropout (`models.sparse.Dropout`): 0 where it is left out."""
    words = hash_numbers(dropout.node_hashes[rows], columns, dropout.key)
    return np.where(words >= dropout.threshold, np.float32(dropout.factor), np.float32(0.0))


# Kernels on tensors: torch, any device and precision.


def drop_dense(rows: Tensor, dropout: Any) -> Tensor:
    """Dense rows with some entries set to zero and the others scaled up."""
    num_rows, width = rows.shape
    every = np.repeat(np.arange(num_rows), width), np.tile(np.arange(width), num_rows)
    factors = torch.from_numpy(keep_factors(dropout, *every)).reshape(num_rows, width)
    return rows * factors.to(rows)


def pair_loss(left: Tensor, right: Tensor, bias: Tensor, edges: Any, non_edges: Any) -> Tensor:
    """Σ weight · −log σ(±(left_u · right_v + bias)) over two lists of pairs (`models.pairs.PairList`)."""
    total = left.new_zeros(())
    for pairs, sign in ((edges, -1.0), (non_edges, 1.0)):
        rows, columns = (torch.from_numpy(end).long().to(left.device) for end in (pairs.rows, pairs.columns))
        weights = torch.from_numpy(pairs.pair_weights).to(left)
        scores = (left.index_select(0, rows) * right.index_select(0, columns)).sum(1) + bias
        total = total + (functional.softplus(sign * scores) * weights).sum()
    return total
