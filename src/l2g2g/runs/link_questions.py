"""Link questions: what a fitted estimator answers about neighbours and missing links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from l2g2g.errors import InputError
from l2g2g.graphs.read import read_graph
from l2g2g.neighbours.search import Neighbours, SearchMethod
from l2g2g.neighbours.top_links import TopLinks, sigmoid
from l2g2g.runs.published import Published, publish

if TYPE_CHECKING:
    from l2g2g.runs.artefact import Artefact


class LinkQuestions:
    """Neighbours, probabilities of links, and missing links, for estimators. Nodes are named by their ids."""

    embedding_: np.ndarray
    node_ids_: np.ndarray | None
    _artefact: Artefact

    def neighbours(
        self, nodes: Any, k: int = 10, *, metric: str = "cosine", method: SearchMethod = "auto"
    ) -> Neighbours:
        """The k nearest nodes of each of these nodes, as ids. metric: cosine, inner or decoder.

        method: exact, index, or auto: exact unless building an index pays; `recall` says what an index found.

        Example:
            >>> from l2g2g import GAE
            >>> edges = [(i, (i + step) % 40) for i in range(40) for step in (1, 2)]
            >>> GAE(dim=4, epochs=3).fit((edges, None)).neighbours([0, 7], k=3).nodes.shape
            (2, 3)
        """
        published = self.published()
        found = published.neighbours(published.rows_of(_as_list(nodes)), k, metric=metric, method=method)
        return replace(found, nodes=published.node_ids[found.nodes])

    def predict_links(self, pairs: Sequence[tuple[Any, Any]] | np.ndarray) -> np.ndarray:
        """(num_pairs,) probability of each pair to be an edge, by the decoder of the training."""
        published = self.published()
        pairs = list(pairs)
        if any(len(pair) != 2 for pair in pairs):
            raise InputError("a pair is (node, node); give a list of pairs, or an array of two columns")
        sources, targets = (published.rows_of([pair[end] for pair in pairs]) for end in (0, 1))
        return sigmoid(published.score_pairs(sources, targets))

    def top_links(self, count: int, graph: Any = None) -> TopLinks:
        """The likeliest pairs that are no edges, as ids.

        graph: whose edges are known already; by default what was fitted.
        """
        published = self.published()
        if graph is not None:
            published = published.with_edges_of(read_graph(graph, directed=published.decoder.is_directed))
        elif published.known is None:
            raise InputError("the model keeps no edges, which were too many; give the graph: top_links(count, graph)")
        found = published.top_links(count)
        ids = published.node_ids
        return replace(found, sources=ids[found.sources], targets=ids[found.targets])

    def published(self, name: str = "the model") -> Published:
        """The embedding with its decoder and, where it keeps them, its edges. name: what errors call it."""
        check_is_fitted(self, "embedding_")
        return publish(self._artefact, name)


def _as_list(nodes: Any) -> list[Any]:
    """One node or several."""
    return [nodes] if isinstance(nodes, (str, int, np.integer)) else list(nodes)
