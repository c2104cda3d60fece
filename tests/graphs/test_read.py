import gzip
import os
import zipfile

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given
from hypothesis import strategies as st

from l2g2g.errors import InputError, ResourceError
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.read import read_graph

TRIANGLE_WITH_TAIL = [(5, 7), (7, 9), (9, 5), (9, 2)]


def write(path, text):
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def edge_set(graph):
    ids = range(graph.num_nodes) if graph.node_ids is None else graph.node_ids.tolist()
    ids = list(ids)
    return {frozenset((ids[u], ids[v])) for u, v in zip(*graph.edges(), strict=True)}


# --- edge lists -------------------------------------------------------------------------------------


def test_integer_ids_come_in_the_order_of_first_appearance(tmp_path):
    graph = read_graph(write(tmp_path / "tail.csv", "source,target\n5,7\n7,9\n9,5\n9,2\n"))
    assert graph.node_ids.tolist() == [5, 7, 9, 2]
    assert graph.adjacency.toarray().tolist() == [[0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 1], [0, 0, 1, 0]]
    assert (graph.name, graph.weighted) == ("tail", False)


DIALECTS = {
    "comma": "5,7\n7,9\n9,5\n9,2\n",
    "comma and blanks": "5, 7\n7 ,9\n  9,5\n9,2  \n",
    "header": "from,to\n5,7\n7,9\n9,5\n9,2\n",
    "unusual header": "paper,cites\n5,7\n7,9\n9,5\n9,2\n",
    "tab": "5\t7\n7\t9\n9\t5\n9\t2\n",
    "tab header": "Source\tTarget\n5\t7\n7\t9\n9\t5\n9\t2\n",
    "semicolon": "u;v\n5;7\n7;9\n9;5\n9;2\n",
    "blank": "5 7\n7 9\n9 5\n9 2\n",
    "blanks": " 5   7\n7 \t 9  \n\t9  5\n9 2\n",
    "comments": "# Nodes: 4\n%% more\n5 7\n7 9\n  # in between\n9 5\n9 2\n# end",
    "windows": "\ufeffsource,target\r\n5,7\r\n7,9\r\n9,5\r\n9,2\r\n",
    "old mac": "5,7\r7,9\r9,5\r9,2",
    "no last newline": "5,7\n7,9\n9,5\n9,2",
    "blank lines": "\n5,7\n\n  \n7,9\n9,5\n9,2\n\n",
    "quotes": '"source","target"\n"5","7"\n"7","9"\n"9","5"\n"9","2"\n',
}


