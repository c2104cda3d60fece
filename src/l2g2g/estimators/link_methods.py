"""Link methods of a fitted estimator: neighbours, probabilities of links, missing links.

What they need is imported by the first call, so that importing an estimator takes no torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn import get_config
from sklearn.utils.validation import check_is_fitted

from l2g2g.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from l2g2g.neighbours.search import SearchMethod
    from l2g2g.runs.artefact import Artefact
    from l2g2g.runs.published import Published


class LinkMethods:
    """Neighbours, probabilities of links, and missing links, for estimators. Nodes are named by their ids."""

    embedding_: np.ndarray
    node_ids_: np.ndarray | None
    _artefact: Artefact

    def neighbours(self, nodes: Any, k: int = 10, *, metric: str = "cosine", method: SearchMethod = "auto") -> Any:
        """The k nearest nodes of each of these nodes, as ids: a `Neighbours`. metric: cosine, inner or decoder.

        With set_output(transform="pandas") a DataFrame, which `Neighbours.to_pandas` gives too.

        method: exact, index, or auto: exact unless building an index pays; `recall` says what an index found.

        Example:
            >>> from l2g2g import GAE
            >>> edges = [(i, (i + step) % 40) for i in range(40) for step in (1, 2)]
            >>> GAE(dim=4, epochs=3).fit((edges, None)).neighbours([0, 7], k=3).nodes.shape
            (2, 3)
        """
        published = self.published()
        rows = published.rows_of(_as_list(nodes))
        found = published.neighbours(rows, k, metric=metric, method=method)
        asked = published.node_ids[rows]
        return self._shown(replace(found, nodes=published.node_ids[found.nodes], queries=asked))

    def predict_links(self, pairs: Sequence[tuple[Any, Any]] | np.ndarray, *, scorer: str = "auto") -> Any:
        """(num_pairs,) probability of each pair to be an edge, as `l2g2g predict` gives it.

        scorer: vectors, combined (with pair features), or auto: what the validation pairs of the training prefer.
        With set_output(transform="pandas") a DataFrame of source, target and probability.
        """
        from l2g2g.graphs.write_table import make_frame
        from l2g2g.runs.link_prediction import score_pairs

        published = self.published()
        pairs = list(pairs)
        if any(len(pair) != 2 for pair in pairs):
            raise InputError("a pair is (node, node); give a list of pairs, or an array of two columns")
        sources, targets = (published.rows_of([pair[end] for pair in pairs]) for end in (0, 1))
        found = score_pairs(published, sources, targets, scorer=scorer, missing_share=None)
        probabilities = found.links.probabilities
        if not self._wants_frames():
            return probabilities
        ids = published.node_ids
        return make_frame({"source": ids[sources], "target": ids[targets], "probability": probabilities})

    def top_links(self, count: int, graph: Any = None, *, scorer: str = "auto") -> Any:
        """The likeliest pairs that are no edges, as ids, with their probabilities: a `TopLinks`.

        With set_output(transform="pandas") a DataFrame, which `TopLinks.to_pandas` gives too.

        graph: whose edges are known already; by default what was fitted. scorer: as in `predict_links`.
        """
        from l2g2g.graphs.read import read_graph
        from l2g2g.runs.link_prediction import find_links

        published = self.published()
        if graph is not None:
            published = published.with_edges_of(read_graph(graph, directed=published.decoder.is_directed))
        elif published.known is None:
            raise InputError("the model keeps no edges, which were too many; give the graph: top_links(count, graph)")
        found = find_links(published, count, scorer=scorer, missing_share=None).links
        ids = published.node_ids
        return self._shown(replace(found, sources=ids[found.sources], targets=ids[found.targets]))

    def to_pandas(self) -> pd.DataFrame:
        """`embedding_` as a DataFrame with the ids as index."""
        from l2g2g.graphs.write_table import embedding_frame

        check_is_fitted(self, "embedding_")
        return embedding_frame(self.embedding_, self.node_ids_, self._titles())

    def _titles(self) -> list[str]:
        return [str(title) for title in self.get_feature_names_out()]  # type: ignore[attr-defined]

    def _wants_frames(self) -> bool:
        """Whether `set_output(transform="pandas")` was called here, or is set for all of scikit-learn."""
        own = getattr(self, "_sklearn_output_config", {}).get("transform")
        return (own or get_config()["transform_output"]) == "pandas"

    def _shown(self, found: Any) -> Any:
        return found.to_pandas() if self._wants_frames() else found

    def published(self, name: str = "the model") -> Published:
        """The embedding with its decoder and, where it keeps them, its edges. name: what errors call it."""
        from l2g2g.runs.published import publish

        check_is_fitted(self, "embedding_")
        return publish(self._artefact, name)


def _as_list(nodes: Any) -> list[Any]:
    """One node or several."""
    return [nodes] if isinstance(nodes, (str, int, np.integer)) else list(nodes)
