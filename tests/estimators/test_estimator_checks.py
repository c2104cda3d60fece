"""scikit-learn's own checks of an estimator, all that apply; docs/scikit-learn.md repeats the reasons of the others."""

import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from l2g2g import GAE, GAEL2G, L2G2G, VGAE, VL2G2G, FastGAE

SMALL = {"dim": 2, "hidden": 4, "epochs": 2, "validation_fraction": 0.0}
EVERY_PAIR_IS_LINKED = (
    "the check's matrix links every pair of nodes: no pair without a link is left to be scored against"
)
DO_NOT_APPLY = {
    "check_methods_subset_invariance": "a few rows of an adjacency are new nodes, not the known nodes of these rows",
    "check_methods_sample_order_invariance": "rows of an adjacency moved without their columns are another graph",
    "check_fit_score_takes_y": EVERY_PAIR_IS_LINKED,
    "check_pipeline_consistency": EVERY_PAIR_IS_LINKED,
}
PAGE = Path(__file__).parents[2] / "docs" / "scikit-learn.md"


@parametrize_with_checks(
    [
        GAE(**SMALL),
        VGAE(**SMALL),
        FastGAE(**SMALL),
        GAEL2G(patches=2, **SMALL),
        L2G2G(patches=2, **SMALL),
        VL2G2G(patches=2, **SMALL),
    ],
    expected_failed_checks=lambda estimator: DO_NOT_APPLY,
    xfail_strict=True,
)
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::l2g2g.alignment.procrustes.AlignmentWarning")  # two epochs on twenty nodes
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_the_page_gives_the_same_reasons():
    rows = dict(re.findall(r"^\| `(check_\w+)` \| (.*?) \|$", PAGE.read_text(), re.M))
    assert rows == DO_NOT_APPLY


@pytest.mark.slow
def test_grid_search_over_nodes_scores_the_links_of_new_nodes(noisy):
    folds = KFold(3, shuffle=True, random_state=0)
    search = GridSearchCV(GAE(epochs=40, dim=4, random_state=0, structure="none"), {"lr": [1e-6, 0.05]}, cv=folds)
    search.fit(noisy)
    untrained, trained = search.cv_results_["mean_test_score"]
    assert search.best_params_ == {"lr": 0.05}
    assert trained > untrained + 0.05
    assert search.best_estimator_.embedding_.shape == (noisy.num_nodes, 4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["graph", "sparse", "dense"])
def test_before_a_classifier_new_nodes_are_classified_from_their_links(planted, kind):
    sources = {"graph": planted, "sparse": planted.adjacency, "dense": planted.adjacency.toarray()}
    pipe = make_pipeline(
        L2G2G(dim=8, patches=2, epochs=60, structure="blend", random_state=0), LogisticRegression(C=10)
    )
    search = GridSearchCV(pipe, {"logisticregression__C": [10.0]}, cv=KFold(3, shuffle=True, random_state=1))
    search.fit(sources[kind], planted.labels)
    assert search.best_score_ > 0.8  # four blocks: a guess is right in a quarter
    assert pipe.get_params()["l2g2g__random_state"] == 0
    assert clone(pipe).fit(sources[kind], planted.labels).score(sources[kind], planted.labels) > 0.8


def test_a_model_names_its_columns_and_its_parameters():
    ring = sp.csr_array(np.roll(np.eye(30), 1, axis=1) + np.roll(np.eye(30), 2, axis=1))
    model = L2G2G(dim=3, patches=2, epochs=2, lr=0.03)
    assert repr(model) == "L2G2G(dim=3, epochs=2, lr=0.03, patches=2)"
    model.set_output(transform="pandas").fit(ring)
    assert model.get_feature_names_out().tolist() == ["l2g2g0", "l2g2g1", "l2g2g2"]
    assert model.n_features_in_ == 30
    table = model.transform(ring)
    assert table.columns.tolist() == ["l2g2g0", "l2g2g1", "l2g2g2"]
    assert (table.to_numpy() == model.embedding_).all()


def test_random_state_is_the_seed():
    ring = sp.csr_array(np.roll(np.eye(30), 1, axis=1))
    first, second, other = (GAE(dim=3, epochs=2, **each).fit(ring) for each in ({"seed": 7}, {"random_state": 7}, {}))
    assert (first.embedding_ == second.embedding_).all()
    assert (first.embedding_ != other.embedding_).any()
    states = [GAE(random_state=np.random.RandomState(3)).make_config().seed for _ in range(2)]
    assert states[0] == states[1] > 7
    with pytest.raises(ValueError, match="seed"):
        GAE(random_state=-1).fit(ring)