@pytest.mark.parametrize("ending", [".csv", ".txt", ".tsv.gz"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_dialects_read_alike(tmp_path, dialect, ending):
    content = DIALECTS[dialect].encode()
    graph = read_graph(write(tmp_path / f"edges{ending}", gzip.compress(content) if ending.endswith("gz") else content))
    assert graph.node_ids.tolist() == [5, 7, 9, 2]
    assert edge_set(graph) == {frozenset(edge) for edge in TRIANGLE_WITH_TAIL}


@pytest.mark.slow
@given(
    edges=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=20).filter(
        lambda edges: any(u != v for u, v in edges)
    ),
    names=st.sampled_from(["{}", "node-{}", "{}é", "99999999999999999999{}"]),
    delimiter=st.sampled_from([",", "\t", " ", ";", "  "]),
    header=st.booleans(),
    weighted=st.booleans(),
    comment=st.sampled_from(["", "# comment\n", "% a b c\n"]),
    newline=st.sampled_from(["\n", "\r\n"]),
)
def test_any_dialect_gives_the_same_graph(
    tmp_path_factory, edges, names, delimiter, header, weighted, comment, newline
):
    edges = [*edges, edges[0]]  # what stands first and only there may be a header
    rows = [[names.format(u), names.format(v)] + (["2.5"] if weighted else []) for u, v in edges]
    head = [["source", "target", "weight"][: len(rows[0])]] if header else []
    lines = [delimiter.join(row) for row in head + rows]
    text = comment + "\n".join(lines[:1]) + "\n" + comment + "\n".join(lines[1:]) + "\n"
    path = write(tmp_path_factory.mktemp("dialect") / "edges.txt", text.replace("\n", newline))
    graph = read_graph(path)
    appearance = list(dict.fromkeys(cell for row in rows for cell in row[:2]))
    assert [str(node_id) for node_id in graph.node_ids] == appearance
    expected = {frozenset((names.format(u), names.format(v))) for u, v in edges if u != v}
    assert {frozenset(map(str, edge)) for edge in edge_set(graph)} == expected
    assert graph.weighted == weighted
    assert graph.cleaning.num_arcs_read == len(edges)


def test_names_numbers_among_names_and_weights(tmp_path):
    graph = read_graph(write(tmp_path / "names.csv", "source,target,weight\nann,bob,2\nbob,7,0.5\n"))
    assert graph.node_ids.tolist() == ["ann", "bob", "7"]
    assert graph.weighted
    assert graph.edge_weights().tolist() == [2.0, 0.5]


def test_names_without_header_lose_no_edge(tmp_path):
    graph = read_graph(write(tmp_path / "names.txt", "ann bob\nbob cat\n"))
    assert edge_set(graph) == {frozenset(("ann", "bob")), frozenset(("bob", "cat"))}


def test_huge_ids_are_only_ids(tmp_path):
    graph = read_graph(write(tmp_path / "huge.csv", f"{10**18},3\n3,{2**63 - 1}\n"))
    assert graph.node_ids.tolist() == [10**18, 3, 2**63 - 1]
    graph = read_graph(write(tmp_path / "huge.csv", f"a,b\n{2**63},3\n3,4\n"))
    assert graph.node_ids.tolist() == [str(2**63), "3", "4"]


def test_parquet_with_integers_text_and_dictionaries(tmp_path):
    pq.write_table(pa.table({"a": [5, 7], "b": [7, 9], "c": [1, 4]}), tmp_path / "e.parquet")
    graph = read_graph(tmp_path / "e.parquet")
    assert graph.node_ids.tolist() == [5, 7, 9]
    assert graph.edge_weights().tolist() == [1.0, 4.0]
    names = pa.array(["x", "y"]).dictionary_encode()
    pq.write_table(pa.table({"a": names, "b": ["y", "z"]}), tmp_path / "e.parquet")
    assert read_graph(tmp_path / "e.parquet").node_ids.tolist() == ["x", "y", "z"]


BAD_EDGES = {
    "empty": ("", "the file is empty"),
    "only comments": ("# nothing\n\n", "the file is empty"),
    "only a header": ("source,target\n", "only a header"),
    "one column": ("node\n1\n2\n", "only 1 column"),
    "four columns": (
        "1,2,3,4\n",
        "4 columns .1, 2, 3, 4. of which none are called source and target; name them with --source",
    ),
    "ragged": ("# c\n1,2\n3,4\n5\n", "line 4 has 1 columns but the first has 2"),
    "negative": ("source,target\n0,1\n# c\n-3,2\n", "line 4: source -3 is negative"),
    "negative and beyond 64 bits": (f"0,1\n{2**63},-2\n", "line 2: target -2 is negative"),
    "decimal": ("0,1\n1,1.5\n", "line 2: target 1.5 is not a whole number"),
    "decimal first": ("1.5,1\n1,2\n", "line 1: source 1.5 is not a whole number"),
    "power of ten": ("0,1\n1e18,1\n", "line 2: source 1e18 is not a whole number"),
    "missing id": ("0,1\n,2\n", "line 2: an id is empty"),
    "NaN weight": ("source,target,weight\n0,1,1\n1,2,nan\n", "line 3: weight nan"),
    "infinite weight": ("0,1,1\n1,2,inf\n", "line 2: weight inf"),
    "negative weight": ("0,1,1\n1,2,-4\n", "line 2: weight -4.0"),
    "zero weight": ("a,b,1\nb,c,0\n", "line 2: weight 0.0"),
    "text weight": ("0,1,1\n1,2,heavy\n", "line 2: weight 'heavy'"),
    "text weight first": ("a,b,heavy\nb,c,1\n", "line 1: weight 'heavy'"),
    "missing weight": ("0,1,1\n1,2,\n", "line 2: the weight is empty"),
    "weight beyond float32": ("0,1,1e300\n", "line 1: weight 1e\\+300"),
    "self-loops only": ("1,1\n", "self-loops"),
    "latin-1": ("a,b\nb,\xe9\n".encode("latin-1"), "UTF-8"),
    "UTF-16": ("a,b\n".encode("utf-16"), "UTF-8"),
}


@pytest.mark.parametrize("case", BAD_EDGES)
def test_bad_edge_lists_are_refused_in_one_line(tmp_path, case):
    content, message = BAD_EDGES[case]
    path = write(tmp_path / "bad.csv", content)
    with pytest.raises(InputError, match=message) as caught:
        read_graph(path)
    assert "bad.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


# --- files that are missing, damaged or hostile -----------------------------------------------------


def test_missing_and_unknown_files(tmp_path):
    with pytest.raises(InputError, match=r"missing\.csv: no such file"):
        read_graph(tmp_path / "missing.csv")
    with pytest.raises(InputError, match=r"missing\.csv: no such file"):
        read_graph("missing.csv")
    with pytest.raises(InputError, match="is a folder"):
        read_graph(tmp_path)
    with pytest.raises(InputError, match="unknown ending of a graph"):
        read_graph(write(tmp_path / "graph.xyz", "1 2"))
    with pytest.raises(InputError, match="neither a file nor a dataset"):
        read_graph("no-such-thing")
    with pytest.raises(InputError, match="cannot read a graph from int"):
        read_graph(3)


def test_a_file_wins_over_a_dataset_and_a_folder_does_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sbm-small").mkdir()
    assert read_graph("sbm-small", name="mine").name == "mine"
    assert read_graph("sbm-small", seed=1).num_edges != read_graph("sbm-small", seed=2).num_edges
    (tmp_path / "sbm-large").write_text("1 2")
    with pytest.raises(InputError, match="sbm-large: unknown ending of a graph"):
        read_graph("sbm-large")


def save_graph(path, **more):
    arrays = {"adj_indptr": [0, 1, 2, 2], "adj_indices": [1, 2], "adj_shape": [3, 3], **more}
    np.savez(path, **{key: np.asarray(value) for key, value in arrays.items()})
    return path


@pytest.mark.parametrize("kind", ["npz", "parquet", "csv.gz"])
def test_files_cut_off_are_refused(tmp_path, kind):
    path = tmp_path / f"cut.{kind}"
    if kind == "npz":
        save_graph(path)
    elif kind == "parquet":
        pq.write_table(pa.table({"a": range(1000), "b": range(1, 1001)}), path)
    else:
        path.write_bytes(gzip.compress("".join(f"{i},{i * i}\n" for i in range(1000)).encode()))
    whole = path.read_bytes()
    for length in (0, 10, len(whole) // 2, len(whole) - 3):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"cut\.") as caught:
            read_graph(path)
        assert "\n" not in str(caught.value)


def test_a_damaged_array_header_is_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.eye(3))
    content = (tmp_path / "x.npy").read_bytes()
    write(tmp_path / "x.npy", content.replace(b"), }", b"  , "))  # a bracket that never closes
    with pytest.raises(InputError, match=r"x\.npy: damaged"):
        read_graph(np.array([[0], [1]]), tmp_path / "x.npy")


class Payload:
    def __init__(self, canary):
        self.canary = canary

    def __reduce__(self):
        return os.mkdir, (str(self.canary),)


def test_pickles_are_refused_and_never_run(tmp_path):
    canary = tmp_path / "canary"
    hostile = np.array([Payload(canary)], dtype=object)
    save_graph(tmp_path / "graph.npz", adj_data=hostile)
    with pytest.raises(InputError, match="pickled objects"):
        read_graph(tmp_path / "graph.npz")
    np.save(tmp_path / "x.npy", hostile)
    with pytest.raises(InputError, match="pickled objects"):
        read_graph((np.array([[0], [1]]), tmp_path / "x.npy"))
    write(tmp_path / "raw.npz", b"cos\nmkdir\n(S'" + str(canary).encode() + b"'\ntR.")
    with pytest.raises(InputError):
        read_graph(tmp_path / "raw.npz")
    assert not canary.exists()


@pytest.mark.slow
def test_files_that_unpack_beyond_the_limit_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("adj_indptr.npy", bytes(20_000_000))
    (tmp_path / "bomb.csv.gz").write_bytes(gzip.compress(b"1,2\n" * 5_000_000))
    pq.write_table(pa.table({"a": np.arange(1_000_000), "b": np.arange(1_000_000)}), tmp_path / "bomb.parquet")
    for kind in ("npz", "csv.gz", "parquet"):
        with pytest.raises(ResourceError, match=r"unpacks to at least .* MB but 10 MB may be used"):
            read_graph(tmp_path / f"bomb.{kind}", memory_limit=10_000_000)
        with pytest.raises(ResourceError, match="unpacks"):
            read_graph(np.array([[0], [1]]), tmp_path / f"bomb.{kind}", memory_limit=10_000_000)


# --- archives ---------------------------------------------------------------------------------------


def test_archive_with_names_labels_and_features(tmp_path):
    path = save_graph(
        tmp_path / "g.npz",
        node_names=np.array([b"a", "é".encode(), b"c "]),
        labels=[0, 1, 1],
        attr_indptr=[0, 1, 1, 2],
        attr_indices=[0, 1],
        attr_data=[2.0, 3.0],
        attr_shape=[3, 2],
    )
    graph = read_graph(path)
    assert graph.node_ids.tolist() == ["a", "é", "c "]
    assert graph.labels.tolist() == [0, 1, 1]
    assert graph.features.toarray().tolist() == [[2, 0], [0, 0], [0, 3]]
    assert edge_set(graph) == {frozenset(("a", "é")), frozenset(("é", "c "))}
    assert graph.name == "g"


def test_archive_of_scipy_and_weights(tmp_path):
    sp.save_npz(tmp_path / "m.npz", sp.csr_array(np.array([[0, 2.0], [0, 0]])))
    graph = read_graph(tmp_path / "m.npz")
    assert graph.edge_weights().tolist() == [2.0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"adj_indices": [1, 3]}, "row 1 name column 3, but there are 3 columns"),
        ({"adj_indices": [1, -1]}, "column -1"),
        ({"adj_indptr": [0, 2, 1, 2]}, "adj_indptr does not fit"),
        ({"adj_indptr": [0, 1, 2]}, "adj_indptr does not fit"),
        ({"adj_indices": [1.0, 2.0]}, "integers"),
        ({"adj_shape": [3, 4]}, "must be square"),
        ({"adj_data": [1.0, np.nan]}, "weight nan at row 1, column 2"),
        ({"adj_data": [1j, 1j]}, "real numbers"),
        ({"labels": [1]}, "labels have shape"),
        ({"node_names": ["a", "b"]}, "node_names have shape"),
        ({"node_names": ["a", "b", "a"]}, "'a' is in row 1 and again in row 3"),
        (
            {"attr_indptr": [0, 0, 0, 0, 1], "attr_indices": [0], "attr_data": [1.0], "attr_shape": [4, 2]},
            "4 feature rows but 3 nodes",
        ),
        ({"attr_indptr": [0, 0, 0, 1]}, "attr_indices is missing"),
    ],
)
def test_inconsistent_archives_are_refused(tmp_path, change, message):
    with pytest.raises(InputError, match=message) as caught:
        read_graph(save_graph(tmp_path / "g.npz", **change))
    assert "g.npz" in str(caught.value)


