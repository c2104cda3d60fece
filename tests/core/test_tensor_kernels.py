"""Kernels on tensors: every native one against a float64 formula, for every instruction set, one thread and two."""

import itertools
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pytest
import scipy.sparse as sp

from l2g2g import core
from l2g2g.core import reference
from l2g2g.models.features import FeatureTable
from l2g2g.models.masking import EdgeMask, draw_groups, hidden_pairs
from l2g2g.models.sampling import plan_negatives
from l2g2g.models.sparse import Dropout

native = pytest.importorskip("l2g2g.core._native")

WIDTHS = [1, 3, 8, 16, 20, 32, 48, 64, 128, 130]
NEXT = dict(zip(WIDTHS, WIDTHS[1:] + WIDTHS[:1], strict=True))
CASES = [(width, "small") for width in WIDTHS] + [(width, "large") for width in (3, 16, 130)]
KEY = 0xFEDCBA9876543210
# float32: errors relative to the sum of the magnitudes of all terms; draws, masks and copies are equal bit for bit.
TOLERANCE = 2e-6


@pytest.fixture(autouse=True)
def restored(usual_backend):
    """Leave threads, instruction set and backend as they were."""
    threads, level = native.num_threads(), native.instruction_set()
    yield
    core.set_num_threads(threads)
    native.set_instruction_set(level)


# Threads divide rows and instruction sets choose inner loops: only the best set, which users have, meets both counts.
*LESSER, BEST = native.instruction_sets()
SLOW = pytest.mark.slow


@pytest.fixture(params=[*(pytest.param((each, 1), marks=SLOW) for each in (*LESSER, BEST)), (BEST, 2)], ids=str)
def machine(request):
    level, threads = request.param
    native.set_instruction_set(level)
    core.set_num_threads(threads)
    return request.param


def check_close(found, exact, magnitude):
    assert found.dtype == np.float32
    assert np.isfinite(found).all()
    np.testing.assert_array_less(np.abs(found - exact), TOLERANCE * magnitude + 1e-30)


def repeat(run):
    """What a call returns, which a second one must return with the same bits."""
    first, second = run(), run()
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)
    return first


def normal(*shape, seed=0):
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Sample:
    """A CSR matrix with gaps between its rows, rows without entries and one with many."""

    starts: np.ndarray
    ends: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    num_columns: int

    def csr(self, weighted=True):
        return native.Csr(self.starts, self.ends, self.indices, self.values if weighted else None, self.num_columns)

    @property
    def entries(self):
        """(rows, places) of the entries that count."""
        lengths = self.ends - self.starts
        first = np.cumsum(lengths) - lengths
        return np.repeat(np.arange(len(lengths)), lengths), np.arange(lengths.sum()) + np.repeat(
            self.starts - first, lengths
        )

    def matrices(self, weighted=True, factors=1.0):
        """The matrix, and that of the magnitudes of its entries: a column may stand in a row more than once."""
        rows, places = self.entries
        values = (self.values[places] if weighted else np.ones(len(rows))).astype(np.float64) * factors
        shape, ends = (len(self.starts), self.num_columns), (rows, self.indices[places])
        return (sp.csr_array(sp.coo_array((each, ends), shape=shape)) for each in (values, abs(values)))


@lru_cache
def sample(size, num_columns=None):
    generator = np.random.default_rng(len(size))
    num_rows = {"small": 70, "large": 2500}[size]
    num_columns = num_columns or num_rows
    lengths = generator.integers(0, 22, num_rows)
    lengths[[0, 5, num_rows - 1]] = 0
    lengths[9] = 1300  # more than a kernel looks at in one go
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    ends = starts + np.maximum(lengths - generator.integers(0, 3, num_rows), 0)
    total = int(lengths.sum())
    assert size == "small" or total > 20_000  # two threads share the work
    indices = generator.integers(0, num_columns, total).astype(np.int32)
    return Sample(starts, ends, indices, generator.standard_normal(total).astype(np.float32), num_columns)


def dropout_of(num_rows, fraction=0.4):
    nodes = np.random.default_rng(1).integers(0, 10**6, num_rows).astype(np.int32)
    return Dropout(reference.hash_nodes(nodes, KEY), KEY, round(fraction * 2**32), np.float32(1 / (1 - fraction)))


def dropout_arguments(dropout):
    return {
        "node_hashes": dropout.node_hashes,
        "key": dropout.key,
        "threshold": dropout.threshold,
        "factor": dropout.factor,
        **({"by_column": True} if dropout.by_column else {}),
    }


def kept_factors(given, dropout):
    rows, places = given.entries
    factors = reference.keep_factors(dropout, rows, given.indices[places])
    assert 0.5 < (factors > 0).mean() < 0.7
    return factors


# --- products --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "size"), CASES)
def test_native_product_equals_dense_product(machine, size, width):
    far = 140_000 // width + 1  # rows of a table that does not stay in the cache: these are fetched ahead
    for weighted, num_columns in ((True, 41), (False, 300), (True, 1), (True, far), (False, far)):
        given, table = sample(size, num_columns), normal(num_columns, width)
        matrix, magnitudes = given.matrices(weighted)
        out = np.empty((len(given.starts), width), np.float32)

        def run(given=given, weighted=weighted, table=table, out=out):
            native.multiply(given.csr(weighted), table, out)
            return [out.copy()]

        check_close(repeat(run)[0], matrix @ table.astype(np.float64), magnitudes @ abs(table))


@pytest.mark.parametrize(("width", "size"), CASES)
def test_native_product_with_loops_scale_and_addition_equals_the_formula(machine, size, width):
    given = sample(size)
    num_rows = len(given.starts)
    table, scale, (matrix, magnitudes) = normal(num_rows, width), normal(num_rows, seed=3), given.matrices()
    summed, magnitude = matrix @ table.astype(np.float64) + table, magnitudes @ abs(table) + abs(table)
    factor, out = scale[:, None].astype(np.float64), np.empty((num_rows, width), np.float32)
    for added in (None, normal(1, width, seed=4), normal(num_rows, width, seed=4)):
        rest = 0.0 if added is None else added.astype(np.float64)
        native.multiply(given.csr(), table, out, scale, True, added)
        check_close(out, factor * summed + rest, abs(factor) * magnitude + abs(rest))
        native.multiply(given.csr(), table, out, scale, True, added, scale_added=True)
        check_close(out, factor * (summed + rest), abs(factor) * (magnitude + abs(rest)))


@pytest.mark.parametrize(("width", "size"), CASES)
def test_native_product_leaves_out_what_the_reference_leaves_out(machine, size, width):
    given = sample(size, 41)
    dropout = dropout_of(len(given.starts))
    table, added = normal(41, width), normal(1, width, seed=4)
    out = np.empty((len(given.starts), width), np.float32)
    for weighted in (True, False):
        matrix, magnitudes = given.matrices(weighted, kept_factors(given, dropout))
        native.multiply(given.csr(weighted), table, out, added=added, **dropout_arguments(dropout))
        check_close(out, matrix @ table.astype(np.float64) + added, magnitudes @ abs(table) + abs(added))


@lru_cache
def long_rows(width, ordered=True):
    """Rows with many entries in every slice of the columns; in order, as `multiply` by slices needs them, or not."""
    generator, num_rows, num_columns = np.random.default_rng(width), 150, 4 * 8192 // width + 7
    lengths = generator.integers(100, 160, num_rows)
    lengths[[0, 70]] = 0
    rows = [generator.integers(0, num_columns, length) for length in lengths]
    rows[3] = np.full(lengths[3], num_columns - 1)  # nothing in the first slices
    indices = np.concatenate([np.sort(row) if ordered else row for row in rows]).astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    values = generator.standard_normal(len(indices)).astype(np.float32)
    return Sample(starts, starts + lengths, indices, values, num_columns)


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("width", [16, 20, 32, 48, 130])
def test_native_product_by_slices_equals_dense_product(machine, width, ordered):
    given = long_rows(width, ordered)
    table, added = normal(given.num_columns, width), normal(len(given.starts), width, seed=4)
    scale, out = normal(len(given.starts), seed=3), np.empty((len(given.starts), width), np.float32)
    dropout = dropout_of(len(given.starts))
    for weighted, dropped in itertools.product((True, False), repeat=2):
        matrix, magnitudes = given.matrices(weighted, kept_factors(given, dropout) if dropped else 1.0)
        more = dropout_arguments(dropout) if dropped else {}

        def run(weighted=weighted, more=more):
            native.multiply(given.csr(weighted), table, out, scale, added=added, **more)
            return [out.copy()]

        factor = scale[:, None].astype(np.float64)
        exact = factor * (matrix @ table.astype(np.float64)) + added
        check_close(repeat(run)[0], exact, abs(factor) * (magnitudes @ abs(table)) + abs(added))


