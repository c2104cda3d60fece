"""Inputs: what was found on some nodes is applied to others, and the same nodes read twice are the same."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from l2g2g.errors import InputError
from l2g2g.models.inputs import fit_inputs
from l2g2g.training.rows import TrainingRows
from l2g2g.training.whole_pass import RowSource

KINDS = {
    "scaled": {},
    "compressed": {"feature_width": 5},
    "blended": {"structure_width": 6},
    "both": {"feature_width": 5, "structure_width": 6},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sparse", [False, True])
def test_known_nodes_are_read_again_as_they_were(noisy, kind, sparse):
    features = sp.csr_array(noisy.features) if sparse else noisy.features
    inputs = fit_inputs(RowSource(TrainingRows(replace(noisy, features=features))), **KINDS[kind])
    rows = inputs.read_nodes(features, slice(None))
    assert rows.shape == (noisy.num_nodes, inputs.num_columns)
    columns = None if inputs.structure is None else inputs.structure.columns
    again = inputs.read(features, columns)
    rows, again = (each.toarray() if sp.issparse(each) else each for each in (rows, again))
    assert (rows == again).all()
    some = np.array([5, 3])  # a few nodes alone are read no differently
    for part in (
        inputs.read(features[some], None if columns is None else columns[some]),
        inputs.read_nodes(features[some], some),
    ):
        assert (part.toarray() if sp.issparse(part) else part) == pytest.approx(rows[some], abs=1e-5)


def test_a_graph_without_features_is_read_by_its_structure(plain):
    source = RowSource(TrainingRows(plain))
    inputs = fit_inputs(source, structure_width=4)
    rows = inputs.read_nodes(None, slice(None))
    assert (inputs.num_features, inputs.num_columns) == (0, 5)
    assert (rows == inputs.structure.columns).all()
    with pytest.raises(InputError, match="needs columns"):
        fit_inputs(source)


def test_other_features_are_refused_with_their_number(noisy, plain):
    inputs = fit_inputs(RowSource(TrainingRows(noisy)))
    inputs.check(noisy.num_features, "graph")
    with pytest.raises(InputError, match="graph: has 5 features, the model was trained on 12"):
        inputs.check(5, "graph")
    with pytest.raises(InputError, match="has 0 features, the model was trained on 12"):
        inputs.check(0, "graph")
    bare = fit_inputs(RowSource(TrainingRows(plain)), structure_width=4)
    with pytest.raises(InputError, match="trained without any; leave them out"):
        bare.check(noisy.num_features, "graph")