def test_archive_without_a_graph(tmp_path):
    np.savez(tmp_path / "x.npz", a=1)
    with pytest.raises(InputError, match=r"no graph in it \(keys: a\)"):
        read_graph(tmp_path / "x.npz")


# --- objects ----------------------------------------------------------------------------------------


def test_arrays_of_edges_in_both_shapes():
    wide = np.array([[0, 1, 2], [1, 2, 0]])
    for edges in (wide, wide.T, wide.tolist(), torch.tensor(wide)):
        graph = read_graph((edges, None))
        assert edge_set(graph) == {frozenset((0, 1)), frozenset((1, 2)), frozenset((0, 2))}
    with pytest.raises(InputError, match="shape"):
        read_graph(np.zeros((3, 3), int))
    with pytest.raises(InputError, match="source 3 is beyond the 3 nodes"):
        read_graph((np.array([[3, 1, 1], [1, 2, 0]]), np.eye(3)))
    with pytest.raises(InputError, match="among only 2 edges"):
        read_graph(np.array([[0, 1], [1, 10**18]]))


def test_graph_passes_through_and_takes_features():
    graph = Graph.from_arcs([0], [1])
    assert read_graph(graph) is graph
    assert read_graph(graph, np.eye(2)).num_features == 2
    with pytest.raises(InputError, match="3 feature rows but 2 nodes"):
        read_graph(graph, np.eye(3))


