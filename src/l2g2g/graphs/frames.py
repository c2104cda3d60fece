"""Frames: results as DataFrames of pandas, which is optional (extra `tables`) and imported on first use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from l2g2g.errors import ResourceError

if TYPE_CHECKING:
    import pandas as pd


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


def embedding_frame(vectors: np.ndarray, ids: np.ndarray | None, titles: list[str]) -> pd.DataFrame:
    """(num_nodes, dim) vectors with the ids as index and a column for each dimension."""
    index = np.arange(len(vectors)) if ids is None else ids
    return make_frame({title: vectors[:, place] for place, title in enumerate(titles)}, index, "id")
