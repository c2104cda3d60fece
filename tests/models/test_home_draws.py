"""Negatives of some rows: those that a draw for all rows gives them."""

import numpy as np
import scipy.sparse as sp
import torch

from l2g2g.models.home_draws import HomeDraws
from l2g2g.models.sampling import draw_negatives, exclude, plan_negatives


def test_rows_are_drawn_as_with_all_others():
    generator = np.random.default_rng(0)
    upper = sp.random_array((200, 200), density=0.2, format="csr", dtype=np.float32, rng=generator)
    edges = sp.csr_array(upper + upper.T)
    edges.setdiag(0)
    edges.eliminate_zeros()
    edges.indptr, edges.indices = edges.indptr.astype(np.int32), edges.indices.astype(np.int32)
    nothing = sp.csr_array((200, 200), dtype=np.float32)
    plan = plan_negatives(exclude(edges, nothing), np.array([0, 200]), np.array([3000]))
    own = generator.random(200) < 0.4
    home = HomeDraws(plan, np.flatnonzero(own))
    for epoch in range(3):
        rows, columns, _ = draw_negatives(plan, torch.ones(()), seed=1, epoch=epoch).listed
        here = own[rows.numpy()]
        indptr, found_rows, found_columns = home.draw(seed=1, epoch=epoch)
        np.testing.assert_array_equal(found_rows, rows.numpy()[here])
        np.testing.assert_array_equal(found_columns, columns.numpy()[here])
        np.testing.assert_array_equal(np.diff(indptr), np.bincount(found_rows, minlength=200))