def test_scipy_matrices():
    matrix = sp.coo_matrix(np.array([[0, 2, 0], [2, 0, 0], [0, 0, 0]]))
    graph = read_graph(matrix)
    assert (graph.num_nodes, graph.num_edges, graph.weighted) == (3, 1, True)
    zero = sp.csr_array((np.array([1.0, 0.0]), ([0, 1], [1, 2])), shape=(3, 3))
    assert read_graph(zero).num_edges == 1
    assert not read_graph(sp.csr_array(matrix.astype(bool))).weighted
    with pytest.raises(InputError, match="weight -2 at row 0, column 1"):
        read_graph(-matrix)


def test_networkx_graphs():
    source = nx.Graph([("b", "a"), ("a", 3)])
    source.add_node("alone")
    graph = read_graph(source)
    assert graph.node_ids.tolist() == ["b", "a", "3", "alone"]
    assert (graph.num_edges, graph.weighted, graph.cleaning.num_isolated) == (2, False, 1)
    weighted = nx.DiGraph()
    weighted.add_weighted_edges_from([(4, 2, 0.5), (2, 9, 3.0)])
    graph = read_graph(weighted)
    assert graph.node_ids.tolist() == [4, 2, 9]
    assert graph.edge_weights().tolist() == [0.5, 3.0]
    with pytest.raises(InputError, match="'1' is in row 1 and again in row 2"):
        read_graph(nx.Graph([(1, "1")]))


