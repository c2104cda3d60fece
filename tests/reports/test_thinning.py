"""Fewer nodes of a record: the same nodes with all that belongs to them."""

from dataclasses import replace

import numpy as np

from l2g2g.reports.layout import thin
from l2g2g.reports.run_page import render_run


def test_nodes_keep_what_is_theirs(record):
    few = thin(record, 15)
    rows = [record.names().index(name) for name in few.names()]
    assert rows == sorted(rows)
    assert len(set(rows)) == few.num_nodes == 15
    assert np.array_equal(few.vectors, record.vectors[rows])
    assert np.array_equal(few.labels, record.labels[rows])
    assert np.array_equal(few.edges.toarray(), record.edges.toarray()[np.ix_(rows, rows)])
    assert few.graph == record.graph
    assert few.edges.has_sorted_indices
    page = render_run(few, {"pca": few.vectors[:, :2]})
    assert "15 of 40 nodes, a random sample" in page
    assert "a random sample" not in render_run(record, {"pca": record.vectors[:, :2]})


def test_numbers_stay_names(record):
    few = thin(replace(record, node_ids=None), 15)
    assert np.array_equal(few.vectors, record.vectors[few.node_ids])


def test_few_nodes_are_left_alone(record):
    assert thin(record) is record
