"""Estimators: scikit-learn's shape, every kind of input, and a round trip through a folder."""

import inspect

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import l2g2g
from l2g2g import GAE, GAEL2G, L2G2G, VGAE, VL2G2G, FastGAE, InputError, read_graph
from l2g2g.config import Config
from l2g2g.estimators.estimator import load_model
from l2g2g.graphs.store import write_graph
from l2g2g.runs.artefact import write_artefact

ESTIMATORS = [GAE, VGAE, FastGAE, GAEL2G, L2G2G, VL2G2G]
LOCAL = [GAEL2G, L2G2G, VL2G2G]


def small(estimator, **options):
    if estimator in LOCAL:
        options = {"patches": 2, **options}
    return estimator(dim=4, hidden=8, epochs=4, **options)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_parameters_are_all_there_and_cloned(estimator):
    model = small(estimator, seed=5, lr=0.02)
    parameters = model.get_params()
    assert (parameters["dim"], parameters["seed"], parameters["lr"], parameters["hidden"]) == (4, 5, 0.02, 8)
    assert ("patches" in parameters) == (estimator in LOCAL)
    assert ("sample_size" in parameters) == (estimator is FastGAE)
    assert ("share_encoder" in parameters) == (estimator in (L2G2G, VL2G2G))
    twin = clone(model)
    assert twin is not model
    assert twin.get_params() == parameters
    assert clone(model).set_params(dim=9).dim == 9
    assert estimator.__name__ in repr(model)
    assert set(parameters) - set(Config.names()) == {"random_state", "validation_fraction", "run_dir", "resume"}


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_parameters_reach_the_config(estimator):
    config = small(estimator, preset="paper", seed=5, layers=3).make_config()
    assert (config.dim, config.hidden, config.epochs, config.seed, config.layers) == (4, 8, 4, 5, 3)
    assert (config.preset, config.lr) == ("paper", 0.001)
    assert (
        config.method
        == {
            "GAE": "gae",
            "VGAE": "vgae",
            "FastGAE": "fastgae",
            "GAEL2G": "gae+l2g",
            "L2G2G": "l2g2g",
            "VL2G2G": "vl2g2g",
        }[estimator.__name__]
    )


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_fit_leaves_results_and_settings_alone(noisy, estimator):
    model = small(estimator)
    before = model.get_params()
    assert model.fit(noisy) is model
    assert model.get_params() == before
    assert model.embedding_.shape == (noisy.num_nodes, 4)
    assert model.embedding_.dtype == np.float32
    assert len(model.history_.losses) == 4
    assert model.config_.dim == 4
    assert model.node_ids_ is None
    assert (clone(model).fit_transform(noisy) == model.embedding_).all()


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_saved_models_come_back(noisy, estimator, tmp_path):
    model = small(estimator, seed=2).fit(noisy)
    model.save(tmp_path / "deep" / "run")
    assert [path.name for path in (tmp_path / "deep" / "run").iterdir()] == ["trainings"]
    loaded = estimator.load(tmp_path / "deep" / "run")
    assert type(loaded) is estimator
    assert loaded.get_params() == model.get_params()
    assert (loaded.embedding_ == model.embedding_).all()
    assert loaded.config_ == model.config_
    assert loaded.history_.losses == model.history_.losses
    loaded.save(tmp_path / "again")
    again = estimator.load(tmp_path / "again")
    assert (again.embedding_ == model.embedding_).all()
    first, second = (
        (tmp_path / place / "trainings/embed/manifest.json").read_bytes() for place in ("deep/run", "again")
    )
    assert first == second  # which holds the sums of all files


def test_ids_survive_saving(tmp_path):
    ring = nx.relabel_nodes(nx.cycle_graph(24), {node: f"n{node}" for node in range(24)})
    model = small(GAE).fit(ring)
    assert model.node_ids_.tolist() == [f"n{node}" for node in range(24)]
    model.save(tmp_path)
    assert GAE.load(tmp_path).node_ids_.tolist() == model.node_ids_.tolist()


def test_loading_refuses_what_is_not_its_own(noisy, tmp_path):
    small(GAE).fit(noisy).save(tmp_path / "run")
    with pytest.raises(InputError, match="holds a GAE, not a L2G2G"):
        L2G2G.load(tmp_path / "run")
    with pytest.raises(InputError, match="no run has finished here"):
        GAE.load(tmp_path)


