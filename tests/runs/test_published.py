import numpy as np
import pytest
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.graphs.graph import Graph
from l2g2g.models.decoders import read_decoder
from l2g2g.runs.published import Published, near_names


@pytest.fixture
def named():
    ids = np.array(["lodash", "react", "react-dom", "left-pad", "express"], dtype=object)
    return Published(ids, np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32), name="vectors.csv")


def test_rows_by_name(named):
    assert named.rows_of(["react", "lodash"]).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("raect", "did you mean 'react'"),
        ("Lodash", "did you mean 'lodash'"),
        ("qqqqqqqq", "nodes are named like 'lodash'"),
    ],
)
def test_an_unknown_name_gets_a_hint(named, name, hint):
    with pytest.raises(InputError, match=hint):
        named.rows_of([name])


def test_integers_may_be_asked_for_as_text():
    numbered = Published(np.array([10, 20, 30]), np.eye(3, dtype=np.float32))
    assert numbered.rows_of(["20"]).tolist() == numbered.rows_of([20]).tolist() == [1]


def test_near_names_in_many():
    ids = np.array([f"package-{number}" for number in range(20000)], dtype=object)
    assert "package-777" in near_names("packag-777", ids)


def test_edges_of_a_graph_in_another_order(named):
    graph = Graph.from_arcs([0, 1], [1, 2], node_ids=np.array(["express", "react", "unheard-of"], dtype=object))
    known = named.with_edges_of(graph).known.toarray()
    assert np.argwhere(known).tolist() == [[1, 4], [4, 1]]


def test_a_graph_of_others_is_refused(named):
    with pytest.raises(InputError, match="none of its nodes"):
        named.with_edges_of(Graph.from_arcs([0], [1]))


def test_top_links_need_edges(named):
    with pytest.raises(InputError, match="--graph"):
        named.top_links(3)


def test_top_links_leave_known_edges_out(named):
    dense = np.ones((5, 5)) - np.eye(5)
    dense[0, 3] = dense[3, 0] = 0
    full = Published(
        named.node_ids, named.vectors, read_decoder("inner", {"bias": np.float32(1)}, 2), sp.csr_array(dense)
    )
    found = full.top_links(10)
    assert (found.sources.tolist(), found.targets.tolist()) == ([0], [3])
    assert found.scores[0] == pytest.approx(named.vectors[0] @ named.vectors[3] + 1, rel=1e-5)


def test_metrics(named):
    assert named.neighbours(np.array([0]), 2, metric="decoder").nodes.tolist() == (
        named.neighbours(np.array([0]), 2, metric="inner").nodes.tolist()
    )
    with pytest.raises(InputError, match="did you mean 'cosine'"):
        named.neighbours(np.array([0]), 2, metric="cosin")


def test_an_index_is_kept_for_next_time(named, tmp_path):
    path = tmp_path / "index"
    first = named.neighbours(np.arange(5), 2, index_file=path)
    assert path.exists()
    assert first.recall == 1.0
    changed = path.stat().st_mtime_ns
    named.neighbours(np.arange(5), 2, index_file=path)
    assert path.stat().st_mtime_ns == changed


def test_the_first_pair_is_no_header_where_one_of_its_nodes_is_known(named, tmp_path):
    path = tmp_path / "pairs.csv"
    first, second, third, fourth = named.node_ids[:4]
    path.write_text(f"{first},{second}\n{third},{fourth}\n")
    assert [rows.tolist() for rows in named.read_pairs(path)] == [[0, 2], [1, 3]]
    path.write_text(f"one,other\n{third},{fourth}\n")
    assert [rows.tolist() for rows in named.read_pairs(path)] == [[2], [3]]


def test_pairs_from_a_file(named, tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_text("source,target\nreact,lodash\nleft-pad,express\n")
    sources, targets = named.read_pairs(path)
    assert (sources.tolist(), targets.tolist()) == ([1, 3], [0, 4])
    path.write_text("source,target\nreact,lodahs\n")
    with pytest.raises(InputError, match="line 2: no node 'lodahs'; did you mean 'lodash'"):
        named.read_pairs(path)
