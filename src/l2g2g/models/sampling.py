"""Sampling: negative pairs inside patches, and FastGAE's node samples.

The rows of a patch lie in a fixed random order, that of a hash of their node numbers, cut into tiles of up to 16. In
every round of an epoch tile I meets tile (r − I) mod B, at random r, and row l of a tile of T rows draws the columns
(l + s) mod T of the tile that it meets, for some successive s. So all columns are drawn equally often, a vector that is
read serves several pairs, tiles that meet can be worked on in parallel, and every pair is as likely as any other. Draws
that are edges, held-out pairs or the row itself count nothing; as many more are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from l2g2g.core import hash_nodes, hash_numbers, kernels, native
from l2g2g.core.randomness import Purpose, random_words, scale_words, stream_key, stream_keys
from l2g2g.models.pairs import PairList

_TILE = 16  # rows of a tile, at most: as many as a vector register has floats; that of core/cpp/arguments.hpp
_MOST_DRAWS = 8  # times as many as wanted, where most pairs are excluded
_MOST_UNITS = 2**31 - 1
_DRAWS_AT_ONCE = 1 << 16


@dataclass(frozen=True, eq=False)
class DrawPlan:
    """How many columns each row draws, and of which blocks: all that does not depend on the edges.

    Attributes:
        offsets: (num_patches + 1,) int64 rows of each patch.
        patches: (num_patches,) the numbers of the patches, which key their random streams.
        order: (num_rows,) int32 row at each packed place; inside a patch the order is random. Empty where it is not
            known here: then only places can be drawn.
        nodes: (num_rows,) int32 node at each packed place; empty with the order.
        num_columns: (num_patches,) int64 columns that a row draws in an epoch, summed over the tiles of a patch.
        weights: (num_patches,) float32 weight of a draw that counts.
    """

    offsets: np.ndarray
    patches: np.ndarray
    order: np.ndarray
    nodes: np.ndarray
    num_columns: np.ndarray
    weights: np.ndarray

    @classmethod
    def make(
        cls,
        nodes: np.ndarray | None,
        offsets: np.ndarray,
        patches: np.ndarray,
        counts: np.ndarray,
        likely: np.ndarray,
        shares: np.ndarray,
    ) -> DrawPlan:
        """Plan about counts[j] negatives in patch j that count.

        nodes: (num_rows,) node numbers; None where their order is not needed. likely: (num_patches,) how likely a draw
        of a patch counts. shares: (num_patches,) what the weights of the negatives of a patch add up to, on average.
        """
        sizes = np.diff(offsets)
        order = packed = np.empty(0, np.int32)
        if nodes is not None:
            hashes = hash_nodes(nodes.astype(np.int32), stream_key(0, Purpose.NODE_ORDER))
            patch = np.repeat(np.arange(len(sizes)), sizes)
            order = np.lexsort((nodes, hashes, patch)).astype(np.int32)
            packed = nodes[order].astype(np.int32)
        wanted = np.where(likely > 0, counts, 0)
        num_draws = np.minimum(np.ceil(wanted / np.maximum(likely, 1e-12)), _MOST_DRAWS * wanted)
        tile_sizes, _ = _cut_tiles(sizes)
        num_columns = np.where(num_draws > 0, np.maximum(1, np.round(num_draws / tile_sizes)), 0).astype(np.int64)
        weights = (shares / np.maximum(tile_sizes * num_columns * likely, 1e-30)).astype(np.float32)
        return cls(offsets.astype(np.int64), patches, order, packed, num_columns, weights)

    @property
    def num_rows(self) -> int:
        """Rows of all patches."""
        return int(self.offsets[-1])

    @property
    def num_draws(self) -> np.ndarray:
        """(num_patches,) int64 draws of an epoch; a last tile that is not full counts as a full one."""
        return _cut_tiles(np.diff(self.offsets))[0] * self.num_columns

    @cached_property
    def places(self) -> np.ndarray:
        """(num_rows,) int32 packed place of every row."""
        places = np.empty_like(self.order)
        places[self.order] = np.arange(len(self.order), dtype=np.int32)
        return places

    @cached_property
    def num_rounds(self) -> np.ndarray:
        """(num_patches,) int64 rounds of an epoch: a tile draws at most all columns of the tile it meets."""
        tile_sizes, num_tiles = _cut_tiles(np.diff(self.offsets))
        return np.maximum(1, -(-self.num_columns // np.maximum(1, tile_sizes * num_tiles)))

    def rounds(self, *, seed: int, epoch: int) -> Iterator[np.ndarray]:
        """(num_rounds, 8) int64, the rounds of an epoch, those of different patches together.

        Columns: first packed row, rows, rows of a tile, tiles, r, columns, shift, key. Tile I of a patch draws
        ⌊((I + 1) columns + shift) / tiles⌋ − ⌊(I columns + shift) / tiles⌋ columns: as many as the others, within one.
        """
        sizes, keys = np.diff(self.offsets), stream_keys(seed, Purpose.NEGATIVES, epoch, self.patches)
        tile_sizes, tiles = _cut_tiles(sizes)
        first = scale_words(random_words(keys, 0), np.maximum(1, tiles))
        for turn in range(int(self.num_rounds.max(initial=0))):
            here = np.flatnonzero((self.num_rounds > turn) & (self.num_columns > 0) & (sizes > 0))
            if len(here) == 0:
                return
            done, after = (self.num_columns[here] * t // self.num_rounds[here] for t in (turn, turn + 1))
            yield np.stack(
                [
                    self.offsets[:-1][here],
                    sizes[here],
                    tile_sizes[here],
                    tiles[here],
                    (first[here] + turn) % tiles[here],
                    after - done,
                    scale_words(random_words(keys[here], 2 * turn + 1), tiles[here]),
                    random_words(keys[here], 2 * turn + 2).view(np.int64),
                ],
                axis=1,
            )

    def draw_rows(self, rows: np.ndarray, *, seed: int, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """(rows, columns) int64 of all draws of some rows, excluded ones among them; columns are rows too.

        The plain form, for rows that come from disk; `PackedNegatives` lists the same draws.
        """
        drawn, columns = self.draw_places(self.places[rows], seed=seed, epoch=epoch)
        return rows[drawn].astype(np.int64), self.order[columns].astype(np.int64)

    def draw_places(self, places: np.ndarray, *, seed: int, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """(numbers int64, columns int32) of all draws of the rows at some packed places: which of these, what places.

        Draws that are excluded or of the row itself are among them.
        """
        found: list[tuple[np.ndarray, np.ndarray]] = [(np.empty(0, np.int64), np.empty(0, np.int32))]
        for table in self.rounds(seed=seed, epoch=epoch):
            for first, size, tile_size, num_tiles, meeting, num_columns, shift, key in table.tolist():
                inside = np.flatnonzero((places >= first) & (places < first + size))
                local = places[inside].astype(np.int64) - first
                tiles = local // tile_size
                counts = ((tiles + 1) * num_columns + shift) // num_tiles - (tiles * num_columns + shift) // num_tiles
                words = hash_numbers(np.zeros(1, np.uint32), tiles, key & (2**64 - 1))
                starts = local + ((words.astype(np.int64) * tile_size) >> 32)
                others = first + (meeting - tiles) % num_tiles * tile_size
                starts, others, numbers = (np.repeat(each, counts) for each in (starts, others, inside))
                turns = np.arange(len(starts)) - np.repeat(np.cumsum(counts) - counts, counts)
                columns = others + (starts + turns) % tile_size
                real = columns < first + size
                found.append((numbers[real], columns[real].astype(np.int32)))
        drawn, columns = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return drawn, columns


@dataclass(frozen=True, eq=False)
class NegativePlan:
    """What is constant about the negatives of some stacked patches, computed once.

    Attributes:
        draws: How many columns each row draws.
        excluded: (indptr int64, columns int32) CSR in packed order of pairs that are never drawn, without the diagonal.
        units: How likely each row is as the far end; None for uniformly.
        wanted: (num_rows,) bool, the rows that draw here; the others draw on other ranks. None for all.
    """

    draws: DrawPlan
    excluded: tuple[np.ndarray, np.ndarray]
    units: TargetUnits | None = None
    wanted: np.ndarray | None = None

    @cached_property
    def packed(self) -> Any:
        """The same as the native kernels take it."""
        draws = self.draws
        sizes = draws.offsets, draws.num_columns, draws.num_rounds
        return native().PackedNegatives(*self.excluded, *sizes, draws.weights, draws.order, draws.places)

    def _streams(self, seed: int, epoch: int) -> np.ndarray:
        """The keys of the patches in an epoch."""
        return stream_keys(seed, Purpose.NEGATIVES, epoch, self.draws.patches)

    @property
    def weights(self) -> tuple[np.ndarray, str]:
        """Weights of the pairs of a list, and their kind, as in `PairList`."""
        draws = self.draws
        if len(draws.weights) == 1:
            return draws.weights, "all"
        return np.repeat(draws.weights, np.diff(draws.offsets)), "row"

    @cached_property
    def _chosen(self) -> np.ndarray | None:
        """`wanted` as the kernels take it."""
        return None if self.wanted is None else self.wanted.astype(np.uint8)

    def list_pairs(self, *, seed: int, epoch: int) -> PairList:
        """The negatives of an epoch as a list."""
        if self.units is not None:
            rows, columns = self._draw_by_units(seed, epoch)
        elif native() is not None:
            rows, columns = self.packed.list(self._streams(seed, epoch), self._chosen)
        else:
            own = np.arange(self.draws.num_rows) if self.wanted is None else np.flatnonzero(self.wanted)
            rows, columns = self.draws.draw_rows(own, seed=seed, epoch=epoch)
            allowed = ~self._is_excluded(rows, columns)
            rows, columns = rows[allowed], columns[allowed]
        weights, kind = self.weights
        return PairList(rows.astype(np.int32), columns.astype(np.int32), weights, kind)  # type: ignore[arg-type]

    def score(
        self,
        left: np.ndarray,
        right: np.ndarray | None,
        bias: float,
        of_left: np.ndarray,
        of_right: np.ndarray | None,
        *,
        seed: int,
        epoch: int,
    ) -> tuple[float, float]:
        """(loss, slope) of the negatives of an epoch by the native kernel; gradients are added.

        left, right, of_left, of_right: (num_rows, width) float32; right None: the same as left.
        """
        found: tuple[float, float] = self.packed.score(
            self._streams(seed, epoch), left, right, bias, of_left, of_right, self._chosen
        )
        return found

    def _is_excluded(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """(num_pairs,) whether pairs, in the order of the tables, are never negatives."""
        places = self.draws.places.astype(np.int64)
        return (rows == columns) | (kernels().find_entries(*self.excluded, places[rows], places[columns]) >= 0)

    def _draw_by_units(self, seed: int, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """(rows, columns) of all draws, the far end of each drawn in proportion to its units."""
        assert self.units is not None
        draws, sizes = self.draws, np.diff(self.draws.offsets)
        keys, node_key = self._streams(seed, epoch), stream_key(seed, Purpose.NEGATIVES, epoch)
        found: tuple[np.ndarray, np.ndarray] = kernels().draw_targets(
            draws.offsets,
            draws.num_draws,
            scale_words(random_words(keys, 0), np.maximum(sizes, 1)),
            random_words(keys, 1),
            self.units.starts,
            hash_nodes(draws.nodes[draws.places], node_key),
            draws.places,
            *self.excluded,
            self._chosen,
        )
        return found


@dataclass(frozen=True, eq=False)
class NegativeDraws:
    """The negatives of an epoch, scored while they are drawn where that is possible, or listed."""

    plan: NegativePlan
    seed: int
    epoch: int

    @property
    def can_stream(self) -> bool:
        """Whether a kernel scores them without a list."""
        return self.plan.units is None and native() is not None

    @cached_property
    def pair_list(self) -> PairList:
        """As a list."""
        return self.plan.list_pairs(seed=self.seed, epoch=self.epoch)


# How negatives are sampled, by name: weights (num_rows,) of the far ends from their degrees; None for all alike.
# 0.75 is the exponent of word2vec and node2vec (Mikolov et al. 2013): between uniform targets and those of the edges.
TARGET_WEIGHTS: dict[str, Callable[[np.ndarray], np.ndarray] | None] = {
    "uniform": None,
    "degree": lambda degrees: degrees**0.75 * (degrees > 0),
}


@dataclass(frozen=True, eq=False)
class TargetUnits:
    """How likely each row is as the far end of a negative: in proportion to its units.

    Attributes:
        starts: (num_rows + 1,) int64, units of all rows before this one.
    """

    starts: np.ndarray

    @classmethod
    def make(cls, sampling: str, degrees: np.ndarray, offsets: np.ndarray) -> TargetUnits:
        """Units in proportion to `TARGET_WEIGHTS[sampling]`; none where that is 0, at least one where it is not."""
        wanted = target_weights(sampling, degrees)
        largest = float(np.add.reduceat(wanted, offsets[:-1][np.diff(offsets) > 0]).max(initial=0.0))
        return cls(np.concatenate([[0], np.cumsum(count_units(wanted, largest, len(wanted)))]))

    @property
    def each(self) -> np.ndarray:
        """(num_rows,) int64 units of every row."""
        return np.diff(self.starts)

    def likely(self, offsets: np.ndarray, taken: np.ndarray) -> np.ndarray:
        """(num_patches,) how likely a draw counts. taken: (num_patches,) units of the columns of all excluded pairs."""
        return likely_by_units(np.diff(self.starts[offsets]), np.diff(offsets), taken)


def target_weights(sampling: str, degrees: np.ndarray) -> np.ndarray:
    """(num_rows,) how likely each row is to be as the far end of a negative, up to a factor."""
    weigh = TARGET_WEIGHTS[sampling]
    return np.ones(len(degrees)) if weigh is None else weigh(degrees)


def count_units(weights: np.ndarray, largest: float, num_rows: int) -> np.ndarray:
    """(num_weights,) int64 units in proportion to weights: none for 0, at least one otherwise.

    largest: what the weights of a patch add up to at most. num_rows: of all patches.
    """
    factor = min(1024.0, (_MOST_UNITS - num_rows) / max(1.0, largest))  # each may be rounded up by one
    return np.ceil(weights * factor).astype(np.int64)


def likely_by_units(totals: np.ndarray, sizes: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """(num_patches,) how likely a draw counts. totals, sizes: units and rows of patches; taken: see `TargetUnits`."""
    left = sizes * totals - taken - totals  # units of all allowed pairs; every row loses itself
    return np.maximum(left, 0) / np.maximum(sizes * totals, 1)


def likely_uniform(sizes: np.ndarray, num_excluded: np.ndarray) -> np.ndarray:
    """(num_patches,) how likely a uniform draw counts: it may be excluded, the row itself, or beyond the last row."""
    slots = np.prod(_cut_tiles(sizes), axis=0)
    return np.maximum(sizes * (sizes - 1) - num_excluded, 0) / np.maximum(slots * slots, 1)


def _cut_tiles(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(num_patches,) rows of a tile, at least 1, and tiles of every patch; the last tile may have fewer rows."""
    tile_sizes = np.maximum(1, -(-sizes // np.maximum(1, -(-sizes // _TILE))))
    return tile_sizes, -(-sizes // tile_sizes)


def plan_negatives(
    edges: sp.csr_array,
    held_out: sp.csr_array,
    nodes: np.ndarray,
    offsets: np.ndarray,
    counts: np.ndarray,
    *,
    patches: np.ndarray | None = None,
    shares: np.ndarray | None = None,
    sampling: str = "uniform",
) -> NegativePlan:
    """Plan about counts[j] negatives in patch j among its pairs that are neither edges nor held out.

    edges, held_out: block-diagonal (num_rows, num_rows) symmetric patterns without diagonal. nodes: (num_rows,).
    A patch in which every pair is excluded gets no negatives. sampling: a name in `TARGET_WEIGHTS`.
    """
    num_patches, sizes = len(offsets) - 1, np.diff(offsets)
    shares = np.ones(num_patches) / max(1, num_patches) if shares is None else shares
    patches = np.arange(num_patches) if patches is None else patches
    blank = DrawPlan.make(nodes, offsets, patches, counts, np.zeros(num_patches), shares)  # for its order
    patterns = [
        part
        for matrix in (edges, held_out)
        for part in (matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32, copy=False))
    ]
    indptr, columns = kernels().pack_pattern(*patterns, blank.order, blank.places)
    per_patch = np.diff(indptr[offsets])
    if TARGET_WEIGHTS[sampling] is None:
        likely = likely_uniform(sizes, per_patch)
        return NegativePlan(DrawPlan.make(nodes, offsets, patches, counts, likely, shares), (indptr, columns))
    units = TargetUnits.make(sampling, np.diff(edges.indptr), offsets)
    rows = np.repeat(np.arange(len(nodes)), np.diff(indptr))
    taken = np.bincount(
        np.repeat(np.arange(num_patches), sizes)[rows], weights=units.each[blank.order[columns]], minlength=num_patches
    )
    likely = units.likely(offsets, taken)
    return NegativePlan(DrawPlan.make(nodes, offsets, patches, counts, likely, shares), (indptr, columns), units)


def sample_nodes_by_degree(degrees: np.ndarray, count: int, *, seed: int, epoch: int, alpha: float = 1.0) -> np.ndarray:
    """Draw `count` distinct nodes with probability proportional to (degree + 1)^alpha, sorted (FastGAE)."""
    return np.sort(first_arrivals(degrees, count, seed=seed, epoch=epoch, alpha=alpha)[0])


def first_arrivals(
    degrees: np.ndarray, count: int, first: int = 0, *, seed: int, epoch: int, alpha: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """(nodes, times): the first `count` nodes of a range in exponential races, or all of a smaller one, in any order.

    The first arrivals of all nodes are a weighted sample without replacement. degrees: (num_nodes,) of the range,
    which begins with the node `first`.
    """
    generator = np.random.default_rng([seed, int(Purpose.NODE_SAMPLE), epoch])
    for low in range(0, first, _DRAWS_AT_ONCE):  # what the nodes before draw
        generator.exponential(size=min(_DRAWS_AT_ONCE, first - low))
    times = generator.exponential(size=len(degrees)) / (degrees + 1.0) ** alpha
    found = np.arange(len(times)) if count >= len(times) else np.argpartition(times, count - 1)[:count]
    return first + found, times[found]