def test_an_unfitted_model_has_nothing_to_save(tmp_path):
    with pytest.raises(NotFittedError):
        GAE().save(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_every_kind_of_input_gives_the_same_vectors(noisy):
    sources, targets = noisy.edges()
    features = noisy.features
    expected = small(GAE).fit(noisy).embedding_
    network = nx.Graph()
    network.add_nodes_from(range(noisy.num_nodes))
    network.add_edges_from(zip(sources.tolist(), targets.tolist(), strict=True))
    kinds = {
        "edges and features": (np.stack([sources, targets]), features),
        "transposed": (np.stack([targets, sources], axis=1), features),
        "scipy": (sp.coo_array(noisy.adjacency), features),
        "networkx": (network, features),
        "graph": read_graph(noisy),
    }
    for kind, source in kinds.items():
        assert (small(GAE).fit(source).embedding_ == expected).all(), kind


def test_bad_settings_are_refused_before_the_graph_is_touched(noisy):
    for options in ({"dim": 0}, {"preset": "best"}, {"lr": -1.0}, {"seed": -1}):
        with pytest.raises(InputError):
            GAE(**options).fit(noisy)
    with pytest.raises(TypeError):
        GAE(patches=3)


def test_validation_can_be_turned_off(noisy):
    held, all_edges = (GAE(dim=4, epochs=12, validation_fraction=f).fit(noisy).history_ for f in (0.05, 0.0))
    assert [epoch for epoch, _ in held.validations] == [5, 10, 12]
    assert all_edges.validations == []


@pytest.fixture(scope="module")
def shown(noisy, plain, tmp_path_factory):
    """Models in every state, and whether each has a module and what new nodes need."""
    folder = tmp_path_factory.mktemp("shown")
    write_graph(noisy, folder / "store")
    fitted = GAE(dim=4, epochs=1, structure="none").fit(noisy)
    fitted.save(folder / "model")
    return {
        "unfitted": (GAE(dim=4), False, False),
        "unfitted patches": (L2G2G(dim=4), False, False),
        "features": (fitted, True, True),
        "no features": (GAE(dim=4, epochs=1).fit(plain), False, True),
        "no features, patches": (L2G2G(dim=4, epochs=1, patches=2).fit(plain), False, True),
        "a frame for each patch": (GAEL2G(dim=4, epochs=1, patches=2).fit(noisy), False, True),
        "on disk": (L2G2G(dim=4, epochs=1, patches=2, structure="none").fit(folder / "store"), True, True),
        "loaded": (GAE.load(folder / "model"), True, True),
    }


SHOWN = ["unfitted", "unfitted patches", "features", "no features", "no features, patches"]


@pytest.mark.parametrize("state", [*SHOWN, "a frame for each patch", "on disk", "loaded"])
def test_a_model_can_be_shown_and_completed(shown, state):
    model, has_module, has_fitted = shown[state]
    assert hasattr(model, "module_") == ("module_" in dir(model)) == has_module
    assert hasattr(model, "fitted") == ("fitted" in dir(model)) == has_fitted
    for name in dir(model):
        getattr(model, name)
    for name, _ in inspect.getmembers(type(model), lambda member: isinstance(member, property)):
        getattr(model, name, None)
    assert type(model).__name__ in repr(model)
    assert "<" in model._repr_html_()
    assert model._repr_mimebundle_()["text/plain"] == repr(model)


def test_a_missing_module_says_why(shown, noisy):
    for state, reason in (
        ("no features", "columns made from the structure"),
        ("a frame for each patch", "from 2 patches"),
        ("unfitted", "not fitted"),
    ):
        with pytest.raises(AttributeError, match=reason):
            _ = shown[state][0].module_


def test_the_package_names_what_it_promises():
    for name in l2g2g.__all__:
        assert getattr(l2g2g, name) is not None, name
    assert set(l2g2g.__all__) <= set(dir(l2g2g))
    assert inspect.signature(L2G2G).parameters["dim"].default is None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = l2g2g.nothing


def test_directed_graphs_and_other_decoders_are_saved_whole(tmp_path):
    arcs = np.array([(i, (i + step) % 40) for i in range(40) for step in (1, 2)])
    model = L2G2G(dim=4, patches=2, epochs=3, directed=True).fit((arcs, None))
    assert model.config_.decoder == "asymmetric"
    model.save(tmp_path / "a")
    again = L2G2G.load(tmp_path / "a")
    assert (again.directed, again.config_) == (True, model.config_)
    assert (again.embedding_ == model.embedding_).all()
    model = GAE(dim=4, epochs=3, decoder="distance", negative_sampling="degree").fit((arcs, None))
    model.save(tmp_path / "b")
    assert GAE.load(tmp_path / "b").fitted.model.decoder.log_scale == model.fitted.model.decoder.log_scale


@pytest.mark.parametrize("change", [{"parameters": {"no_such": 1}}, {"estimator": None}, {"estimator": ["GAE"]}])
def test_a_saved_model_that_was_changed_is_refused(tmp_path, change):
    edges = [(node, (node + 1) % 24) for node in range(24)]
    model = small(GAE).fit((edges, None))
    write_artefact(tmp_path, "embed", model._artefact.contents(**change))
    for load in (GAE.load, load_model):
        with pytest.raises(InputError):
            load(tmp_path)
