"""Inputs: how features and edges become the rows an encoder reads, kept so that new nodes are read in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from l2g2g.errors import InputError
from l2g2g.graphs.graph import Features
from l2g2g.models.number_columns import NumberScale
from l2g2g.models.preprocessing import (
    FeatureScaling,
    FeatureStatistics,
    append_columns,
    compress_features,
    principal_map,
    scale_features,
)
from l2g2g.models.shared_rows import SharedRows
from l2g2g.models.structure import DegreeTerm, StructureMap, blend_factor, fit_products, scale_rows
from l2g2g.parallel.communicator import Communicator


@dataclass(frozen=True, eq=False)
class InputMap:
    """What was found on the nodes of training: for others it is only applied.

    Attributes:
        num_features: Feature columns of the graph; 0 where the structure alone was read.
        scaling: How rows are scaled.
        centre, projection: (num_features,) and (num_features, width): the compression, where there is one.
        structure: Columns made from the structure, where there are some.
        structure_factor: What they are multiplied with beside features.
        structure_only: Whether features, where there are some, are not read.
        row_power: Power of their length by which rows of structural columns are divided.
        degree_term: A last column made from the number of neighbours, where there is one. If only the structure is
            read, the log-degrees among its columns tell these numbers.
        numbers: How a table of numbers is read, in place of `scaling`; None for other features.
    """

    num_features: int
    scaling: FeatureScaling
    centre: np.ndarray | None = None
    projection: np.ndarray | None = None
    structure: StructureMap | None = None
    structure_factor: float = 1.0
    structure_only: bool = False
    row_power: float = 0.0
    degree_term: DegreeTerm | None = None
    numbers: NumberScale | None = None

    @property
    def num_columns(self) -> int:
        """Columns that the encoder reads."""
        own = self.num_features if self.projection is None else self.projection.shape[1]
        own = 0 if self.structure_only else own
        own += 0 if self.degree_term is None else 1
        return own + (0 if self.structure is None else self.structure.columns.shape[1])

    def with_degrees(self, find: Callable[[], np.ndarray]) -> InputMap:
        """The same for the nodes of another graph. find: gives their numbers of neighbours, (num_nodes,)."""
        if self.degree_term is None or self.structure_only:
            return self
        return replace(self, degree_term=self.degree_term.with_degrees(find()))

    def check(self, found: int, name: str) -> None:
        """Refuse a graph with another number of feature columns than that of the training. found: its columns."""
        if found == self.num_features:
            return
        if self.num_features == 0:
            raise InputError(f"{name}: has {found:,} features, the model was trained without any; leave them out")
        raise InputError(
            f"{name}: has {found:,} features, the model was trained on {self.num_features:,}; give every node the same"
        )

    def read(
        self, features: Features | None, columns: np.ndarray | None, degrees: np.ndarray | None = None
    ) -> Features:
        """(num_rows, num_columns) what the encoder reads of some nodes.

        features: (num_rows, num_features), as given. columns: (num_rows, width + 1) their structural columns.
        degrees: (num_rows,) their numbers of neighbours; needed with a degree term beside features.
        """
        rows = self._read(features, columns)
        if self.degree_term is None:
            return rows
        if self.structure_only:
            assert self.structure is not None
            assert columns is not None
            degrees = self.structure.degrees_of(columns)
        assert degrees is not None
        return append_columns(rows, self.degree_term.of(degrees)[:, None])

    def _read(self, features: Features | None, columns: np.ndarray | None) -> Features:
        columns = None if columns is None else scale_rows(columns, self.row_power)
        if features is None or self.structure_only:
            assert columns is not None
            return columns
        features = self.numbers.apply(features) if self.numbers is not None else scale_features(features, self.scaling)
        if self.centre is not None and self.projection is not None:
            features = compress_features(features, self.centre, self.projection)
        return features if columns is None else append_columns(features, columns * np.float32(self.structure_factor))

    def read_nodes(self, features: Features | None, nodes: np.ndarray | slice) -> Features:
        """The same of some nodes of training. features: (num_rows, num_features) their rows, None where there are none.

        Every row is read alone: the result is that of all rows at once.
        """
        if features is not None and features.dtype != np.float32:
            features = features.astype(np.float32)
        columns = None
        if self.structure is not None:
            columns = self.structure.rows_of(nodes)
        term = None if self.structure_only else self.degree_term
        return self.read(features, columns, None if term is None else term.degrees[nodes])


class InputSource(Protocol):
    """A graph, in memory or on disk, as its inputs are fitted: passes over its rows, as many as are needed."""

    @property
    def num_features(self) -> int:
        """Feature columns; 0 without features."""

    @property
    def degrees(self) -> np.ndarray:
        """(num_owned,) number of neighbours of the nodes of the span."""

    @property
    def strengths(self) -> np.ndarray:
        """(num_owned,) float64 sum of the weights of a node's edges."""

    @property
    def components(self) -> np.ndarray:
        """(num_owned,) number of the connected component of a node."""

    def read_features(self, inputs: InputMap) -> Callable[[], Iterable[Features]]:
        """Gives what these inputs read of all nodes, in order, some at a time; called once for every pass."""

    @property
    def communicator(self) -> Communicator:
        """Of the ranks that share the rows."""

    @property
    def span(self) -> tuple[int, int]:
        """The nodes whose rows of a product this rank computes."""

    def propagate(self, table: Tensor) -> Tensor:
        """(num_owned, width) the rows of these nodes of Â times a table, of which it is given the same rows."""


def fit_source(source: InputSource, width: int, **how: Any) -> StructureMap:
    """Structural columns of a graph. how: further arguments of `fit_products`."""
    parts = source.degrees, source.strengths, source.components
    shared = SharedRows(source.communicator)
    return fit_products(source.propagate, *parts, width, span=source.span, shared=shared, **how)


def fit_inputs(
    source: InputSource,
    *,
    scaling: FeatureScaling = "centred",
    feature_width: int = 0,
    structure_width: int = 0,
    structure: StructureMap | None = None,
    scales_numbers: bool = False,
    seed: int = 0,
) -> InputMap:
    """Find how a graph is read.

    feature_width: columns to which features are compressed; 0 for not. structure_width: columns made from the
    structure; 0 for none. A graph without features always needs some. structure: such columns, where they are found.
    scales_numbers: whether the features are a table of numbers, whose columns are brought to one scale.
    """
    if structure_width and structure is None:
        structure = fit_source(source, structure_width, seed=seed)
    structure = structure if structure_width else None
    if source.num_features == 0:
        if structure is None:
            raise InputError("a graph without features needs columns made from its structure")
        return InputMap(0, scaling, structure=structure)
    numbers = None
    if scales_numbers:
        numbers = NumberScale.fit(source.read_features(InputMap(source.num_features, "raw"))())
    inputs = InputMap(source.num_features, scaling, numbers=numbers)
    if feature_width:
        centre, projection = principal_map(source.read_features(inputs), feature_width, seed=seed)
        inputs = replace(inputs, centre=centre, projection=projection)
    if structure is None:
        return inputs
    facts = FeatureStatistics.of_blocks(source.read_features(inputs)(), inputs.num_columns)
    structural = FeatureStatistics.of(structure.found_rows)
    if structure.span is not None:
        structural = structural.total(SharedRows(source.communicator))
    factor = blend_factor(facts.centre()[1], structural.centre()[1])
    return replace(inputs, structure=structure, structure_factor=factor)