@pytest.mark.parametrize("long", [True, False])
def test_native_product_with_two_tables_equals_dense_products(machine, long):
    given = long_rows(48) if long else sample("large", 300)
    num_rows, (width, other_width) = len(given.starts), native.two_widths
    one, two = normal(given.num_columns, width), normal(given.num_columns, other_width, seed=5)
    added, other_added, scale = normal(width, seed=4), normal(other_width, seed=6), normal(num_rows, seed=3)
    dropout, factor = dropout_of(num_rows), 1.7
    for weighted, dropped in itertools.product((True, False), repeat=2):
        matrix, magnitudes = given.matrices(weighted, kept_factors(given, dropout) if dropped else 1.0)

        def run(weighted=weighted, dropped=dropped):
            outs = np.empty((num_rows, width), np.float32), np.empty((num_rows, other_width), np.float32)
            more = dropout_arguments(dropout) if dropped else {}
            native.multiply_two(given.csr(weighted), one, two, *outs, factor, added, other_added, scale, **more)
            return list(outs)

        found, other = repeat(run)
        exact = scale[:, None] * (factor * (matrix @ one.astype(np.float64)) + added)
        check_close(found, exact, abs(scale[:, None]) * (factor * (magnitudes @ abs(one)) + abs(added)))
        other_exact = factor * (matrix @ two.astype(np.float64)) + other_added
        check_close(other, other_exact, factor * (magnitudes @ abs(two)) + abs(other_added))


