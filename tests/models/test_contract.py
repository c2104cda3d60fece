"""Invariant 5: every registered decoder and encoder can be trained, resumed, saved, loaded, asked and shown."""

import numpy as np
import pytest

from l2g2g import L2G2G
from l2g2g.config import OPTIONS, make_config
from l2g2g.graphs.graph import Graph
from l2g2g.models.decoders import DECODERS
from l2g2g.models.encoders import ENCODERS
from l2g2g.reports.projection import project
from l2g2g.reports.run_page import render_run
from l2g2g.runs.artefact import open_artefact
from l2g2g.runs.embed import embed_graph
from l2g2g.runs.record import read_record
from l2g2g.runs.run_directory import open_run

NUM_NODES, DIM, EPOCHS = 80, 8, 6
CASES = [("decoder", name) for name in DECODERS] + [("encoder", name) for name in ENCODERS]


class StoppedError(Exception):
    """What ends a training in the middle."""


def make_graph(directed):
    """Two blocks; features tell them apart in one column."""
    generator = np.random.default_rng(0)
    sources, targets = generator.integers(0, NUM_NODES, (2, 1500))
    kept = (sources != targets) & ((sources % 2 == targets % 2) | (generator.random(1500) < 0.1))
    features = generator.normal(size=(NUM_NODES, 5)).astype(np.float32)
    features[::2, 0] += 2
    return Graph.from_arcs(
        sources[kept], targets[kept], num_nodes=NUM_NODES, features=features, directed=directed, name="blocks"
    )


def is_directed(part, name):
    return part == "decoder" and DECODERS[name].is_directed


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def trained(request, tmp_path_factory):
    """(model, graph, settings, its run directory)."""
    part, name = request.param
    graph, folder = make_graph(is_directed(part, name)), tmp_path_factory.mktemp("contract")
    options = {"dim": DIM, "patches": 2, "epochs": EPOCHS, "directed": graph.directed or None, part: name}
    options |= {"structure": "none", "degree_term": False}  # spectral vectors have nothing that is trained
    model = L2G2G(seed=0, threads=1, run_dir=folder / "run", **options).fit(graph)
    return model, graph, options, folder / "run"


def test_training_changes_the_loss(trained):
    losses = trained[0].history_.losses
    assert len(set(losses)) == EPOCHS
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0]


def test_every_parameter_is_trained(trained):
    model, graph, options, _ = trained
    start = embed_graph(graph, make_config(**{**options, "epochs": 0}, threads=1), keep=True).fitted.model.state_dict()
    still = [name for name, value in model.fitted.model.named_parameters() if (value == start[name]).all()]
    assert still == []


def test_resumed_is_the_same_to_the_bit(trained, tmp_path):
    model, graph, options, _ = trained
    config = make_config(**options, threads=1)

    def stop(report):
        if report.epoch == EPOCHS // 2:
            raise StoppedError

    with pytest.raises(StoppedError), open_run(tmp_path, resume=False, interval=0) as directory:
        embed_graph(graph, config, directory=directory, on_epoch=stop)
    with open_run(tmp_path, resume=True, interval=0) as directory:
        again = embed_graph(graph, config, directory=directory)
    assert 0 < again.trained.history.resumed_from_epoch < EPOCHS
    assert again.trained.history.losses == model.history_.losses
    assert np.array_equal(again.embedding, model.embedding_)


def test_loaded_is_what_was_saved(trained, tmp_path):
    model, graph, _, _ = trained
    model.save(tmp_path)
    loaded = L2G2G.load(tmp_path)
    assert np.array_equal(loaded.embedding_, model.embedding_)
    pairs = [(0, 1), (1, 0), (2, 7)]
    assert np.array_equal(loaded.predict_links(pairs), model.predict_links(pairs))
    assert np.array_equal(loaded.transform(graph), model.embedding_)
    new = graph.adjacency[:5], graph.features[:5] + 0.5
    vectors = loaded.transform(new)
    assert np.array_equal(vectors, model.transform(new))
    assert vectors.shape == (5, DIM)
    assert np.isfinite(vectors).all()
    moved = loaded.transform((graph.adjacency[5:10], new[1]))
    assert not np.allclose(vectors, moved)  # edges count, not features alone


def test_vectors_of_the_same_graph_without_known_nodes_are_the_same(trained):
    """Nodes encoded as new ones, all at once, go through the steps of the last pass."""
    model, graph, _, _ = trained
    assert model.transform(graph, new_graph=True) == pytest.approx(model.embedding_, abs=1e-4)


def test_top_links_are_the_highest_scores_without_edges(trained):
    model, graph, _, _ = trained
    found = model.top_links(5, scorer="vectors")
    decoder = model.fitted.model.decoder
    known = (graph.arcs if decoder.is_directed else graph.adjacency).toarray() > 0
    sources, targets = np.nonzero(~known & ~np.eye(NUM_NODES, dtype=bool))
    if not decoder.is_directed:
        sources, targets = sources[sources < targets], targets[sources < targets]
    scores = decoder.score(model.embedding_, sources, targets)
    if decoder.has_factors:
        assert found.scores == pytest.approx(np.sort(scores)[::-1][:5], abs=1e-4)
    ours = decoder.score(model.embedding_, found.sources, found.targets)
    assert found.scores == pytest.approx(ours, abs=1e-4)
    assert not known[found.sources, found.targets].any()
    if not decoder.is_directed:
        assert decoder.score(model.embedding_, found.targets, found.sources) == pytest.approx(ours, abs=1e-4)


def test_the_page_has_the_score_of_the_decoder(trained):
    model, _, _, folder = trained
    record = read_record(open_artefact(folder))
    assert np.array_equal(record.vectors, model.embedding_)
    page = render_run(record, {"pca": project(record.vectors)})
    decoder = model.fitted.model.decoder
    assert f"const scoreByDecoder = {decoder.page_score or 'null'};" in page
    assert np.isfinite(list(decoder.page_facts().values())).all()


def test_rotations_change_scores_where_the_decoder_says_so(trained):
    model = trained[0]
    decoder, vectors = model.fitted.model.decoder, model.embedding_.astype(np.float32)
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(DIM, DIM)))[0].astype(np.float32)
    ends = np.arange(30), np.arange(30, 60)
    before, after = decoder.score(vectors, *ends), decoder.score(vectors @ rotation, *ends)
    assert np.allclose(before, after, atol=1e-4) != decoder.sees_rotation


@pytest.mark.parametrize(("option", "table"), [("decoder", DECODERS), ("encoder", ENCODERS)])
def test_help_names_every_one(option, table):
    assert OPTIONS[option].choices == tuple(table)
    assert all(name in OPTIONS[option].help for name in table)
