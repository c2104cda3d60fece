"""Matrix Market: the matrices that SciPy reads, and damaged files refused in one line."""

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.graphs.matrix_market import read_matrix_market


@pytest.mark.parametrize("field", [None, "pattern", "integer"])
@pytest.mark.parametrize("symmetric", [False, True])
def test_reads_what_scipy_reads(tmp_path, field, symmetric):
    generator = np.random.default_rng(0)
    matrix = generator.integers(1, 9, (6, 6)) * (generator.random((6, 6)) < 0.4)
    matrix = matrix + matrix.T if symmetric else matrix[:, :4]
    path = tmp_path / "matrix.mtx"
    scipy.io.mmwrite(path, sp.coo_array(matrix), field=field)
    expected = scipy.io.mmread(path, spmatrix=False).toarray()
    np.testing.assert_array_equal(read_matrix_market(path).toarray(), expected)


def test_a_matrix_may_have_no_entries(tmp_path):
    path = tmp_path / "matrix.mtx"
    for rest in ("", "% nothing\n"):
        path.write_text("%%MatrixMarket matrix coordinate real general\n3 2 0\n" + rest)
        assert (read_matrix_market(path).shape, read_matrix_market(path).nnz) == ((3, 2), 0)


HEADER = "%%MatrixMarket matrix coordinate real general\n% a comment\n3 3 2\n"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("1 2\n", "does not begin with"),
        (HEADER.replace("real", "complex"), "complex"),
        (HEADER.replace("general", "skew-symmetric"), "needed: general or symmetric"),
        (HEADER.replace("coordinate", "array"), "holds a dense matrix"),
        (HEADER.replace("3 3 2", "3 3"), "how large"),
        (HEADER.replace("3 3 2", "3 -3 2"), "sizes"),
        (HEADER.replace("3 3 2", "3 3 2000000"), "cannot hold"),
        (HEADER + "1 2 1.5\n", "1 entries of 3 numbers where its header tells of 2 of 3"),
        (HEADER + "1 2\n2 3\n", "2 entries of 2 numbers where its header tells of 2 of 3"),
        (HEADER + "1 2 1.5\n2 x 1\n", "is no Matrix Market file"),
        (HEADER + "1 2 1.5\n2 4 1\n", "entry 2 lies outside"),
        (HEADER + "0 2 1.5\n2 3 1\n", "entry 1 lies outside"),
        (HEADER + "1 2 1.5\n2 2.5 1\n", "entry 2 lies outside"),
        (HEADER + "1 2 1.5\n2 inf 1\n", "entry 2 lies outside"),
    ],
)
def test_damaged_files_are_refused_in_one_line(tmp_path, content, told):
    path = tmp_path / "matrix.mtx"
    path.write_text(content)
    with pytest.raises(InputError, match=told) as refused:
        read_matrix_market(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)
