"""Frames: results as DataFrames of pandas, which is optional (extra `tables`) and imported on first use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from l2g2g.errors import ResourceError

if TYPE_CHECKING:
    import pandas as pd

_MOST_ROWS = 10


def make_frame(
    columns: Mapping[str, Any], ids: np.ndarray | None = None, index_name: str | None = None
) -> pd.DataFrame:
    """A DataFrame of these columns. ids: its index; None numbers the rows."""
    try:
        import pandas as pd
    except ImportError as error:
        raise ResourceError("DataFrames need pandas: pip install 'l2g2g[tables]'") from error
    index = None if ids is None else pd.Index(ids, name=index_name)
    return pd.DataFrame(dict(columns), index=index)


def show_rows(title: str, columns: Mapping[str, np.ndarray]) -> str:
    """A table as text for a notebook or a terminal, without pandas: of many rows the first.

    Example:
        >>> print(show_rows("2 links", {"source": np.array(["ann", "bob"]), "score": np.array([0.5, 0.25])}))
        2 links
        source   score
        ann     0.5000
        bob     0.2500
    """
    num_rows = len(next(iter(columns.values())))
    lines = []
    for name, values in columns.items():
        is_number = values.dtype.kind == "f"
        cells = [f"{value:.4f}" if is_number else str(value) for value in values[:_MOST_ROWS]]
        width = max(map(len, (name, *cells)))
        lines.append([cell.rjust(width) if is_number else cell.ljust(width) for cell in (name, *cells)])
    more = [f"… {num_rows - _MOST_ROWS:,} more rows; to_pandas() has all"] if num_rows > _MOST_ROWS else []
    return "\n".join([title, *("  ".join(cells).rstrip() for cells in zip(*lines, strict=True)), *more])


def embedding_frame(vectors: np.ndarray, ids: np.ndarray | None, titles: list[str]) -> pd.DataFrame:
    """(num_nodes, dim) vectors with the ids as index and a column for each dimension."""
    index = np.arange(len(vectors)) if ids is None else ids
    return make_frame({title: vectors[:, place] for place, title in enumerate(titles)}, index, "id")