def test_pyg_data():
    pytest.importorskip("torch_geometric")
    from torch_geometric.data import Data

    data = Data(
        x=torch.eye(4),
        edge_index=torch.tensor([[0, 1, 1], [1, 0, 2]]),
        edge_weight=torch.tensor([2.0, 2.0, 3.0]),
        y=torch.tensor([0, 1, 1, 0]),
    )
    graph = read_graph(data)
    assert (graph.num_nodes, graph.num_edges, graph.num_features) == (4, 2, 4)
    assert graph.edge_weights().tolist() == [2.0, 3.0]
    assert graph.labels.tolist() == [0, 1, 1, 0]
    assert read_graph(data, np.ones((4, 2))).num_features == 2


def test_tables_in_memory():
    frame = pd.DataFrame({"a": ["x", "y"], "b": ["y", "z"], "w": [1.0, 2.0]})
    for table in (frame, pa.Table.from_pandas(frame)):
        graph = read_graph(table)
        assert graph.node_ids.tolist() == ["x", "y", "z"]
        assert graph.edge_weights().tolist() == [1.0, 2.0]
    assert read_graph(pd.DataFrame({"a": [1, "y"], "b": ["y", 2]})).node_ids.tolist() == ["1", "y", "2"]
    with pytest.raises(InputError, match="row 2: source -1"):
        read_graph(pd.DataFrame({"a": [1, -1], "b": [2, 3]}))
    with pytest.raises(InputError, match="decimal"):
        read_graph(pd.DataFrame({"a": [1.5, 2], "b": [2, 3]}))
    with pytest.raises(InputError, match="row 2: an id is missing"):
        read_graph(pd.DataFrame({"a": ["x", None], "b": ["y", "z"]}))
    with pytest.raises(InputError, match="empty"):
        read_graph(pd.DataFrame({"a": [], "b": []}))


# --- features ---------------------------------------------------------------------------------------


def test_features_by_node_number_make_ids_node_numbers(tmp_path):
    edges = write(tmp_path / "e.csv", "2,0\n0,3\n")
    np.save(tmp_path / "x.npy", np.arange(10).reshape(5, 2))
    graph = read_graph(edges, tmp_path / "x.npy")
    assert graph.node_ids is None
    assert (graph.num_nodes, graph.cleaning.num_isolated) == (5, 2)
    assert graph.features[2].tolist() == [4, 5]
    np.savez(tmp_path / "x.npz", features=np.ones((5, 3)))
    assert read_graph(edges, tmp_path / "x.npz").num_features == 3
    sp.save_npz(tmp_path / "s.npz", sp.eye_array(5, format="csr"))
    assert sp.issparse(read_graph(edges, tmp_path / "s.npz").features)
    np.save(tmp_path / "x.npy", np.ones((3, 2)))
    with pytest.raises(InputError, match=r"e\.csv: line 2: target 3 is beyond the 3 feature rows of .*x\.npy"):
        read_graph(edges, tmp_path / "x.npy")
    with pytest.raises(InputError, match="ids are text"):
        read_graph(write(tmp_path / "t.csv", "ann,bob\n"), tmp_path / "x.npy")


