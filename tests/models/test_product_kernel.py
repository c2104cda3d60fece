"""The compiled sparse product against a dense one."""

import numpy as np
import pytest
import scipy.sparse as sp

from l2g2g.models.product_kernel import multiply_rows, multiply_transposed
from l2g2g.models.row_vectors import as_rows, share_rows


@pytest.mark.parametrize("width", [1, 2, 7, 16, 31, 48, 100, 256])
@pytest.mark.parametrize("threads", [1, 3])
def test_product_is_the_dense_one(width, threads, monkeypatch):
    monkeypatch.setattr("l2g2g.models.product_kernel.get_num_threads", lambda: threads)
    generator = np.random.default_rng(width)
    matrix = sp.csr_array(sp.random(40, 30, 0.2, random_state=generator, format="csr", dtype=np.float32))
    matrix.data[: matrix.indptr[3]] = 0
    dense = generator.standard_normal((30, width)).astype(np.float32)
    found = multiply_rows(matrix.indptr, matrix.indices, matrix.data, dense)
    assert found == pytest.approx(matrix.toarray() @ dense, abs=1e-5)
    assert (found[:3] == 0).all()


@pytest.mark.parametrize("width", [16, 300])
@pytest.mark.parametrize("num_added", [1, 40])
def test_left_out_entries_and_what_the_sums_begin_with(width, num_added):
    generator = np.random.default_rng(width)
    matrix = sp.csr_array(sp.random(40, 30, 0.3, random_state=generator, format="csr", dtype=np.float32))
    dense = generator.standard_normal((30, width)).astype(np.float32)
    added = generator.standard_normal((num_added, width)).astype(np.float32)
    kept = (generator.random(matrix.nnz) < 0.5).astype(np.uint8)
    left = matrix.copy()
    left.data = matrix.data * kept
    found = multiply_rows(matrix.indptr, matrix.indices, matrix.data, dense, added, kept)
    assert found == pytest.approx(left.toarray() @ dense + added, abs=1e-5)


@pytest.mark.parametrize("width", [1, 16, 48, 300])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("thinned", [False, True])
def test_product_with_the_transpose(width, threads, thinned, monkeypatch):
    monkeypatch.setattr("l2g2g.models.product_kernel.get_num_threads", lambda: threads)
    generator = np.random.default_rng(width)
    matrix = sp.csr_array(sp.random(40, 30, 0.3, random_state=generator, format="csr", dtype=np.float32))
    dense = generator.standard_normal((40, width)).astype(np.float32)
    kept = (generator.random(matrix.nnz) < 0.5).astype(np.uint8) if thinned else None
    found = multiply_transposed(matrix.indptr, matrix.indices, matrix.data, dense, 30, kept).sum(0)
    left = matrix.copy()
    left.data = matrix.data * (1 if kept is None else kept)
    assert found == pytest.approx(left.toarray().T @ dense, abs=1e-5)


def test_wide_indices_are_taken_too():
    matrix = sp.csr_array(np.array([[0, 2.0], [3.0, 0]], np.float32))
    dense = np.array([[1.0, 10.0], [2.0, 20.0]], np.float32)
    found = multiply_rows(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data, dense)
    assert found.tolist() == [[4.0, 40.0], [3.0, 30.0]]


def test_a_matrix_without_entries():
    nothing = np.zeros(5, np.int32)
    found = multiply_rows(nothing, np.empty(0, np.int32), np.empty(0, np.float32), np.ones((3, 4), np.float32))
    assert (found == np.zeros((4, 4))).all()


@pytest.mark.parametrize("num_parts", [1, 2, 5, 9])
def test_parts_cover_all_rows_and_have_like_shares(num_parts):
    indptr = np.concatenate([[0], np.cumsum(np.random.default_rng(0).integers(0, 10, 500))])
    bounds = share_rows(indptr, num_parts)
    assert bounds[0] == 0
    assert bounds[-1] == 500
    assert np.abs(np.diff(indptr[bounds]) - indptr[-1] / num_parts).max() <= 20


def test_rows_share_memory_with_their_table():
    table = np.arange(6, dtype=np.float32).reshape(3, 2)
    rows = as_rows(table)
    table[1] = 7
    assert rows[1]["row"].tolist() == [7, 7]