def bit_rows(num_rows, num_columns):
    """A random matrix of zeros and ones, dense and as padded bits; the first row is empty, the last one full."""
    dense = np.random.default_rng(5).random((num_rows, num_columns)) < 0.4
    dense[0], dense[-1] = False, True
    padded = np.zeros((num_rows, -(-num_columns // 128) * 128), np.bool_)
    padded[:, :num_columns] = dense
    return dense, np.packbits(padded, axis=1, bitorder="little")


@pytest.mark.parametrize(("num_rows", "num_columns"), [(40, 3), (33, 128), (1500, 745)])
@pytest.mark.parametrize("width", [5, 16, 32, 48, 128, 130])
def test_native_products_with_bits_equal_dense_products(machine, width, num_rows, num_columns):
    dense, bits = bit_rows(num_rows, num_columns)
    table, other = normal(num_columns, width), normal(num_rows, width, seed=8)
    scale, values, factor = normal(num_rows, seed=3), normal(num_rows, seed=4), 1.7
    added = {"rows": normal(num_rows, width, seed=6), "one": normal(1, width, seed=7), "none": None}
    wide = factor * dense
    product, size = wide @ table.astype(np.float64), wide @ abs(table).astype(np.float64)
    for own in (values, None):
        by_own = 1.0 if own is None else own[:, None].astype(np.float64)

        def run_transposed(own=own):
            out = np.empty((num_columns, width), np.float32)
            native.multiply_bits_transposed(bits, own, other, out, factor)
            return [out]

        check_close(repeat(run_transposed)[0], wide.T @ (by_own * other), wide.T @ abs(by_own * other))
        for scaled, kind, last in itertools.product((scale, None), added, (True, False)):

            def run(own=own, scaled=scaled, kind=kind, last=last):
                out = np.empty((num_rows, width), np.float32)
                native.multiply_bits(bits, own, table, out, factor, scaled, added[kind], scale_added=last)
                return [out]

            found = repeat(run)[0]
            rest = 0.0 if added[kind] is None else added[kind].astype(np.float64)
            by_row = 1.0 if scaled is None else scaled[:, None].astype(np.float64)
            of_rest = by_row if last else 1.0
            exact = by_row * by_own * product + of_rest * rest
            check_close(found, exact, abs(by_row * by_own) * size + abs(of_rest * rest))


def test_bits_lose_the_entries_that_the_reference_drops(machine):
    dense, bits = bit_rows(1500, 745)
    dropout, out = dropout_of(1500), np.empty_like(bits)
    native.drop_bits(bits, dropout.node_hashes, dropout.key, dropout.threshold, out)
    rows, columns = np.nonzero(dense)
    kept = np.zeros((1500, 768), np.bool_)
    kept[rows, columns] = reference.keep_factors(dropout, rows, columns) > 0
    assert 0 < kept.sum() < dense.sum()
    np.testing.assert_array_equal(np.unpackbits(out, axis=1, bitorder="little"), kept)


@pytest.mark.parametrize("long", [True, False])
@pytest.mark.parametrize("width", [16, 48, 130])
def test_the_transpose_leaves_out_the_same_entries(machine, width, long):
    given = long_rows(width) if long else sample("large", 300)
    dropout, dense = dropout_of(len(given.starts)), normal(len(given.starts), width)
    matrix, magnitudes = given.matrices(True, kept_factors(given, dropout))
    rows, places = given.entries
    order = np.lexsort((rows, given.indices[places]))
    ends = np.cumsum(np.bincount(given.indices[places], minlength=given.num_columns))
    parts = rows[order].astype(np.int32), given.values[places[order]]
    turned = native.Csr(np.concatenate([[0], ends[:-1]]), ends, *parts, len(given.starts))
    out = np.empty((given.num_columns, width), np.float32)
    by_column = replace(dropout, by_column=True)
    native.multiply(turned, dense, out, **dropout_arguments(by_column))
    check_close(out, matrix.T @ dense.astype(np.float64), 2 * (magnitudes.T @ abs(dense)))
    sums = np.zeros((2, len(given.starts), width), np.float32)
    again = normal(given.num_columns, width, seed=2)
    native.multiply_transposed(turned, again, sums, **dropout_arguments(by_column))
    check_close(sums.sum(0), matrix @ again.astype(np.float64), 4 * (magnitudes @ abs(again)))


def test_dropout_is_refused_together_with_loops():
    """Which entries are dropped is drawn by (row, column): a propagation would not stay symmetric."""
    given = sample("small")
    table = normal(len(given.starts), 16)
    with pytest.raises(ValueError, match="without loops"):
        native.multiply(
            given.csr(), table, np.empty_like(table), loops=True, **dropout_arguments(dropout_of(len(given.starts)))
        )


@pytest.mark.parametrize(("width", "size"), CASES)
def test_native_transposed_product_equals_dense_product(machine, size, width):
    given = sample(size, 41)
    dense, dropout = normal(len(given.starts), width), dropout_of(len(given.starts))
    for weighted, dropped, num_parts in ((True, False, 2), (False, False, 1), (True, True, 3), (False, True, 2)):
        matrix, magnitudes = given.matrices(weighted, kept_factors(given, dropout) if dropped else 1.0)

        def run(weighted=weighted, dropped=dropped, num_parts=num_parts):
            sums, more = np.zeros((num_parts, 41, width), np.float32), dropout_arguments(dropout) if dropped else {}
            native.multiply_transposed(given.csr(weighted), dense, sums, **more)
            return [sums]

        check_close(repeat(run)[0].sum(0), matrix.T @ dense.astype(np.float64), 4 * (magnitudes.T @ abs(dense)))


# --- layers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("inner", "size"), CASES)
@pytest.mark.parametrize("has_loops", [True, False])
def test_native_layer_equals_the_formula(machine, size, inner, has_loops):
    given, width = sample(size, None if has_loops else 140_000 // inner + 1), NEXT[inner]
    num_rows = len(given.starts)
    table, bias, weight = normal(given.num_columns, inner), normal(inner, seed=1), normal(inner, width, seed=2)
    scale, out_scale = (normal(num_rows, seed=3), normal(num_rows, seed=4)) if has_loops else (None, None)

    def run():
        hidden, out = (np.empty((num_rows, columns), np.float32) for columns in (inner, width))
        native.forward_layer(given.csr(), table, bias, weight, hidden, out, scale, has_loops, out_scale)
        return hidden, out

    hidden, out = repeat(run)
    matrix, magnitudes = given.matrices()
    summed, magnitude = matrix @ table.astype(np.float64), magnitudes @ abs(table)
    if has_loops:
        summed, magnitude = (scale[:, None] * (summed + table)), abs(scale[:, None]) * (magnitude + abs(table))
    exact, magnitude = np.maximum(summed + bias, 0), magnitude + abs(bias)
    check_close(hidden, exact, magnitude)
    factor = out_scale[:, None].astype(np.float64) if has_loops else 1.0
    check_close(out, factor * (exact @ weight), 2 * abs(factor) * (magnitude @ abs(weight)))


@pytest.mark.parametrize(("inner", "num_rows"), [(width, 70) for width in WIDTHS] + [(32, 2500)])
def test_native_layer_of_dense_rows_equals_the_formula(machine, inner, num_rows):
    depth, width, num_parts = 23, NEXT[inner], 3 if machine[1] == 2 else 1
    rows, table, bias = normal(num_rows, depth), normal(depth, inner, seed=5), normal(inner, seed=1)
    weight, out_scale, gradient = normal(inner, width, seed=2), normal(num_rows, seed=4), normal(num_rows, width)

    def run():
        hidden, out = (np.empty((num_rows, columns), np.float32) for columns in (inner, width))
        native.forward_layer(rows, table, bias, weight, hidden, out, out_scale=out_scale)
        shapes = (inner,), (inner, width), (depth, inner)
        sums = [np.zeros((num_parts, *shape), np.float32) for shape in shapes]
        turned = np.ascontiguousarray(weight.T)
        native.backward_layer(rows, hidden, gradient, turned, *sums[:2], of_table=sums[2])
        of_sums, unused = np.empty((num_rows, inner), np.float32), [np.zeros_like(each) for each in sums[:2]]
        native.backward_layer(rows, hidden, gradient, turned, *unused, of_sums=of_sums)
        return hidden, out, *sums, of_sums

    hidden, out, of_bias, of_weight, of_table, of_sums = repeat(run)
    wide, magnitude = rows.astype(np.float64), abs(rows) @ abs(table) + abs(bias)
    exact = np.maximum(wide @ table + bias, 0)
    check_close(hidden, exact, magnitude)
    check_close(out, out_scale[:, None] * (exact @ weight), 2 * abs(out_scale[:, None]) * (magnitude @ abs(weight)))
    own = (hidden > 0) * (gradient.astype(np.float64) @ weight.T)
    size = (hidden > 0) * (abs(gradient) @ abs(weight.T)) + 1e-6
    check_close(of_sums, own, size)
    check_close(of_bias.sum(0), own.sum(0), 4 * size.sum(0))
    check_close(of_weight.sum(0), hidden.T.astype(np.float64) @ gradient, 4 * (hidden.T @ abs(gradient)) + 1e-6)
    check_close(of_table.sum(0), wide.T @ own, 4 * (abs(rows.T) @ size))


def test_a_layer_of_dense_rows_has_no_loops():
    table, hidden = normal(6, 4), np.empty((6, 4), np.float32)
    with pytest.raises(ValueError, match="sparse"):
        native.forward_layer(normal(6, 6), table, normal(4), normal(4, 4), hidden, hidden.copy(), loops=True)


@pytest.mark.parametrize(("inner", "size"), CASES)
@pytest.mark.parametrize("by_table", [False, True], ids=["of_sums", "of_table"])
def test_native_layer_gradients_equal_the_formula(machine, size, inner, by_table):
    num_parts = 3 if machine[1] == 2 else 1
    given, width = sample(size, 41 if by_table else None), NEXT[inner]
    num_rows, scale = len(given.starts), normal(len(given.starts), seed=3)
    hidden = np.maximum(normal(num_rows, inner), 0)
    gradient, weight = normal(num_rows, width, seed=1), normal(inner, width, seed=2)

    def run():
        of_bias, of_weight = (np.zeros((num_parts, *s), np.float32) for s in ((inner,), (inner, width)))
        of_sums = None if by_table else np.empty((num_rows, inner), np.float32)
        of_table = np.zeros((num_parts, 41, inner), np.float32) if by_table else None
        turned = np.ascontiguousarray(weight.T)
        native.backward_layer(given.csr(), hidden, gradient, turned, of_bias, of_weight, of_sums, of_table, scale)
        return of_bias, of_weight, of_table if by_table else of_sums

    of_bias, of_weight, rest = repeat(run)
    gate, wide = hidden > 0, gradient.astype(np.float64)
    own, magnitude = gate * (wide @ weight.T), gate * (abs(wide) @ abs(weight.T))
    check_close(of_bias.sum(0), own.sum(0), 4 * magnitude.sum(0) + 1e-6)
    check_close(of_weight.sum(0), hidden.T.astype(np.float64) @ wide, 4 * (hidden.T @ abs(wide)))
    factor = scale[:, None].astype(np.float64)
    if by_table:
        matrix, magnitudes = given.matrices()
        check_close(rest.sum(0), matrix.T @ (factor * own), 4 * (magnitudes.T @ (abs(factor) * magnitude)))
    else:
        check_close(rest, factor * own, abs(factor) * magnitude)


@pytest.mark.parametrize("width", [3, 16, 130])
def test_what_is_not_a_number_passes_through_a_layer(machine, width):
    given = sample("small")
    num_rows = len(given.starts)
    table, weight = np.ones((num_rows, width), np.float32), np.ones((width, width), np.float32)
    table[7, 1] = np.nan
    hidden, out = np.empty_like(table), np.empty_like(table)
    native.forward_layer(given.csr(False), table, np.zeros(width, np.float32), weight, hidden, out)
    reads = next(given.matrices(False)).toarray()[:, 7] > 0
    assert 0 < reads.sum() < num_rows
    assert (np.isnan(out).all(1) == reads).all()
    assert (np.isnan(hidden).any(1) == reads).all()
    product = np.empty_like(table)
    native.multiply(given.csr(False), table, product)
    assert (np.isnan(product).any(1) == reads).all()


@pytest.mark.parametrize(("width", "size"), CASES)
def test_native_product_of_dense_rows_equals_the_formula(machine, size, width):
    for num_rows, depth in ((1, 1), (63, 13), (130, 600)) if size == "small" else ((4_000, 5),):
        rows, table = normal(num_rows, depth), normal(depth, width, seed=1)
        out, exact, magnitude = (
            np.empty((num_rows, width), np.float32),
            rows.astype(np.float64) @ table,
            abs(rows) @ abs(table),
        )
        for added, scale in (
            (None, None),
            (normal(width, seed=2), None),
            (None, normal(num_rows, seed=3)),
            (normal(width, seed=2), normal(num_rows, seed=3)),
        ):
            native.multiply_dense(rows, table, out, added, scale)
            rest, factor = 0.0 if added is None else added.astype(np.float64), 1.0 if scale is None else scale[:, None]
            check_close(out, factor * (exact + rest), 2 * abs(factor) * (magnitude + abs(rest)))


@pytest.mark.parametrize(("width", "size"), CASES)
def test_native_transposed_product_of_dense_rows_equals_the_formula(machine, size, width):
    for num_rows, depth in ((1, 1), (63, 13), (130, 600)) if size == "small" else ((4_000, 5),):
        rows, dense, num_parts = normal(num_rows, depth), normal(num_rows, width, seed=1), 1 + machine[1]

        def run(rows=rows, dense=dense, num_parts=num_parts):
            sums = np.zeros((num_parts, rows.shape[1], width), np.float32)
            native.multiply_dense_transposed(rows, dense, sums)
            return [sums]

        exact = rows.T.astype(np.float64) @ dense
        check_close(repeat(run)[0].sum(0), exact, 4 * (abs(rows).T @ abs(dense)))


@pytest.mark.parametrize(("width", "size"), CASES)
def test_native_rows_are_summed_like_numpy_rows(machine, size, width):
    num_rows, num_parts = {"small": 61, "large": 4001}[size], 1 + machine[1]
    table, before = normal(num_rows, width), normal(num_parts, width, seed=1)

    def run():
        sums = before.copy()
        native.sum_rows(table, sums)
        return [sums]

    exact = table.sum(0, dtype=np.float64) + before.sum(0, dtype=np.float64)
    magnitude = abs(table).sum(0, dtype=np.float64) + abs(before).sum(0)
    check_close(repeat(run)[0].sum(0), exact, 4 * magnitude)


@pytest.mark.parametrize(("width", "size"), CASES)
def test_native_rows_move_like_numpy_rows(machine, size, width):
    num_rows = {"small": 60, "large": 3000 if width > 100 else 25_000}[size]
    table, scale = normal(num_rows, width), normal(num_rows, seed=1)
    order = np.random.default_rng(0).integers(0, num_rows, num_rows).astype(np.int32)
    before = normal(num_rows, width, seed=2)
    for places in (None, order):
        chosen = table if places is None else table[places]
        out = np.empty_like(table)
        native.move_rows(table, out, places)
        np.testing.assert_array_equal(out, chosen)
        native.move_rows(table, out, places, scale)
        np.testing.assert_array_equal(out, scale[:, None] * chosen)
        out = before.copy()
        native.move_rows(table, out, places, None, True)
        np.testing.assert_array_equal(out, before + chosen)
        out = before.copy()
        native.move_rows(table, out, places, scale, True)
        exact = before.astype(np.float64) + scale[:, None].astype(np.float64) * chosen
        check_close(out, exact, abs(before) + abs(scale[:, None] * chosen))


# --- pair losses -----------------------------------------------------------------------------------------


def pair_formula(rows, columns, weights, left, right, bias, sign):
    """(loss, slope by the bias, gradients of both sides with the magnitudes of their terms) in float64."""
    shape, wide = (len(left), len(right)), (left.astype(np.float64), right.astype(np.float64))
    scores = sign * ((wide[0][rows] * wide[1][columns]).sum(1) + bias)
    slopes = -sign * weights / (1 + np.exp(scores))
    matrix = sp.csr_array(sp.coo_array((slopes, (rows, columns)), shape=shape))
    sizes = sp.csr_array(sp.coo_array((abs(slopes), (rows, columns)), shape=shape))
    gradients = (matrix @ wide[1], sizes @ abs(wide[1])), (matrix.T @ wide[0], sizes.T @ abs(wide[0]))
    return (weights * np.logaddexp(0, -scores)).sum(), slopes.sum(), *gradients


def check_pairs(found, exact, right=True):
    """`found`: (loss, slope), then gradients; without a right side both gradients are of the same table."""
    (loss, slope), gradients = found[0], found[1:]
    assert loss == pytest.approx(exact[0], rel=2e-6)
    assert slope == pytest.approx(exact[1], rel=2e-6, abs=2e-6 * abs(exact[0]))
    (one, size), (other, other_size) = exact[2:]
    if right:
        check_close(gradients[0], one, 8 * size + 1e-6 * size.max())
        check_close(gradients[1], other, 8 * other_size + 1e-6 * other_size.max())
    else:
        check_close(gradients[0], one + other, 8 * (size + other_size) + 1e-6 * (size + other_size).max())


@lru_cache
def symmetric_arcs(size):
    """(indptr, indices, weights of two blocks, weights of arcs): two blocks without an edge between them."""
    num_rows, generator = {"small": 60, "large": 3000}[size], np.random.default_rng(0)
    half = num_rows // 2
    ends = np.concatenate(
        [generator.integers(0, half, (2, 4 * num_rows)), generator.integers(half, num_rows, (2, 3))], 1
    )
    upper = sp.coo_array((generator.random(ends.shape[1]) + 0.1, tuple(ends)), shape=(num_rows, num_rows))
    matrix = sp.csr_array(sp.triu(upper + upper.T, 1))
    matrix = sp.csr_array(matrix + matrix.T)
    matrix.sort_indices()
    by_row = np.repeat(np.array([0.7, 0.2], np.float32), half)
    assert size == "small" or matrix.nnz > 20_000  # two threads share the work
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), by_row, matrix.data.astype(np.float32)


@pytest.mark.parametrize(("width", "size"), CASES)
@pytest.mark.parametrize("two_sides", [False, True], ids=["one side", "two sides"])
def test_native_loss_of_arcs_equals_the_formula(machine, size, width, two_sides):
    kind = {1: "all", 3: "row", 8: "pair", 16: "pair", 20: "row", 32: "all", 48: "row"}.get(width, "pair")
    indptr, indices, by_row, by_pair = symmetric_arcs(size)
    num_rows = len(indptr) - 1
    rows = np.repeat(np.arange(num_rows), np.diff(indptr))
    weights = {"all": np.full(1, 0.3, np.float32), "row": by_row, "pair": by_pair}[kind]
    each = {"all": np.full(len(rows), 0.3), "row": by_row[rows], "pair": by_pair}[kind].astype(np.float64)
    left, sign = normal(num_rows, width) / np.float32(width**0.5), 1.0 if two_sides else -1.0
    # A score that is the same in both directions: left_u S left_v with a diagonal S.
    right = left * np.linspace(-1, 2, width, dtype=np.float32) if two_sides else None
    arcs = native.Csr(indptr[:-1], indptr[1:], indices, None, num_rows)

    def run():
        of_left, of_right = np.empty_like(left), np.empty_like(left) if two_sides else None
        found = native.score_arcs(arcs, weights, kind, left, right, 0.25, sign, of_left, of_right)
        return found, of_left, *([of_right] if two_sides else [])

    exact = pair_formula(rows, indices, each, left, right if two_sides else left, 0.25, sign)
    check_pairs(repeat(run), exact, two_sides)


@pytest.mark.parametrize("width", [1, 16])
def test_arcs_with_gaps_between_their_rows(machine, width):
    """The arcs of an epoch's mask: the last entries of every row."""
    indptr, indices, _, by_pair = symmetric_arcs("large")
    num_rows = len(indptr) - 1
    rows = np.repeat(np.arange(num_rows), np.diff(indptr))
    chosen = reference.hash_pairs(rows.astype(np.int32), indices, KEY) < 2**31
    order = np.lexsort((chosen, rows))
    starts = indptr[1:] - np.bincount(rows[chosen], minlength=num_rows)
    left, of_left = normal(num_rows, width), np.empty((num_rows, width), np.float32)
    arcs = native.Csr(starts, indptr[1:], indices[order], None, num_rows)
    found = native.score_arcs(arcs, by_pair[order], "pair", left, None, 0.0, 1.0, of_left, None)
    exact = pair_formula(rows[chosen], indices[chosen], by_pair[chosen].astype(np.float64), left, left, 0.0, 1.0)
    check_pairs((found, of_left), exact, right=False)


@pytest.mark.parametrize(
    ("num_pairs", "width", "kind"),
    [
        *((num_pairs, 16, "pair") for num_pairs in (0, 1, 255, 256, 257)),
        *((700, width, kind) for width, kind in zip(WIDTHS, 4 * ("all", "row", "pair"), strict=False)),
        *((21_000, width, "pair") for width in (3, 16)),
    ],
)
@pytest.mark.parametrize("two_sides", [False, True], ids=["one side", "two sides"])
def test_native_loss_of_a_list_equals_the_formula(machine, num_pairs, width, kind, two_sides):
    generator = np.random.default_rng(0)
    num_left, num_right, num_parts = 50, 70 if two_sides else 50, 1 + (num_pairs > 1000)
    rows = np.sort(generator.integers(0, num_left, num_pairs)).astype(np.int32)  # pairs twice, and rows with themselves
    columns = generator.integers(0, num_right, num_pairs).astype(np.int32)
    weights = normal(*{"all": (1,), "row": (num_left,), "pair": (num_pairs,)}[kind]) ** 2 + np.float32(0.1)
    each = {"all": np.full(num_pairs, weights[:1]), "row": weights[rows] if kind == "row" else 0, "pair": weights}[kind]
    left, right = (normal(n, width) / np.float32(width**0.5) for n in (num_left, num_right))
    sign = -1.0 if two_sides else 1.0

    def run():
        of_left = np.zeros((num_parts, num_left, width), np.float32)
        of_right = np.zeros((num_parts, num_right, width), np.float32) if two_sides else None
        tables = left, right if two_sides else None
        found = native.score_list(rows, columns, weights, kind, *tables, -0.5, sign, of_left, of_right)
        return found, of_left.sum(0), *([of_right.sum(0)] if two_sides else [])

    exact = pair_formula(rows, columns, np.asarray(each, np.float64), left, right if two_sides else left, -0.5, sign)
    found = repeat(run)
    if num_pairs == 0:
        assert found[0] == (0.0, 0.0)
        assert not found[1].any()
    else:
        check_pairs(found, exact, two_sides)


def test_gradients_of_a_list_are_added_to_what_is_there(machine):
    rows, columns, left = np.array([1, 1], np.int32), np.array([0, 2], np.int32), normal(3, 16)
    of_left = np.ones((1, 3, 16), np.float32)
    native.score_list(rows, columns, np.ones(1, np.float32), "all", left, None, 0.0, 1.0, of_left, None)
    again = np.zeros_like(of_left)
    native.score_list(rows, columns, np.ones(1, np.float32), "all", left, None, 0.0, 1.0, again, None)
    assert of_left == pytest.approx(again + 1, abs=1e-6)


@pytest.mark.parametrize(("width", "size"), CASES)
def test_native_products_of_ends_and_their_gradient_equal_the_formula(machine, size, width):
    num_pairs = {"small": 30, "large": 2_000 if width > 100 else 21_000}[size]
    generator, table = np.random.default_rng(0), normal(90, width)
    rows, columns = generator.integers(0, 90, (2, num_pairs)).astype(np.int32)
    products = np.empty((num_pairs, width), np.float32)
    native.multiply_ends(table, rows, columns, products)
    np.testing.assert_array_equal(products, table[rows] * table[columns])
    of_products, before = normal(num_pairs, width, seed=1), normal(90, width, seed=2)

    def run():
        of_table = before.copy()
        native.spread_to_ends(of_table, table, rows, columns, of_products)
        return [of_table]

    exact, magnitude = before.astype(np.float64), abs(before).astype(np.float64)
    for one, other in ((rows, columns), (columns, rows)):
        pick = sp.csr_array(sp.coo_array((np.ones(num_pairs), (one, np.arange(num_pairs))), shape=(90, num_pairs)))
        terms = of_products * table[other].astype(np.float64)
        exact, magnitude = exact + pick @ terms, magnitude + pick @ abs(terms)
    check_close(repeat(run)[0], exact, 4 * magnitude)


# --- negatives -------------------------------------------------------------------------------------------


def random_patches(sizes, density=0.1, seed=0):
    """(edges, held out, nodes, offsets) of stacked patches: symmetric patterns, nodes of a larger graph."""
    generator, blocks = np.random.default_rng(seed), ([], [])
    for size in sizes:
        drawn = np.triu(generator.random((size, size)), 1)
        for place, (low, high) in enumerate(((1 - density, 1.0), (1 - 1.2 * density, 1 - density))):
            chosen = (drawn > low) & (drawn <= high)
            blocks[place].append(sp.csr_array((chosen | chosen.T).astype(np.float32)))
    edges, held_out = (sp.csr_array(sp.block_diag(each, format="csr")) for each in blocks)
    nodes = np.concatenate([generator.permutation(3 * max(sizes))[:size] for size in sizes])
    return edges, held_out, nodes, np.concatenate([[0], np.cumsum(sizes)])


STACKED = random_patches([300, 1, 90, 0, 410])


def as_numbers(rows, columns, num_rows):
    return np.sort(np.asarray(rows, np.int64) * num_rows + columns)


@pytest.fixture(params=[1, 4], ids=lambda times: f"{times} times as many")
def plan(request):
    """With few rounds tables are read in their own order, with many in that of the tiles."""
    edges, held_out, nodes, offsets = STACKED
    counts = request.param * np.array([4000, 3, 900, 5, 9000])
    return plan_negatives(edges, held_out, nodes, offsets, counts, patches=np.arange(5) + 3)


def test_native_list_has_the_draws_of_the_reference(machine, plan):
    listed = plan.list_pairs(seed=4, epoch=2)
    rows, columns = plan.draws.draw_rows(np.arange(plan.draws.num_rows), seed=4, epoch=2)
    allowed = ~plan._is_excluded(rows, columns)
    assert (~allowed).any()
    expected = as_numbers(rows[allowed], columns[allowed], len(plan.draws.order))
    np.testing.assert_array_equal(as_numbers(listed.rows, listed.columns, len(plan.draws.order)), expected)
    again = plan.list_pairs(seed=4, epoch=2)
    np.testing.assert_array_equal(again.rows, listed.rows)
    np.testing.assert_array_equal(again.columns, listed.columns)


def test_the_list_is_the_same_for_any_threads_and_instructions(plan):
    found = []
    for level in native.instruction_sets():
        for threads in (1, 2):
            native.set_instruction_set(level)
            core.set_num_threads(threads)
            listed = plan.list_pairs(seed=0, epoch=0)
            found.append(np.stack([listed.rows, listed.columns]))
    assert found[0].shape[1] > 10_000
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@pytest.mark.parametrize("width", WIDTHS)
def test_native_loss_of_negatives_equals_that_of_their_list(machine, plan, width):
    two_sides = width == 64 or (plan.draws.num_rounds[0] == 1 and width in (3, 16, 48, 130))
    num_rows, listed = plan.draws.num_rows, plan.list_pairs(seed=1, epoch=5)
    left, right = (normal(num_rows, width, seed=s) / np.float32(width**0.5) for s in (0, 1))
    begun = normal(num_rows, width, seed=2) * np.float32(1e-4)

    def run():
        of_left, of_right = begun.copy(), begun.copy() if two_sides else None
        tables = left, right if two_sides else None, 0.3, of_left, of_right
        found = plan.score(*tables, seed=1, epoch=5)
        return found, of_left, *([of_right] if two_sides else [])

    weights = listed.pair_weights.astype(np.float64)
    right = right if two_sides else left
    loss, slope, *sides = pair_formula(listed.rows, listed.columns, weights, left, right, 0.3, -1.0)
    if two_sides:
        sides = [(exact + begun, size + abs(begun)) for exact, size in sides]
    else:
        sides[0] = sides[0][0] + begun, sides[0][1] + abs(begun)
    check_pairs(repeat(run), (loss, slope, *sides), two_sides)


def test_only_wanted_rows_are_listed(machine, plan):
    wanted = np.random.default_rng(0).random(plan.draws.num_rows) < 0.3
    every, some = plan.list_pairs(seed=0, epoch=1), replace(plan, wanted=wanted).list_pairs(seed=0, epoch=1)
    chosen = wanted[every.rows]
    np.testing.assert_array_equal(some.rows, every.rows[chosen])
    np.testing.assert_array_equal(some.columns, every.columns[chosen])


def test_rows_of_two_ranks_are_scored_like_all_together(machine, plan):
    """What two ranks score of the same vectors, each its own rows, adds up to what one process scores."""
    wanted, left = np.random.default_rng(0).random(plan.draws.num_rows) < 0.3, normal(plan.draws.num_rows, 16)
    found = []
    for rows in (None, wanted, ~wanted):
        gradient = np.zeros_like(left)
        loss = replace(plan, wanted=rows).score(left, None, 0.3, gradient, None, seed=1, epoch=5)
        found.append((*loss, gradient))
    for whole, one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one + other, whole, rtol=1e-5, atol=1e-6)
    assert found[1][0] > 0
    assert found[2][0] > 0


def test_native_pattern_is_packed_like_that_of_the_reference(machine):
    for num_rows, density in ((0, 0.1), (1, 0.1), (40, 0.0), (40, 0.4), (900, 0.03)):
        generator, parts = np.random.default_rng(num_rows), []
        for _ in range(2):
            matrix = sp.random_array((num_rows, num_rows), density=density, rng=generator, format="csr")
            parts += [matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)]
        order = generator.permutation(num_rows).astype(np.int32)
        places = np.argsort(order).astype(np.int32)
        found = native.pack_pattern(*parts, order, places)
        for one, other in zip(found, reference.pack_pattern(*parts, order, places), strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
        assert num_rows < 900 or len(found[1]) > 20_000


@pytest.mark.parametrize("only_some", [False, True])
def test_native_targets_are_those_of_the_reference(machine, only_some):
    generator, offsets = np.random.default_rng(3), np.array([0, 300, 300, 301, 900], np.int64)
    num_rows, blocks = 900, []
    for size in np.diff(offsets):
        blocks.append(sp.random_array((size, size), density=0.2, rng=generator, format="csr"))
    excluded = sp.csr_array(sp.block_diag(blocks, format="csr"))
    excluded.sort_indices()
    units = generator.integers(0, 5, num_rows)
    units[300] = 2
    places = np.arange(num_rows, dtype=np.int32)
    places[:300] = generator.permutation(300)
    arguments = (
        offsets,
        np.array([4000, 0, 3, 9001], np.int64),
        np.array([7, 0, 0, 599], np.int64),
        generator.integers(0, 2**63, 4).astype(np.uint64),
        np.concatenate([[0], np.cumsum(units)]),
        reference.hash_nodes(generator.permutation(num_rows).astype(np.int32), KEY),
        places,
        excluded.indptr.astype(np.int64),
        excluded.indices.astype(np.int32),
        (generator.random(num_rows) < 0.3).astype(np.uint8) if only_some else None,
    )
    rows, columns = native.draw_targets(*arguments)
    for one, other in zip((rows, columns), reference.draw_targets(*arguments), strict=True):
        assert one.dtype == other.dtype == np.int32
        np.testing.assert_array_equal(one, other)
    assert len(rows) > (2000 if only_some else 8000)
    assert (rows != columns).all()
    assert (units[columns] > 0).all()
    assert not excluded.toarray()[places[rows], places[columns]].any()


# --- hashes and masks ------------------------------------------------------------------------------------


def mix(word):
    """core/cpp/hashing.hpp in whole numbers."""
    word ^= word >> 16
    word = word * 0x7FEB352D % 2**32
    word ^= word >> 15
    word = word * 0x846CA68B % 2**32
    return word ^ word >> 16


@pytest.mark.parametrize("key", [0, 1, 2**32 - 1, 2**63, 2**64 - 1, KEY])
def test_hashes_have_the_bits_of_the_formula(machine, key):
    generator = np.random.default_rng(0)
    one, other = generator.integers(0, 2**31, (2, 1003)).astype(np.int32)
    one[:2], other[:2] = (0, 2**31 - 1), (2**31 - 1, 0)
    hashes, words, turned = (np.empty(1003, np.uint32) for _ in range(3))
    native.hash_nodes(one, key, hashes)
    native.hash_pairs(one, other, key, words)
    native.hash_pairs(other, one, key, turned)
    by_hand = [[mix((int(node) + key) % 2**32) for node in nodes] for nodes in (one, other)]
    assert hashes.tolist() == by_hand[0]
    assert words.tolist() == [mix((u + v) % 2**32 ^ key >> 32) for u, v in zip(*by_hand, strict=True)]
    np.testing.assert_array_equal(turned, words)
    np.testing.assert_array_equal(hashes, reference.hash_nodes(one, key))
    np.testing.assert_array_equal(words, reference.hash_pairs(one, other, key))
    np.testing.assert_array_equal(words, core.hash_pairs(one, other, key))


@pytest.mark.parametrize(("width", "size"), CASES)
def test_dense_rows_lose_the_entries_that_the_reference_drops(machine, size, width):
    num_rows = {"small": 40, "large": 100_000 // width + 1}[size]
    values, dropout, out = normal(num_rows, width), dropout_of(num_rows), np.empty((num_rows, width), np.float32)
    native.drop_dense(values, *dropout_arguments(dropout).values(), out)
    rows, columns = np.divmod(np.arange(num_rows * width), width)
    np.testing.assert_array_equal(out.ravel(), values.ravel() * reference.keep_factors(dropout, rows, columns))


@pytest.mark.parametrize(
    ("size", "weighted", "num_groups"),
    [
        ("small", False, 0),
        ("small", False, 3),
        ("small", True, 0),
        ("small", True, 3),
        ("large", False, 0),
        ("large", True, 3),
    ],
)
@pytest.mark.parametrize(("hidden", "scored"), [(0.0, 0.0), (0.3, 0.3), (0.7, 0.2), (1.0, 0.5), (1.0, 1.0)])
def test_native_mask_hides_what_the_formula_hides(machine, size, weighted, num_groups, hidden, scored):
    given = sample(size)
    num_rows = len(given.starts)
    indptr, values = np.append(given.starts, len(given.indices)), abs(given.values)
    nodes = np.random.default_rng(2).permutation(10 * num_rows)[:num_rows].astype(np.int32)
    groups = None if num_groups == 0 else np.random.default_rng(3).integers(0, 3, num_rows).astype(np.int32)
    below, scored_below = round(hidden * 2**32), round(scored * 2**32)
    csr = native.Csr(indptr[:-1], indptr[1:], given.indices, values if weighted else None, num_rows)

    def run():
        outputs = (
            np.zeros_like(given.indices),
            np.zeros_like(values) if weighted else None,
            *(np.empty(num_rows, np.int64) for _ in range(2)),
            np.empty(num_rows, np.float32),
        )
        native.split_masked(csr, indptr, reference.hash_nodes(nodes, KEY), groups, KEY, below, scored_below, *outputs)
        return [each for each in outputs if each is not None]

    indices, *out_values, visible_ends, scored_starts, scale = repeat(run)
    rows = np.repeat(np.arange(num_rows), np.diff(indptr))
    words = reference.hash_pairs(nodes[rows], nodes[given.indices], KEY)
    between = np.ones(len(rows), bool) if groups is None else groups[rows] != groups[given.indices]
    is_hidden, is_scored = between & (words < below), between & (words < scored_below)
    np.testing.assert_array_equal(visible_ends, indptr[:-1] + np.bincount(rows[~is_hidden], minlength=num_rows))
    np.testing.assert_array_equal(scored_starts, indptr[1:] - np.bincount(rows[is_scored], minlength=num_rows))
    places = np.arange(len(rows))
    seen, asked = places < visible_ends[rows], places >= scored_starts[rows]
    for out, given_values in ((indices, given.indices), *((out, values) for out in out_values)):
        np.testing.assert_array_equal(out[seen], given_values[~is_hidden])  # in their order
        found, expected = out[asked], given_values[is_scored]  # in any order inside a row
        np.testing.assert_array_equal(
            found[np.lexsort((found, rows[asked]))], expected[np.lexsort((expected, rows[is_scored]))]
        )
    if weighted:  # an entry keeps its value
        pairs = set(zip(rows.tolist(), given.indices.tolist(), values.tolist(), strict=True))
        assert set(zip(*(part[asked].tolist() for part in (rows, indices, out_values[0])), strict=True)) <= pairs
    each = (values if weighted else np.ones(len(rows))).astype(np.float64)
    degrees = 1 + np.bincount(rows, weights=each * ~is_hidden, minlength=num_rows)
    check_close(scale, degrees**-0.5, degrees**-0.5)


@pytest.mark.parametrize("num_groups", [0, 3])
def test_native_mask_of_some_rows_is_that_of_all(machine, num_groups):
    given = sample("small")
    num_rows = len(given.starts)
    indptr = np.append(given.starts, len(given.indices))
    hashes = reference.hash_nodes(np.arange(num_rows, dtype=np.int32), KEY)
    groups = None if num_groups == 0 else np.random.default_rng(3).integers(0, 3, num_rows).astype(np.int32)

    def run(low, high):
        own = indptr[low : high + 1] - indptr[low]
        indices = given.indices[indptr[low] : indptr[high]]
        ends = np.empty(high - low, np.int64), np.empty(high - low, np.int64)
        out, csr = np.zeros_like(indices), native.Csr(own[:-1], own[1:], indices, None, num_rows)
        native.split_masked(csr, own, hashes, groups, KEY, 2**31, 2**30, out, None, *ends, None, low)
        return [out[start:end].tolist() for start, end in zip(own[:-1], ends[0], strict=True)]

    cut = num_rows // 3
    assert run(0, cut) + run(cut, num_rows) == run(0, num_rows)
    csr = native.Csr(indptr[:-1], indptr[1:], given.indices, None, num_rows)
    out = np.zeros_like(given.indices), None, np.empty(num_rows, np.int64), np.empty(num_rows, np.int64), None
    with pytest.raises(ValueError, match="every row must be one of the columns"):
        native.split_masked(csr, indptr, hashes, None, KEY, 9, 4, *out, 1)


# --- Adam ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 7, 16, 5003])
def test_native_adam_equals_the_formula(machine, count):
    values, means, squares = normal(count), np.zeros(count, np.float32), np.zeros(count, np.float32)
    wide = [part.astype(np.float64) for part in (values, means, squares)]
    for step in range(1, 8):
        gradient = normal(count, seed=step)
        corrections = 1 - 0.9**step, 1 - 0.999**step
        native.step_adam(values, gradient, means, squares, 0.05, *corrections)
        wide[1] = 0.9 * wide[1] + 0.1 * gradient
        wide[2] = 0.999 * wide[2] + 0.001 * np.square(gradient, dtype=np.float64)
        wide[0] = wide[0] - 0.05 * (wide[1] / corrections[0]) / (np.sqrt(wide[2] / corrections[1]) + 1e-8)
    for found, exact in zip((values, means, squares), wide, strict=True):
        check_close(found, exact, 1 + abs(exact))


# --- wrong arguments -------------------------------------------------------------------------------------

# The compiled module alone: without torch a process starts at once.
LOAD = """
import importlib.util, sys
import numpy as np

spec = importlib.util.spec_from_file_location("_native", sys.argv[1])
native = importlib.util.module_from_spec(spec)
spec.loader.exec_module(native)
"""


def run_alone(code):
    """Run code that uses the compiled module in a process of its own."""
    command = [sys.executable, "-c", LOAD + code, native.__file__]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


REFUSED = (TypeError, ValueError, IndexError)


def good_calls():
    """{name: (function, arguments, names of outputs)} of calls in which everything fits."""
    n, width, inner = 6, 4, 3
    indptr = np.array([0, 2, 3, 3, 5, 6, 8], np.int64)
    indices = np.array([1, 5, 0, 2, 4, 3, 0, 1], np.int32)
    values, hashes, ends = np.ones(8, np.float32), np.arange(n, dtype=np.uint32), np.arange(n, dtype=np.int32)
    csr = native.Csr(indptr[:-1], indptr[1:], indices, values, n)
    table, row = normal(n, width), normal(n)
    patch = {
        "indptr": indptr,
        "columns": indices,
        "offsets": np.array([0, n]),
        "num_columns": np.array([6]),
        "num_rounds": np.array([2]),
        "weights": np.ones(1, np.float32),
        "order": ends[::-1].copy(),
        "places": ends[::-1].copy(),
    }
    packed, keys = native.PackedNegatives(**patch), np.array([77], np.uint64)

    def out(*shape):
        return np.zeros(shape, np.float32)

    dropout = {"node_hashes": hashes, "key": 1, "threshold": 2**31, "factor": 2.0}
    layer = {"matrix": csr, "table": normal(n, inner), "bias": normal(inner), "weight": normal(inner, width)}
    one = np.ones(1, np.float32)
    return {
        "Csr": (
            native.Csr,
            {
                "starts": indptr[:-1].copy(),
                "ends": indptr[1:].copy(),
                "indices": indices,
                "values": values,
                "num_columns": n,
            },
            (),
        ),
        "multiply": (
            native.multiply,
            {
                "matrix": csr,
                "table": table,
                "out": out(n, width),
                "scale": row,
                "loops": False,
                "added": normal(n, width),
                **dropout,
            },
            ("out",),
        ),
        "multiply_two": (
            native.multiply_two,
            {
                "matrix": csr,
                "one": normal(n, 32),
                "two": normal(n, 16),
                "out_one": out(n, 32),
                "out_two": out(n, 16),
                "added_one": normal(32),
                "added_two": normal(16),
                "scale": row,
                **dropout,
            },
            ("out_one", "out_two"),
        ),
        "multiply_transposed": (
            native.multiply_transposed,
            {"matrix": csr, "dense": table, "sums": out(2, n, width), **dropout},
            ("sums",),
        ),
        "multiply_bits": (
            native.multiply_bits,
            {
                "bits": np.zeros((n, 16), np.uint8),
                "values": row,
                "table": table,
                "out": out(n, width),
                "scale": row,
                "added": normal(n, width),
            },
            ("out",),
        ),
        "multiply_bits_transposed": (
            native.multiply_bits_transposed,
            {"bits": np.zeros((n, 16), np.uint8), "values": row, "dense": table, "out": out(n, width)},
            ("out",),
        ),
        "drop_bits": (
            native.drop_bits,
            {
                "bits": np.zeros((n, 16), np.uint8),
                "node_hashes": hashes,
                "key": 1,
                "threshold": 2**31,
                "out": np.zeros((n, 16), np.uint8),
            },
            ("out",),
        ),
        "forward_layer": (
            native.forward_layer,
            {**layer, "hidden": out(n, inner), "out": out(n, width), "scale": row, "loops": True, "out_scale": row},
            ("hidden", "out"),
        ),
        "backward_layer": (
            native.backward_layer,
            {
                "matrix": csr,
                "hidden": normal(n, inner),
                "gradient": table,
                "turned": normal(width, inner),
                "of_bias": out(2, inner),
                "of_weight": out(2, inner, width),
                "of_sums": out(n, inner),
                "scale": row,
            },
            ("of_bias", "of_weight", "of_sums"),
        ),
        "backward_layer of_table": (
            native.backward_layer,
            {
                "matrix": csr,
                "hidden": normal(n, inner),
                "gradient": table,
                "turned": normal(width, inner),
                "of_bias": out(2, inner),
                "of_weight": out(2, inner, width),
                "of_table": out(2, n, inner),
            },
            ("of_bias", "of_weight", "of_table"),
        ),
        "move_rows": (
            native.move_rows,
            {"table": table, "out": out(n, width), "order": ends, "scale": row},
            ("out",),
        ),
        "multiply_dense": (
            native.multiply_dense,
            {
                "rows": table,
                "table": normal(width, inner),
                "out": out(n, inner),
                "added": normal(inner),
                "scale": row,
            },
            ("out",),
        ),
        "multiply_dense_transposed": (
            native.multiply_dense_transposed,
            {"rows": table, "dense": normal(n, inner), "sums": out(2, width, inner)},
            ("sums",),
        ),
        "sum_rows": (native.sum_rows, {"table": table, "sums": out(2, width)}, ("sums",)),
        "score_arcs": (
            native.score_arcs,
            {
                "arcs": csr,
                "weights": values,
                "kind": "pair",
                "left": table,
                "right": table,
                "bias": 0.0,
                "sign": 1.0,
                "of_left": out(n, width),
                "of_right": out(n, width),
            },
            ("of_left", "of_right"),
        ),
        "score_list": (
            native.score_list,
            {
                "rows": ends,
                "columns": ends[::-1].copy(),
                "weights": row,
                "kind": "pair",
                "left": table,
                "right": table,
                "bias": 0.0,
                "sign": 1.0,
                "of_left": out(1, n, width),
                "of_right": out(1, n, width),
            },
            ("of_left", "of_right"),
        ),
        "score_list all": (
            native.score_list,
            {
                "rows": ends,
                "columns": ends,
                "weights": one,
                "kind": "all",
                "left": table,
                "right": None,
                "bias": 0.0,
                "sign": 1.0,
                "of_left": out(1, n, width),
                "of_right": None,
            },
            ("of_left",),
        ),
        "multiply_ends": (
            native.multiply_ends,
            {"table": table, "rows": ends, "columns": ends, "products": out(n, width)},
            ("products",),
        ),
        "spread_to_ends": (
            native.spread_to_ends,
            {"of_table": out(n, width), "table": table, "rows": ends, "columns": ends, "of_products": out(n, width)},
            ("of_table",),
        ),
        "PackedNegatives": (native.PackedNegatives, patch, ()),
        "PackedNegatives.score": (
            packed.score,
            {
                "keys": keys,
                "left": table,
                "right": table,
                "bias": 0.0,
                "of_left": out(n, width),
                "of_right": out(n, width),
            },
            ("of_left", "of_right"),
        ),
        "PackedNegatives.list": (
            packed.list,
            {"keys": keys, "wanted": np.ones(n, np.uint8)},
            (),
        ),
        "split_masked": (
            native.split_masked,
            {
                "adjacency": csr,
                "indptr": indptr,
                "node_hashes": hashes,
                "groups": ends,
                "key": 1,
                "hidden_below": 9,
                "scored_below": 4,
                "out_indices": np.zeros(8, np.int32),
                "out_values": out(8),
                "visible_ends": np.zeros(n, np.int64),
                "scored_starts": np.zeros(n, np.int64),
                "scale": out(n),
            },
            ("out_indices", "out_values", "visible_ends", "scored_starts", "scale"),
        ),
        "step_adam": (
            native.step_adam,
            {
                "values": out(n),
                "gradient": row,
                "means": out(n),
                "squares": out(n),
                "rate": 0.1,
                "mean_correction": 0.1,
                "square_correction": 0.001,
            },
            ("values", "means", "squares"),
        ),
        "hash_nodes": (native.hash_nodes, {"nodes": ends, "key": 1, "out": np.zeros(n, np.uint32)}, ("out",)),
        "hash_pairs": (
            native.hash_pairs,
            {"one": ends, "other": ends, "key": 1, "out": np.zeros(n, np.uint32)},
            ("out",),
        ),
        "drop_dense": (native.drop_dense, {"values": table, **dropout, "out": out(n, width)}, ("out",)),
        "pack_pattern": (
            native.pack_pattern,
            {
                "indptr": indptr,
                "indices": indices,
                "other_indptr": indptr,
                "other_indices": indices,
                "order": ends,
                "places": ends,
            },
            (),
        ),
        "draw_targets": (
            native.draw_targets,
            {
                "offsets": np.array([0, n], np.int64),
                "num_draws": np.array([9], np.int64),
                "shifts": np.array([0], np.int64),
                "keys": np.array([1], np.uint64),
                "unit_starts": np.arange(n + 1),
                "node_hashes": np.arange(n, dtype=np.uint32),
                "places": ends,
                "indptr": indptr,
                "columns": indices,
                "wanted": np.ones(n, np.uint8),
            },
            (),
        ),
    }


# Sizes that nothing else fixes: rows of a table that is looked up, the number of parts, entries beyond the last row.
FREE = {
    ("multiply_transposed", "sums", 0),
    ("score_list all", "of_left", 0),
    ("sum_rows", "table", 0),
    ("multiply_dense_transposed", "sums", 0),
    ("multiply_bits", "table", 0),  # as many as there are bits, less the padding
    ("multiply_bits_transposed", "out", 0),
    ("PackedNegatives", "columns", 0, "more"),
    ("sum_rows", "sums", 0),
    ("move_rows", "table", 0, "more"),
    ("multiply_ends", "table", 0, "more"),
    ("pack_pattern", "indices", 0, "more"),
    ("pack_pattern", "other_indices", 0, "more"),
    ("draw_targets", "columns", 0, "more"),
}


def other_sizes(name, argument, array):
    for axis in range(array.ndim):
        if (name, argument, axis) in FREE:
            continue
        if (name, argument, axis, "more") not in FREE:
            yield np.concatenate([array, array.take([0], axis)], axis)
        yield np.ascontiguousarray(array.take(range(1, array.shape[axis]), axis))


@pytest.mark.parametrize("name", list(good_calls()))
def test_arrays_that_do_not_fit_are_refused(name):
    call, arguments, outputs = good_calls()[name]
    call(**arguments)
    tried = 0
    for argument, array in arguments.items():
        if not isinstance(array, np.ndarray):
            continue
        other = np.float64 if array.dtype == np.float32 else np.float32
        doubled = np.repeat(array, 2, axis=array.ndim - 1)
        wrong = [array.astype(other), array[None], array.tolist(), *other_sizes(name, argument, array)]
        if array.shape[-1] > 1:
            wrong.append(doubled[..., ::2])
        if array.dtype.kind in "iu":
            wrong.append(array.astype(np.int16))
            wrong.append(array.astype(np.int64 if array.dtype.itemsize == 4 else np.int32))
        if argument in outputs:
            locked = array.copy()
            locked.flags.writeable = False
            wrong.append(locked)
        for given in wrong:
            with pytest.raises(REFUSED):
                call(**{**arguments, argument: given})
            tried += 1
    assert tried >= 8
    call(**arguments)  # nothing is broken by what was refused


@pytest.mark.parametrize("bad", [-1, 6, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("Csr", "indices"),
        ("move_rows", "order"),
        ("score_list", "rows"),
        ("score_list", "columns"),
        ("score_list all", "columns"),
        ("multiply_ends", "rows"),
        ("multiply_ends", "columns"),
        ("spread_to_ends", "rows"),
        ("spread_to_ends", "columns"),
        ("pack_pattern", "indices"),
        ("pack_pattern", "other_indices"),
        ("pack_pattern", "order"),
        ("pack_pattern", "places"),
        ("draw_targets", "places"),
        ("PackedNegatives", "order"),
        ("PackedNegatives", "places"),
    ],
)
def test_indices_out_of_range_are_refused(name, argument, bad):
    call, arguments, _ = good_calls()[name]
    given = arguments[argument].copy()
    given[3] = bad
    with pytest.raises(IndexError, match="an index is out of range"):
        call(**{**arguments, argument: given})


@pytest.mark.parametrize("change", [{"starts": (2, 9)}, {"starts": (2, -1)}, {"ends": (5, 9)}, {"ends": (1, 1)}])
def test_rows_outside_the_entries_are_refused(change):
    call, arguments, _ = good_calls()["Csr"]
    for argument, (place, value) in change.items():
        arguments[argument][place] = value
    with pytest.raises(ValueError, match="rows must lie one after the other inside the entries"):
        call(**arguments)


@pytest.mark.parametrize("argument", ["indptr", "other_indptr"])
@pytest.mark.parametrize(("place", "value"), [(2, 1), (6, 9), (0, -1)])
def test_row_bounds_that_do_not_fit_are_refused(argument, place, value):
    call, arguments, _ = good_calls()["pack_pattern"]
    bounds = arguments[argument].copy()
    bounds[place] = value
    with pytest.raises(ValueError, match="indptr"):
        call(**{**arguments, argument: bounds})
    call, arguments, _ = good_calls()["PackedNegatives"]
    with pytest.raises(ValueError, match="indptr"):
        call(**{**arguments, "indptr": bounds})


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("offsets", [1, 6]),
        ("offsets", [0, 5]),
        ("num_columns", [-1]),
        ("num_columns", [13]),
        ("num_columns", [2**40]),
        ("num_rounds", [0]),
    ],
)
def test_impossible_patches_are_refused(argument, value):
    call, arguments, _ = good_calls()["PackedNegatives"]
    with pytest.raises(ValueError):
        call(**{**arguments, argument: np.array(value)})


OUTSIDE = """
rows, filled = np.arange(6, dtype=np.int32), np.arange(0, 700, 100)
for offsets in ([0, 5, 3, 6], [0, 10**5, 6], [0, 10**12, 6], [0, -3, 6]):
    ones = np.ones(len(offsets) - 1, np.int64)
    patches = np.array(offsets), ones, ones, ones.astype(np.float32)
    try:
        native.PackedNegatives(filled, np.zeros(600, np.int32), *patches, rows, rows)
    except ValueError as refused:
        print(refused)
"""


def test_patches_outside_the_rows_are_refused():
    """Before anything is read there; in a process of its own, which may crash."""
    done = run_alone(OUTSIDE)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 4
    assert all("a patch lies outside the rows" in line for line in done.stdout.splitlines()), done.stdout


def test_excluded_pairs_must_stay_in_their_patch():
    call, arguments, _ = good_calls()["PackedNegatives"]
    two = {name: np.repeat(arguments[name], 2) for name in ("num_columns", "num_rounds", "weights")}
    with pytest.raises(ValueError, match="an excluded pair leaves its patch"):
        call(**{**arguments, **two, "offsets": np.array([0, 3, 6])})
    for bad in (-1, 6, 2**31 - 1):
        columns = arguments["columns"].copy()
        columns[2] = bad
        with pytest.raises((ValueError, IndexError)):
            call(**{**arguments, "columns": columns})


def test_every_kernel_on_tensors_is_called_here():
    names = {name for name in dir(native) if callable(getattr(native, name)) and not name.startswith("_")}
    on_graphs = {name for name in names if hasattr(reference, name)} - {"hash_nodes", "hash_pairs", "drop_dense"}
    about = {
        "instruction_sets",
        "instruction_set",
        "set_instruction_set",
        "num_threads",
        "set_num_threads",
        "blank_table",
    }
    assert names - on_graphs - about <= {name.split()[0] for name in good_calls()}


def test_tables_that_are_too_wide_and_other_conflicts_are_refused():
    calls = good_calls()
    matrix = calls["multiply"][1]["matrix"]
    wide, row = normal(6, 513), normal(6)
    for call in (
        lambda: native.multiply(matrix, wide, wide.copy()),
        lambda: native.multiply_transposed(matrix, wide, np.zeros((1, 6, 513), np.float32)),
        lambda: native.move_rows(wide, wide.copy()),
        lambda: native.multiply(matrix, normal(6, 2), normal(6, 2), threshold=5),  # dropout without hashes
        lambda: native.drop_dense(normal(6, 2), np.zeros(6, np.uint32), 0, 2**32, 1.0, normal(6, 2)),
        lambda: native.multiply_bits(np.zeros((6, 15), np.uint8), None, normal(6, 2), normal(6, 2)),  # no whole padding
        lambda: native.multiply_bits(np.zeros((6, 32), np.uint8), None, normal(6, 2), normal(6, 2)),  # too many bytes
        lambda: native.multiply_bits(np.zeros((6, 16), np.uint8), None, normal(129, 2), normal(6, 2)),  # too few
        lambda: native.multiply_bits(np.zeros((6, 16), np.uint8), None, wide, wide.copy()),
        lambda: native.drop_bits(np.zeros((6, 8), np.uint8), np.zeros(6, np.uint32), 0, 1, np.zeros((6, 8), np.uint8)),
        lambda: calls["score_list"][0](**{**calls["score_list"][1], "kind": "none"}),
        lambda: calls["score_list"][0](**{**calls["score_list"][1], "right": None}),
        lambda: calls["score_arcs"][0](**{**calls["score_arcs"][1], "of_right": None}),
        lambda: calls["split_masked"][0](**{**calls["split_masked"][1], "scored_below": 10}),
        lambda: calls["split_masked"][0](**{**calls["split_masked"][1], "out_values": None}),
        lambda: calls["backward_layer"][0](**{**calls["backward_layer"][1], "of_sums": None}),
        lambda: native.multiply(
            native.Csr(np.zeros(3, np.int64), np.zeros(3, np.int64), np.zeros(0, np.int32), None, 2),
            normal(2, 4),
            normal(3, 4),
            row[:3].copy(),
            True,
        ),
    ):
        with pytest.raises(ValueError):
            call()
    with pytest.raises(ValueError, match="does not have the instruction set sse9"):
        native.set_instruction_set("sse9")


def test_matrices_without_rows_or_entries():
    nothing = native.Csr(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int32), None, 5)
    native.multiply(nothing, normal(5, 16), np.zeros((0, 16), np.float32))
    sums = np.zeros((2, 5, 16), np.float32)
    native.multiply_transposed(nothing, np.zeros((0, 16), np.float32), sums)
    assert not sums.any()
    empty = native.Csr(np.zeros(4, np.int64), np.zeros(4, np.int64), np.zeros(0, np.int32), None, 5)
    out = np.ones((4, 16), np.float32)
    native.multiply(empty, normal(5, 16), out)
    assert not out.any()
    assert (nothing.num_rows, empty.num_rows, empty.num_columns, empty.count()) == (0, 4, 5, 0)
    native.forward_layer(
        nothing, normal(5, 3), normal(3), normal(3, 2), np.zeros((0, 3), np.float32), np.zeros((0, 2), np.float32)
    )


