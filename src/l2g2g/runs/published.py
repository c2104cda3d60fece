"""Published: a finished embedding to search and to score with, from a file, a run directory or a model."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.graphs.feature_columns import FeatureColumns
from l2g2g.graphs.graph import Features, Graph
from l2g2g.graphs.node_ids import as_node_ids, find_rows, quoted
from l2g2g.graphs.read_edges import EdgeTable, read_parquet_edges, read_text_edges
from l2g2g.graphs.text_tables import is_text_file
from l2g2g.models.decoders import read_decoder
from l2g2g.models.decoders.base import Decoder
from l2g2g.models.decoders.factors import InnerDecoder
from l2g2g.neighbours.factors import METRICS, ScoreFactors, factors_by, factors_of
from l2g2g.neighbours.index import NeighbourIndex
from l2g2g.neighbours.learned import nearest_learned, top_learned_links
from l2g2g.neighbours.link_model import LinkModel
from l2g2g.neighbours.search import Neighbours, SearchMethod, check_k, nearest, search_index
from l2g2g.neighbours.top_links import TopLinks, top_links
from l2g2g.options import check_choice
from l2g2g.runs.artefact import Artefact
from l2g2g.runs.record import read_columns_of, read_ids, read_known_pairs, read_vectors
from l2g2g.runs.saved_model import read_config

ALL_METRICS = (*METRICS, "decoder")
LINK_MODEL = "link_model"  # where the manifest of a run keeps it


@dataclass(frozen=True, eq=False)
class Published:
    """An embedding and what can be asked of it; nodes are named by their ids throughout.

    Attributes:
        node_ids: (num_nodes,) integers or text.
        vectors: (num_nodes, dim) float32.
        decoder: How pairs are scored; inner products where nothing else is known.
        known: (num_nodes, num_nodes) CSR pattern of the edges, or of the arcs where the decoder is directed; None
            where they are not known.
        name: What errors call it.
        links: How scores become probabilities; None where no validation pairs are known.
        features: (num_nodes, num_features) of the nodes, where the graph was given.
        columns: What the columns of the feature table of the training became, to read it again in the same way.
    """

    node_ids: np.ndarray
    vectors: np.ndarray
    decoder: Decoder = field(default_factory=lambda: InnerDecoder(learn_bias=False))
    known: sp.csr_array | None = None
    name: str = "embedding"
    links: LinkModel | None = None
    features: Features | None = None
    columns: FeatureColumns | None = None

    def with_edges_of(self, graph: Graph) -> Published:
        """The same with the edges of a graph as the known ones; nodes without a vector do not count."""
        arcs = graph.arcs if self.decoder.is_directed and graph.arcs is not None else graph.adjacency
        ids = np.arange(graph.num_nodes) if graph.node_ids is None else graph.node_ids
        rows = find_rows(ids, self.node_ids)
        if (rows < 0).all():
            raise InputError(f"{graph.name}: none of its nodes is in {self.name}; give the graph that was embedded")
        sources = rows[np.repeat(np.arange(graph.num_nodes), np.diff(arcs.indptr))]
        targets = rows[arcs.indices]
        kept = (sources >= 0) & (targets >= 0)
        num_nodes = len(self.node_ids)
        ones = np.ones(int(kept.sum()), np.int8)
        known = sp.csr_array((ones, (sources[kept], targets[kept])), shape=(num_nodes, num_nodes))
        known.sort_indices()
        places = find_rows(self.node_ids, ids)
        features = None if graph.features is None or (places < 0).any() else graph.features[places]
        return replace(self, known=known, features=features)

    def rows_of(self, nodes: Sequence[Any] | np.ndarray) -> np.ndarray:
        """(num_nodes,) rows of these nodes; an unknown one is refused with one that is spelled nearly so."""
        wanted = as_node_ids(list(nodes), self.name)
        rows = find_rows(wanted, self.node_ids)
        if (rows < 0).any():
            raise InputError(f"{self.name}: {self._unknown(str(wanted[int(np.argmax(rows < 0))]))}")
        return rows

    def neighbours(
        self,
        rows: np.ndarray,
        k: int,
        *,
        metric: str = "cosine",
        method: SearchMethod = "auto",
        index_file: Path | None = None,
    ) -> Neighbours:
        """The nearest nodes by cosine, inner product or the decoder's score. index_file: kept there for next time."""
        factors = self._factors(metric)
        if factors is None:
            if method == "index" or index_file is not None:
                raise InputError("a learned decoder has no index; search exactly, or by --metric cosine or inner")
            return Neighbours(*nearest_learned(self.decoder, self.vectors, rows, check_k(k, len(self.vectors))))
        if index_file is None:
            return nearest(factors, rows, k, method=method)
        if index_file.exists():
            index = NeighbourIndex.load(index_file, factors)
        else:
            index = NeighbourIndex.build(factors)
            index.save(index_file)
        return search_index(index, rows, k)

    def score_pairs(self, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """(num_pairs,) scores of pairs of rows."""
        return self.decoder.score(self.vectors, sources, targets)

    def read_pairs(self, path: Path) -> tuple[np.ndarray, np.ndarray]:
        """(num_pairs,) source and target rows of the pairs in a file of two columns."""
        if not path.is_file():
            raise InputError(f"{path}: no such file of pairs")
        if path.suffix.lower() != ".parquet" and not is_text_file(path):
            raise InputError(f"{path}: unknown ending of a file of pairs; use .csv, .tsv, .txt (also .gz) or .parquet")
        is_parquet = path.suffix.lower() == ".parquet"
        table = read_parquet_edges(path) if is_parquet else read_text_edges(path, [self.node_ids])
        return self._rows_in(table, "source"), self._rows_in(table, "target")

    def top_links(self, count: int) -> TopLinks:
        """The likeliest pairs that are not known edges, as rows."""
        if self.known is None:
            raise InputError(f"{self.name}: its edges are not known; give the graph that was embedded (--graph)")
        factors = factors_of(self.decoder, self.vectors)
        if factors is None:
            return top_learned_links(self.decoder, self.vectors, count, self.known)
        return top_links(factors, count, self.known)

    def _factors(self, metric: str) -> ScoreFactors | None:
        if metric == "decoder":
            return factors_of(self.decoder, self.vectors)
        check_choice("metric", metric, ALL_METRICS)
        return factors_by(self.vectors, metric)

    def _rows_in(self, table: EdgeTable, column: str) -> np.ndarray:
        wanted = (table.sources if column == "source" else table.targets).to_numpy()
        rows = find_rows(wanted, self.node_ids)
        if (rows < 0).any():
            row = int(np.argmax(rows < 0))
            reason = self._unknown(str(wanted[row]))
            raise InputError(f"{table.source_name}: {table.row_name(row)}: {reason}")
        return rows

    def _unknown(self, name: str) -> str:
        """Say that a node is not there, and which one may be meant."""
        close = near_names(name, self.node_ids)
        hint = f"nodes are named like {', '.join(quoted(node_id) for node_id in self.node_ids[:3].tolist())}"
        if close:
            hint = f"did you mean {' or '.join(repr(other) for other in close)}?"
        return f"no node {name!r}; {hint}"


def near_names(name: str, node_ids: np.ndarray) -> list[str]:
    """At most two ids that are spelled nearly so: first those that differ in capitals alone, then by shared letters."""
    names = [str(node_id) for node_id in node_ids.tolist()]
    lower = name.lower()
    same = [other for other in names if other.lower() == lower]
    if same:
        return same[:2]
    # To compare letters with all of a million names takes long; a slip leaves the beginning or the end intact.
    likely = [other for other in names if other[:2].lower() == lower[:2] or other[-2:].lower() == lower[-2:]]
    likely = [other for other in likely if abs(len(other) - len(name)) <= max(2, len(name) // 3)]
    return difflib.get_close_matches(name, likely[:50_000], n=2, cutoff=0.7)


def publish(artefact: Artefact, name: str) -> Published:
    """A finished run with its decoder and, where it keeps them, its edges. name: what errors call it."""
    vectors, ids, config = read_vectors(artefact), read_ids(artefact), read_config(artefact)
    with artefact.explained():
        parameters = {part: value.float().numpy() for part, value in artefact.weights_of("model.decoder").items()}
        decoder = read_decoder(config.decoder, parameters, vectors.shape[1])
    known = read_known_pairs(artefact, directed=decoder.is_directed)
    kept = artefact.values.get(LINK_MODEL)
    links = None if kept is None else LinkModel.from_dict(kept, name)
    node_ids = np.arange(len(vectors)) if ids is None else ids
    return Published(node_ids, vectors, decoder, known, name, links, columns=read_columns_of(artefact))