def test_features_by_id_are_matched_and_further_ids_become_isolated_nodes(tmp_path):
    edges = write(tmp_path / "e.csv", "b,a\na,c\n")
    features = write(tmp_path / "f.csv", "id,height,age\na,1,10\nb,2,20\nlone,9,90\nc,3,30\n")
    graph = read_graph(edges, features)
    assert graph.node_ids.tolist() == ["b", "a", "c", "lone"]
    assert graph.features.tolist() == [[2, 20], [1, 10], [3, 30], [9, 90]]
    pq.write_table(pa.table({"id": ["a", "b", "c"], "x": [[1.0], [2.0], [3.0]]}), tmp_path / "f.parquet")
    assert read_graph(edges, tmp_path / "f.parquet").features.tolist() == [[2], [1], [3]]
    frame = pd.DataFrame({"id": ["a", "b", "c"], "x": [1, 2, 3], "flag": [True, False, True]})
    assert read_graph(edges, frame).features.tolist() == [[2, 0], [1, 1], [3, 1]]


def test_a_header_of_numbers_is_known_by_its_id_column(tmp_path):
    edges = write(tmp_path / "e.csv", "b,a\n")
    graph = read_graph(edges, write(tmp_path / "f.csv", "id,0,1\na,1,10\nb,2,20\n"))
    assert graph.features.tolist() == [[2, 20], [1, 10]]


def test_integers_match_integers_that_were_read_as_text(tmp_path):
    edges = write(tmp_path / "e.csv", "1,2\n2,x\n")
    features = write(tmp_path / "f.csv", "1,0.5\n2,1.5\nx,2.5\n")
    assert read_graph(edges, features).features.ravel().tolist() == [0.5, 1.5, 2.5]
    graph = read_graph(write(tmp_path / "e.csv", "1,2\n"), features)
    assert graph.node_ids.tolist() == ["1", "2", "x"]


BAD_FEATURES = {
    "missing node": ("id,x\na,1\nc,3\n", "2 feature rows but 3 nodes in .*e.csv: no row for node 'b'"),
    "node twice": ("id,x\na,1\nb,2\n# c\na,3\nc,4\n", "node 'a' is in line 2 and again in line 5"),
    "NaN": ("id,x,y\na,1,1\nb,2,nan\nc,3,3\n", "line 3: feature row 1, column 'y' is nan"),
    "Inf": ("a,1,1\nb,2,inf\nc,3,3\n", "line 2: feature row 1, column 1 is inf"),
    "text": ("id,x,y\na,1,1\nb,2,tall\nc,3,3\n", "line 3, column y: 'tall' is not a number"),
    "gap": ("id,x,y\na,1,1\nb,2,\nc,3,3\n", "line 3: y is missing; .* --missing zero"),
    "no numbers": ("id\na\nb\nc\n", "only one column"),
    "only a header": ("id,x\n", "only a header"),
    "empty": ("", "the file is empty"),
    "ragged": ("id,x\na,1\nb\nc,1\n", "line 3 has 1 columns"),
}


@pytest.mark.parametrize("case", BAD_FEATURES)
def test_bad_feature_tables_are_refused_in_one_line(tmp_path, case):
    content, message = BAD_FEATURES[case]
    with pytest.raises(InputError, match=message) as caught:
        read_graph(write(tmp_path / "e.csv", "a,b\nb,c\n"), write(tmp_path / "f.csv", content))
    assert "f.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([[1.0], [np.nan], [0]]), r"x\.npy: feature row 1, column 0 is nan"),
        (np.array([[1.0], [1e300], [0]]), r"x\.npy: feature row 1, column 0 is inf"),
        (np.ones((3, 1), complex), r"x\.npy: features are complex128"),
        (np.array([["a"], ["b"], ["c"]]), r"x\.npy: features are <U1"),
        (np.ones(3), "shape"),
    ],
)
def test_bad_feature_arrays_are_refused(tmp_path, array, message):
    np.save(tmp_path / "x.npy", array)
    with pytest.raises(InputError, match=message):
        read_graph(write(tmp_path / "e.csv", "0,1\n1,2\n"), tmp_path / "x.npy")


def test_feature_rows_must_fit_an_archive(tmp_path):
    save_graph(tmp_path / "g.npz")
    np.save(tmp_path / "x.npy", np.ones((4, 2)))
    with pytest.raises(InputError, match=r"x\.npy: 4 feature rows but 3 nodes"):
        read_graph(tmp_path / "g.npz", tmp_path / "x.npy")
    table = write(tmp_path / "f.csv", "2,30\n0,10\n1,20\n")
    assert read_graph(tmp_path / "g.npz", table).features.ravel().tolist() == [10, 20, 30]
    with pytest.raises(InputError, match="5 is no node of the graph"):
        read_graph(tmp_path / "g.npz", write(tmp_path / "f.csv", "2,30\n0,10\n1,20\n5,50\n"))