# --- threads ---------------------------------------------------------------------------------------------


def large_product():
    given = sample("large", 300)
    out = np.empty((len(given.starts), 16), np.float32)
    native.multiply(given.csr(), normal(300, 16), out)
    return out


def large_loss():
    generator = np.random.default_rng(0)
    rows, columns = generator.integers(0, 500, (2, 30_000)).astype(np.int32)
    left, of_left = normal(500, 16), np.zeros((2, 500, 16), np.float32)
    native.score_list(rows, columns, np.ones(1, np.float32), "all", left, None, 0.0, 1.0, of_left, None)
    return of_left.sum(0)


def test_an_exception_inside_a_kernel_leaves_the_pool_usable():
    core.set_num_threads(2)
    expected = large_product()
    num_nodes, indptr = 3000, np.arange(3001)
    labels = np.full(num_nodes, 9, np.int32)  # no such cluster: noticed by the threads
    order, starts = np.arange(num_nodes), np.linspace(0, num_nodes, 7).astype(np.int64)
    for _ in range(20):
        with pytest.raises(IndexError, match="a label is out of range"):
            native.count_between(indptr, np.zeros(num_nodes, np.int32), labels, order, starts)
        np.testing.assert_array_equal(large_product(), expected)


@pytest.mark.parametrize("threads", [1, 2])
def test_kernels_called_by_two_threads_of_python_at_once(threads):
    core.set_num_threads(threads)
    expected = large_product(), large_loss()

    def work(number):
        kernel = (large_product, large_loss)[number % 2]
        return all((kernel() == expected[number % 2]).all() for _ in range(10))

    with ThreadPoolExecutor(2) as executor:
        assert all(executor.map(work, range(8)))


