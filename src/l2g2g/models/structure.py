"""Structure: input columns made from the graph alone, without an n × n identity, for graphs of weak or no features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from l2g2g.core import one_torch_thread
from l2g2g.core.randomness import Purpose, mix_words, random_words, stream_key, torch_generator
from l2g2g.models.eigenvectors import Eigenvectors, leading_eigenvectors, lowest_direction
from l2g2g.models.shared_rows import SharedRows
from l2g2g.models.sparse import normalise_adjacency, to_torch_csr
from l2g2g.parallel.questions import ask_by_rank

_FEW_NUMBERS = 1_000_000
_DRAWN_ROWS = 1 << 12  # a multiple of 16
_SWEEPS = 3  # how far a new node is from the known ones, at most, to hear from them
MORE_VECTORS = 16  # iterated beside the wanted ones: the last ones of a block converge slowly
BYTES_PER_NUMBER = 18  # of a block of vectors while it is iterated: four tables, and a little for products
_LEAST_EIGENVALUE = 0.05  # smaller ones say nothing, and new nodes divide by them
_LEAST_CROSSING = 0.9  # of the edges of a graph that counts as nearly bipartite: those that join its two sides
_ROUGH_PASSES = 8
_QUARTER = 4  # negative eigenvalues may matter where one has a larger magnitude than all but a quarter of the largest
_LARGE_SHARE = 0.01  # of the nodes: smaller components get no eigenvectors, unless there is no larger one
_CODED_SHARE = 0.05  # of the nodes, with an edge but in small components: fewer are not worth codes
_WORD_BITS = 64


@dataclass(frozen=True, eq=False)
class StructureMap:
    """Structural columns of some nodes, and what gives other nodes theirs.

    Attributes:
        columns: (num_nodes, width + 1) float32: eigenvectors u of N = D^(-1/2) A D^(-1/2), each times
            sqrt(|eigenvalue| · num_nodes), and the log-degree. The first eigenvector is sqrt(degree), for all nodes;
            the others are zero outside the large components.
        eigenvalues: (width,) of the eigenvectors: positive ones, largest first; then, where these were sought,
            negative ones, lowest first.
        degree_mean, degree_spread: Of the logarithms of the degrees.
        num_passes: Passes over the graph that they took.
        span: (low, high) the nodes whose rows this rank of several found; None where all rows are here.
        nodes: (num_rows,) ascending, the nodes of the rows that are here: the span and those that were fetched; None
            for all nodes.
        codes: (num_owned,) uint64 random bits of the small component of each node, 0 for nodes in large ones or
            without edges; None where few nodes have them.
        num_dropped: Wanted eigenvectors that had not converged in the passes that are allowed.
    """

    columns: np.ndarray
    eigenvalues: np.ndarray
    degree_mean: float
    degree_spread: float
    num_passes: int = 0
    span: tuple[int, int] | None = None
    nodes: np.ndarray | None = None
    codes: np.ndarray | None = None
    num_dropped: int = 0

    @property
    def is_signed(self) -> bool:
        """Whether some eigenvalues are negative."""
        return bool((self.eigenvalues < 0).any())

    def leading(self, width: int, *, signed: bool = False) -> StructureMap:
        """The same with so many eigenvectors at most: of the largest eigenvalues, or of the largest magnitudes."""
        found = np.flatnonzero(signed | (self.eigenvalues > 0))
        chosen = np.sort(found[np.argsort(-np.abs(self.eigenvalues[found]), kind="stable")[:width]])
        if len(chosen) == len(self.eigenvalues):  # no copy of a large table
            return self
        columns = self.columns[:, np.append(chosen, -1)]
        return replace(self, columns=columns, eigenvalues=self.eigenvalues[chosen])

    def coded(self) -> StructureMap | None:
        """The same with random signs in place of the zeros of small components; None where there are no codes.

        The signs are those of the component, so its nodes are alike and unlike others; their rows are sqrt(2) times as
        long as the first column alone. To be asked for before rows of other ranks are fetched.
        """
        width = len(self.eigenvalues)
        if self.codes is None or width < 2:
            return None
        rows = np.flatnonzero(self.codes)
        columns, heights = self.columns.copy(), self.columns[rows, 0] / np.float32((width - 1) ** 0.5)
        for place in range(1, width):
            bits = random_words(self.codes[rows], place // _WORD_BITS) >> np.uint64(place % _WORD_BITS)
            columns[rows, place] = np.where(bits & np.uint64(1), heights, -heights)
        return replace(self, columns=columns, codes=None)

    def rows_of(self, nodes: np.ndarray | slice) -> np.ndarray:
        """(num_rows, width + 1) the columns of some nodes, which must be here."""
        if isinstance(nodes, slice):
            if self.nodes is not None:
                nodes = slice(*np.searchsorted(self.nodes, (nodes.start, nodes.stop)))
            return self.columns[nodes]
        if self.nodes is not None:
            nodes = np.searchsorted(self.nodes, nodes)
        return self.columns.take(nodes, axis=0)

    def degrees_of(self, columns: np.ndarray) -> np.ndarray:
        """Return (num_rows,) float64 numbers of neighbours that the log-degrees of some rows stand for.

        columns: (num_rows, width + 1).
        """
        return np.rint(np.expm1(columns[:, -1].astype(np.float64) * self.degree_spread + self.degree_mean))

    @property
    def found_rows(self) -> np.ndarray:
        """(num_owned, width + 1) the rows that this rank found: each node is on one rank."""
        return self.columns if self.span is None else self.rows_of(slice(*self.span))

    def with_rows(self, nodes: np.ndarray, shared: SharedRows) -> StructureMap:
        """The same with the rows of some nodes beside those that this rank found. A collective call.

        nodes: (num_nodes,) ascending. shared: the ranks that found them.
        """
        if self.span is None:
            return self
        low, high = self.span
        parts = nodes[: np.searchsorted(nodes, low)], nodes[np.searchsorted(nodes, high) :]
        fetched = shared.fetch(torch.from_numpy(self.found_rows), np.concatenate(parts)).numpy()
        before = len(parts[0])
        columns = np.concatenate([fetched[:before], self.found_rows, fetched[before:]])
        nodes = np.concatenate([parts[0], np.arange(low, high), parts[1]])
        return replace(self, columns=columns, nodes=nodes, codes=None)

    def on_first(self, shared: SharedRows) -> StructureMap:
        """The same with the rows of all nodes on the first rank, and of no node on the others. A collective call."""
        if self.span is None:
            return self
        communicator = shared.communicator
        counts = [high - low for low, high in communicator.tell_all("structure", self.span)]
        rows = communicator.gather("structure", torch.from_numpy(np.ascontiguousarray(self.found_rows)), counts)
        return replace(self, columns=rows.numpy(), span=None, nodes=None, codes=None)

    def extend(self, weights: sp.csr_array, degrees: np.ndarray) -> np.ndarray:
        """(num_new, width + 1) columns of new nodes.

        weights: (num_new, num_nodes + num_new) their rows of N of the grown graph. degrees: (num_new,) neighbours.
        An eigenvector is what N only scales: λ u_i = Σ_j N_ij u_j holds for the new nodes too (Nyström); a few sweeps
        reach nodes whose neighbours are new. No column leaves the range that training saw; one of the eigenvalue 0 says
        nothing of them.
        """
        num_new, num_known = weights.shape[0], len(self.columns)
        known, among = weights[:, :num_known], sp.csr_array(weights[:, num_known:])
        from_known = known @ self.columns[:, :-1]
        bound = np.abs(self.columns[:, :-1]).max(axis=0, initial=0)
        spectral = np.zeros((num_new, len(self.eigenvalues)))
        for _ in range(_SWEEPS if among.nnz else 1):
            sums = from_known + among @ spectral
            found = np.divide(sums, self.eigenvalues, out=np.zeros_like(sums), where=self.eigenvalues != 0)
            spectral = np.clip(found, -bound, bound)
        logs = (np.log1p(degrees) - self.degree_mean) / self.degree_spread
        seen = self.columns[:, -1]
        logs = np.clip(logs, seen.min(), seen.max())
        return np.concatenate([spectral, logs[:, None]], axis=1).astype(np.float32)


def fit_structure(adjacency: sp.csr_array, width: int = 64, *, num_negative: int = 0, seed: int = 0) -> StructureMap:
    """Structural columns of all nodes of a graph in memory, see `fit_products`."""
    propagation = to_torch_csr(normalise_adjacency(adjacency))
    strengths = np.asarray(adjacency.sum(axis=1, dtype=np.float64)).ravel()
    components = sp.csgraph.connected_components(adjacency, directed=False)[1]
    neighbours = np.diff(adjacency.indptr)
    how: dict[str, Any] = {"num_negative": num_negative, "seed": seed}
    return fit_products(lambda table: propagation @ table, neighbours, strengths, components, width, **how)


def fit_products(
    propagate: Callable[[torch.Tensor], torch.Tensor],
    num_neighbours: np.ndarray,
    strengths: np.ndarray,
    components: np.ndarray,
    width: int,
    *,
    num_negative: int = 0,
    rough: bool = False,
    seed: int = 0,
    span: tuple[int, int] | None = None,
    shared: SharedRows | None = None,
) -> StructureMap:
    """Eigenvectors of N = D^(-1/2) A D^(-1/2) with the largest eigenvalues, and the log-degree, for all nodes.

    propagate: (num_nodes, width) table -> Â times it, Â = D̃^(-1/2) (A + I) D̃^(-1/2): the product that every storage
    has. num_neighbours, strengths, components: (num_owned,) neighbours of a node, sum of its edge weights, number of
    its component. Self-loops are taken out again: N = D^(-1/2) (D̃^(1/2) Â D̃^(1/2) - I) D^(-1/2).

    sqrt(degree) is an eigenvector of every graph with the eigenvalue 1, and the first column, also of nodes in small
    components: an inner product with it is the score that a degree alone gives. A component of its own adds another
    eigenvalue of 1, so a graph with many small ones would have no others; the rest of the columns are those of
    the components with at least a hundredth of the nodes, or of the largest, orthogonal to the first column. Where many
    nodes are in small ones, these get codes, from which `StructureMap.coded` makes columns that tell them apart.

    num_negative: eigenvectors with the lowest eigenvalues, sought besides where they may matter: where the graph is
    nearly bipartite, or the lowest eigenvalue is of larger magnitude than three quarters of the largest ones.
    rough: a first impression in eight passes, converged or not.
    shared: the ranks that find them together; None for one process. Each has the rows of a range of nodes, the span, of
    every table, also of those that it propagates and of the columns that are found.
    """
    shared = shared or SharedRows()
    num_nodes = round(shared.sums(float(len(components)))[0])
    low, high = span or (0, num_nodes)
    is_large, num_large = large_components(components, _LARGE_SHARE, shared)
    codes = _draw_codes(components, ~is_large & (strengths > 0), num_nodes, shared, seed=seed)
    del components
    safe = np.where(strengths > 0, strengths, 1.0)
    inner = torch.from_numpy((is_large * np.sqrt((strengths + 1) / safe)).astype(np.float32))[:, None]
    inverse = torch.from_numpy((is_large / safe).astype(np.float32))[:, None]
    (large_strength,) = shared.sums(float(strengths[is_large].sum()))
    trivial = np.sqrt(strengths * is_large) / max(large_strength**0.5, 1e-30)
    first = torch.from_numpy(trivial.astype(np.float32))[:, None]

    def multiply(table: torch.Tensor) -> torch.Tensor:
        product = propagate(inner * table).mul_(inner).addcmul_(table, inverse, value=-1)
        return product.addmm_(first, shared.inner(first, product), alpha=-1)

    def make_start(num_vectors: int) -> torch.Tensor:
        start = draw_rows(num_nodes, num_vectors, low, high, torch_generator(seed, Purpose.STRUCTURE))
        start *= torch.from_numpy(is_large)[:, None]
        return start.addmm_(first, shared.inner(first, start), alpha=-1)

    count, num_negative = max(0, min(width, num_large) - 1), max(0, min(num_negative, num_large - 2))
    found: list[Eigenvectors] = []
    num_passes = 0
    with one_torch_thread(num_nodes * width < _FEW_NUMBERS):
        # With the first column this many are wanted; products are fastest with a multiple of 16 columns.
        block = max(0, min(count + 1 + MORE_VECTORS, num_large - 1))
        if count:
            how: dict[str, Any] = {"max_passes": _ROUGH_PASSES, "keep_all": True} if rough else {}
            found.append(leading_eigenvectors(multiply, make_start(block), count, shared=shared, **how))
        if count and num_negative:
            lowest = lowest_direction(multiply, make_start(1), num_nodes, shared)
            num_passes = lowest.num_passes
            largest = found[0].values
            weighs = len(largest) > 0 and -lowest.value > float(largest[len(largest) // _QUARTER])
            if weighs or _crossing_share(multiply, first, lowest.vector, shared) >= _LEAST_CROSSING:
                start = make_start(min(num_negative + MORE_VECTORS, num_large - 1))
                negative = leading_eigenvectors(
                    lambda table: -multiply(table), start, num_negative, shared=shared, **how
                )
                found.append(negative.negated())
    least = shared.lowest(float(safe.min(initial=np.inf)))
    leading = np.sqrt(np.where(strengths > 0, strengths, least) / max(large_strength, 1e-30))
    spectral, values = [leading[:, None].astype(np.float32)], [np.ones(1, np.float32)]
    for part, sign in zip(found, (1, -1), strict=False):
        good = sign * part.values > _LEAST_EIGENVALUE
        vectors = part.vectors[:, good] * part.values[good].abs().sqrt()
        vectors *= shared.largest(vectors).sign()  # either sign would do
        spectral.append(vectors.numpy())
        # Rounding must not put another eigenvalue of 1 before that of the first column.
        values.append(part.values[good].clamp(-1, 1).numpy())
    degrees = np.log1p(num_neighbours)
    mean, spread = _mean_and_spread(degrees, num_nodes, shared)
    columns = np.empty((high - low, sum(part.shape[1] for part in spectral) + 1), np.float32)
    np.concatenate(spectral, axis=1, out=columns[:, :-1])
    columns[:, :-1] *= np.float32(num_nodes**0.5)
    columns[:, -1] = (degrees - mean) / spread
    eigenvalues = np.concatenate(values)
    num_passes += sum(part.num_passes for part in found)
    num_dropped = sum(part.num_dropped for part in found)
    where: dict[str, Any] = {} if shared.has_all else {"span": (low, high), "nodes": np.arange(low, high)}
    return StructureMap(columns, eigenvalues, mean, spread, num_passes, codes=codes, num_dropped=num_dropped, **where)


def _draw_codes(
    components: np.ndarray, is_coded: np.ndarray, num_nodes: int, shared: SharedRows, *, seed: int
) -> np.ndarray | None:
    """The codes of a `StructureMap`. is_coded: (num_owned,) whether a node has one."""
    if shared.sums(float(is_coded.sum()))[0] < _CODED_SHARE * num_nodes:
        return None
    if shared.has_all:  # ranks know a component by its lowest node
        _, lowest, places = np.unique(components, return_index=True, return_inverse=True)
        components = lowest[places]
    key = np.uint64(stream_key(seed, Purpose.STRUCTURE))
    return np.where(is_coded, mix_words(key + components.astype(np.uint64)), np.uint64(0))


def _mean_and_spread(values: np.ndarray, num_nodes: int, shared: SharedRows) -> tuple[float, float]:
    """Mean and standard deviation over the nodes of all ranks. values: (num_owned,)."""
    mean = shared.sums(float(values.sum()))[0] / num_nodes
    spread = (shared.sums(float(np.square(values - mean).sum()))[0] / num_nodes) ** 0.5
    return mean, spread if spread > 1e-6 else 1.0  # all alike say nothing; rounding errors must not


def _crossing_share(
    multiply: Callable[[torch.Tensor], torch.Tensor], first: torch.Tensor, lowest: torch.Tensor, shared: SharedRows
) -> float:
    """Share of the edges that join the nodes where a vector is positive to those where it is negative.

    multiply: N without its first eigenvector. first: this one, (num_owned, 1). lowest: the vector, (num_owned, 1).
    With s the signs and first = sqrt(degree / Σ degree): (first ∘ s)ᵀ N (first ∘ s) = sᵀ A s / Σ degree.
    """
    divided = first * torch.where(lowest < 0, -1.0, 1.0)
    inside = float(shared.inner(divided, multiply(divided))) + float(shared.inner(first, divided)) ** 2
    return (1 - inside) / 2


def draw_rows(num_rows: int, width: int, low: int, high: int, generator: torch.Generator) -> torch.Tensor:
    """Rows low:high of torch.randn(num_rows, width), of which a part at a time is drawn.

    Example:
        >>> whole = torch.randn(100, 3, generator=torch.Generator().manual_seed(1))
        >>> bool((draw_rows(100, 3, 20, 90, torch.Generator().manual_seed(1)) == whole[20:90]).all())
        True
    """
    found = torch.empty(high - low, width)
    first = 0
    while first < high:  # the generator fills 16 numbers at a time, and the last ones of a table anew
        last = num_rows if num_rows - first < 2 * _DRAWN_ROWS else first + _DRAWN_ROWS
        drawn = torch.randn(last - first, width, generator=generator)
        here = slice(max(low, first), min(high, last))
        if here.start < here.stop:
            found[here.start - low : here.stop - low] = drawn[here.start - first : here.stop - first]
        first = last
    return found


def scale_rows(columns: np.ndarray, row_power: float) -> np.ndarray:
    """Structural columns whose eigenvectors' rows are divided by a power of their length, before the log-degree.

    columns: (num_rows, width + 1). 0 leaves them, 1 makes inner products cosines.
    """
    if row_power == 0:
        return columns
    lengths = np.linalg.norm(columns[:, :-1], axis=1, keepdims=True)
    factors = np.maximum(lengths, 1e-12) ** -row_power
    return np.concatenate([columns[:, :-1] * factors, columns[:, -1:]], axis=1).astype(np.float32)


def blend_factor(feature_factor: float, structure_factor: float) -> float:
    """What structural columns are multiplied with, so that rows differ as much by them as by the features.

    Both factors are those of `FeatureStatistics.centre`.
    """
    return float(np.float32(structure_factor / feature_factor))


def large_components(components: np.ndarray, share: float, shared: SharedRows) -> tuple[np.ndarray, int]:
    """Whether the component of each node of this rank is large, and how many nodes are in such ones.

    components: (num_owned,) as `find_components` gives them. share: of all nodes, that make a component large; the
    largest always is. Each component is counted by one rank.
    """
    communicator = shared.communicator
    labels, places, counts = np.unique(components, return_inverse=True, return_counts=True)
    rows = np.stack([labels, counts], axis=1).astype(np.int64)
    question, order = ask_by_rank(communicator, shared.kind, rows, labels % communicator.size)
    received, found = np.unique(question.received[:, 0], return_inverse=True)
    sizes = np.bincount(found, question.received[:, 1], len(received))
    (num_nodes,) = shared.sums(float(len(components)))
    largest = -shared.lowest(-float(sizes.max(initial=0)))
    is_large = sizes >= min(share * num_nodes, largest)
    (num_large,) = shared.sums(float(sizes[is_large].sum()))
    told = question.answer(is_large[found].astype(np.uint8))[order]
    return told.astype(bool)[places], int(num_large)


@dataclass(frozen=True, eq=False)
class DegreeTerm:
    """A function of the degree: one weight for no neighbour, one for a single one, and a parabola of the log-degree.

    Attributes:
        weights: (4,) float64, of the columns of `basis`.
        mean, spread: Of the log-degrees of the nodes that the weights were fitted on.
        least, most: Lowest degree above 1 of these nodes, and their highest degree: the ends of the parabola.
        degrees: (num_nodes,) numbers of neighbours of the nodes that are read; none for new nodes alone.
    """

    weights: np.ndarray
    mean: float
    spread: float
    least: int
    most: int
    degrees: np.ndarray

    @classmethod
    def blank(cls, degrees: np.ndarray) -> DegreeTerm:
        """Weights 0, for nodes of these degrees."""
        logs = np.log1p(degrees.astype(np.float64))
        scale = float(logs.mean()), max(float(logs.std()), 1e-6)
        return cls(np.zeros(4), *scale, *degree_ends(degrees), degrees)

    def basis(self, degrees: np.ndarray) -> np.ndarray:
        """(num_rows, 4) float64 columns that are weighted. degrees: (num_rows,).

        Beyond its ends the parabola goes on as at the end: it would be far too high or too low at degrees that the
        weights were not fitted on, and those without or with one neighbour have weights of their own.
        """
        logs = (np.log1p(degrees.clip(self.least, self.most).astype(np.float64)) - self.mean) / self.spread
        return np.stack([degrees == 0, degrees == 1, logs, logs**2], axis=1).astype(np.float64)

    def of(self, degrees: np.ndarray) -> np.ndarray:
        """(num_rows,) float32 the term of nodes with so many neighbours."""
        return (self.basis(degrees) @ self.weights).astype(np.float32)

    def with_degrees(self, degrees: np.ndarray) -> DegreeTerm:
        """The same function for the nodes of another graph, which may have higher degrees. degrees: (num_nodes,)."""
        return replace(self, most=max(self.most, int(degrees.max(initial=0))), degrees=degrees)


def degree_ends(degrees: np.ndarray) -> tuple[int, int]:
    """Return (lowest degree above 1, highest degree) of some nodes, twice the same if none is above 1."""
    most = int(degrees.max(initial=0))
    return int(degrees.min(where=degrees > 1, initial=most)), most