def test_unusable_feature_sources(tmp_path):
    graph = Graph.from_arcs([0], [1])
    with pytest.raises(InputError, match="no such feature file"):
        read_graph(graph, tmp_path / "missing.npy")
    with pytest.raises(InputError, match="unknown ending of a feature file"):
        read_graph(graph, write(tmp_path / "f.xyz", "1"))
    np.savez(tmp_path / "two.npz", a=1, b=2)
    with pytest.raises(InputError, match="no features in it"):
        read_graph(graph, tmp_path / "two.npz")


# --- directions ---------------------------------------------------------------------------------------


def arcs_by_id(graph):
    ids = list(range(graph.num_nodes) if graph.node_ids is None else graph.node_ids.tolist())
    return {(ids[u], ids[v]) for u, v in zip(*graph.arcs.nonzero(), strict=True)}


def directed_sources(tmp_path):
    matrix = sp.csr_array((np.ones(3), ([0, 1, 1], [1, 0, 2])), shape=(3, 3))
    arrays = {"adj_indptr": matrix.indptr, "adj_indices": matrix.indices, "adj_shape": np.array(matrix.shape)}
    np.savez(tmp_path / "g.npz", **arrays)
    table = pd.DataFrame({"source": [0, 1, 1], "target": [1, 0, 2]})
    table.to_parquet(tmp_path / "g.parquet")
    data = type("Data", (), {"edge_index": torch.tensor([[0, 1, 1], [1, 0, 2]]), "num_nodes": 3})()
    return {
        "csv": write(tmp_path / "g.csv", "source,target\n0,1\n1,0\n1,2\n"),
        "npz": tmp_path / "g.npz",
        "parquet": tmp_path / "g.parquet",
        "matrix": matrix,
        "table": table,
        "array": np.array([[0, 1], [1, 0], [1, 2]]),
        "networkx": nx.DiGraph([(0, 1), (1, 0), (1, 2)]),
        "pyg": data,
    }


@pytest.mark.parametrize("kind", ["csv", "npz", "parquet", "matrix", "table", "array", "networkx", "pyg"])
def test_directions_are_kept_on_request(tmp_path, kind):
    source = directed_sources(tmp_path)[kind]
    graph = read_graph(source, directed=True)
    assert arcs_by_id(graph) == {(0, 1), (1, 0), (1, 2)}
    assert graph.num_edges == 2
    assert read_graph(graph, directed=True) is graph
    joined = read_graph(source)
    assert not joined.directed
    assert (joined.adjacency.toarray() == graph.adjacency.toarray()).all()


def test_directions_by_node_number_beside_features(tmp_path):
    path = write(tmp_path / "g.csv", "0,1\n1,2\n")
    assert arcs_by_id(read_graph(path, np.eye(3), directed=True)) == {(0, 1), (1, 2)}


def test_directions_that_are_not_there_are_refused(tmp_path):
    with pytest.raises(InputError, match="read it with directed=True"):
        read_graph(Graph.from_arcs([0, 1], [1, 2]), directed=True)
    with pytest.raises(InputError, match="a DiGraph"):
        read_graph(nx.path_graph(3), directed=True)
    with pytest.raises(InputError, match="no direction"):
        read_graph("sbm-small", directed=True)
    with pytest.raises(InputError, match="both directions"):
        read_graph(write(tmp_path / "g.csv", "0,1\n1,0\n"), directed=True)


def test_known_nodes_need_no_row_of_features():
    edges = pa.table({"source": ["a", "b", "c"], "target": ["b", "c", "d"]})
    rows = pa.table({"id": ["d", "b"], "x": [4.0, 2.0]})
    graph = read_graph((edges, rows), known_ids=np.array(["a", "c", "elsewhere"], dtype=object))
    assert graph.node_ids.tolist() == ["a", "b", "c", "d"]
    assert graph.features.tolist() == [[0], [2], [0], [4]]
    with pytest.raises(InputError, match="no row for node 'c'"):
        read_graph((edges, rows), known_ids=np.array(["a"], dtype=object))