def test_the_number_of_threads_can_change_between_calls():
    expected = large_product()
    for threads in (2, 1, 3, 2, 8, 1, 0, 2):
        core.set_num_threads(threads)
        assert core.num_threads() == max(1, threads)
        np.testing.assert_array_equal(large_product(), expected)  # rows are whole: no sum is cut


FORK = """
import os

native.set_num_threads(2)
generator = np.random.default_rng(0)
indptr = np.arange(0, 60001, 20)
csr = native.Csr(indptr[:-1], indptr[1:], generator.integers(0, 3000, 60000).astype(np.int32), None, 3000)
table = generator.standard_normal((3000, 16)).astype(np.float32)

def multiply():
    out = np.empty((3000, 16), np.float32)
    native.multiply(csr, table, out)
    return out

expected = multiply()
for _ in range(5):
    child = os.fork()
    if child == 0:
        good = all((multiply() == expected).all() for _ in range(20))
        native.set_num_threads(3)
        good = good and (multiply() == expected).all()
        os._exit(0 if good else 1)
    assert (multiply() == expected).all()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_after_a_fork_computes_with_threads_of_its_own():
    done = run_alone(FORK)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


# --- the same draws with and without the compiled core ---------------------------------------------------


def draws_of(backend):
    core.set_backend(backend)
    edges, held_out, nodes, offsets = random_patches([70, 25, 40])
    counts, found = np.array([900, 150, 300]), {}
    for sampling in ("uniform", "degree"):
        listed = plan_negatives(edges, held_out, nodes, offsets, counts, sampling=sampling).list_pairs(seed=3, epoch=8)
        order = np.lexsort((listed.columns, listed.rows))
        found[f"negatives {sampling}"] = listed.rows[order], listed.columns[order], listed.weights
    groups = draw_groups(nodes, 4, seed=3, epoch=8)
    rows = np.repeat(np.arange(len(nodes)), np.diff(edges.indptr))
    found["groups"] = (
        groups,
        hidden_pairs(rows, edges.indices, nodes.astype(np.int32), 0.4, seed=3, epoch=8, groups=groups),
    )
    for weighted in (False, True):
        weights = edges.copy()
        weights.data = np.linspace(1, 2, edges.nnz, dtype=np.float32)
        visible, arcs = EdgeMask(weights, nodes, weighted=weighted).split(0.6, 0.3, seed=3, epoch=8, groups=groups)
        matrix, pairs = visible.to_scipy(), arcs.pair_list
        order = np.lexsort((pairs.columns, pairs.rows))
        found[f"mask {weighted}"] = matrix.indptr, matrix.indices, pairs.rows[order], pairs.columns[order]
        found[f"weights {weighted}"] = pairs.pair_weights[order], matrix.data
    features = sp.csr_array(sp.random_array((len(nodes), 30), density=0.3, rng=0, dtype=np.float32))
    for name, held in (("sparse", features), ("dense", features.toarray())):
        dropped = FeatureTable.build(held, nodes, "cpu").dropped(0.5, seed=3, epoch=8)
        found[f"dropout {name}"] = [dropped.numpy() if name == "dense" else dropped.to_scipy().toarray()]
    return found


def test_draws_and_masks_are_the_same_with_and_without_the_compiled_core():
    ours, theirs = draws_of("auto"), draws_of("torch")
    for name, parts in ours.items():
        for one, other in zip(parts, theirs[name], strict=True):
            if name.startswith("weights"):  # D^(-1/2) is rounded
                np.testing.assert_allclose(one, other, rtol=1e-6, err_msg=name)
            else:
                np.testing.assert_array_equal(one, other, err_msg=name)
        assert len(parts[0]) > 10


def test_hashes_follow_the_backend(monkeypatch):
    nodes = np.arange(50, dtype=np.int32)
    ours = core.hash_nodes(nodes, KEY), core.hash_pairs(nodes, nodes[::-1], KEY)
    core.set_backend("torch")
    assert core.native() is None
    assert core.kernels() is reference
    assert core.instruction_set() == "torch"
    for one, other in zip(ours, (core.hash_nodes(nodes, KEY), core.hash_pairs(nodes, nodes[::-1], KEY)), strict=True):
        np.testing.assert_array_equal(one, other)
    core.set_backend("native")
    assert core.native() is native
