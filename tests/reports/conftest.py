"""Records of runs that were never run: small, with odd names, and with every decoder; and their page in a browser."""

import json
import time
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from l2g2g.evaluation.separation import ScoredPairs
from l2g2g.graphs.graph import Cleaning
from l2g2g.graphs.splits import Pairs
from l2g2g.models.autoencoder import Autoencoder
from l2g2g.runs.record import GraphFacts, PatchFacts, RunRecord
from l2g2g.training.state import History

HOSTILE = (
    """</script><script>window.hacked = 1</script><img src="http://127.0.0.1:9/x" onerror="window.hacked = 2">'"&,"""
)


@pytest.fixture(scope="session")
def hostile():
    """A name that tries to be more than text."""
    return HOSTILE


@pytest.fixture(scope="session")
def record():
    """Forty nodes in two clouds, two patches and three labels, one name and one label hostile."""
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(40, 6)).astype(np.float32)
    vectors[:20, 0] += 6
    upper = sp.triu(sp.random(40, 40, 0.2, "csr", random_state=1), 1)
    upper = sp.csr_array(upper)
    upper.sort_indices()
    edges = sp.csr_array((np.ones(upper.nnz, bool), upper.indices, upper.indptr), shape=(40, 40))
    degrees = np.diff(sp.csr_array(edges + edges.T).indptr).astype(np.int32)
    names = np.array([f"node {row}" for row in range(39)] + [HOSTILE], dtype=object)
    held = np.argwhere(generator.random((40, 40)) < 0.05)
    separation = ScoredPairs.of("validation", vectors, Pairs(held[:30], held[30:60])).separation
    return RunRecord(
        name="embed",
        row={"seconds": {"train": 2.5, "total": 3.0}, "peak_memory_bytes": 2**30, "epochs": 4},
        settings={"method": "l2g2g", "preset": "default", "seed": 0, "decoder": "inner", "rotate": True, "lr": None},
        graph=GraphFacts(HOSTILE, 40, edges.nnz, 5, cleaning=Cleaning(num_arcs_read=200, num_self_loops=3)),
        history=History([3.0, 2.0, 1.5, 1.4], [0.1] * 4, [(2, 0.7), (4, 0.8)], [], 4),
        patches=PatchFacts([22, 20], [[0, 1]], [2], [0.25], [0.1, 0.15], 0.5, 0.25),
        separation=separation,
        vectors=vectors,
        degrees=degrees,
        home=np.repeat([0, 1], 20).astype(np.int32),
        node_ids=names,
        classes=["left", "right", HOSTILE],
        labels=np.repeat([0, 1, 2], [20, 15, 5]).astype(np.int32),
        residuals=np.linspace(0, 1, 40, dtype=np.float32),
        edges=edges,
        command="l2g2g embed '<b>.csv'",
        versions={"python": "3.11"},
    )


@pytest.fixture(scope="session")
def with_decoder(record):
    """The record with another decoder, its parameters not those of the start: with_decoder(kind)."""

    def make(kind):
        model = Autoencoder(3, record.vectors.shape[1], decoder=kind, learn_bias=True)
        parameters = model.decoder.state_dict()
        generator = torch.Generator().manual_seed(5)
        moved = {
            name: (value.detach() + 0.3 * torch.randn(value.shape, generator=generator)).numpy()
            for name, value in parameters.items()
        }
        return replace(record, settings={**record.settings, "decoder": kind}, decoder=moved)

    return make


class MapPage:
    """A page of a run in the browser, as a user would work with it."""

    def __init__(self, browser):
        self.browser = browser
        self.troubles, self.press = browser.troubles, browser.press

    def open(self, page, **options):
        """Open and wait until the map is drawn. Returns the seconds that took."""
        started = time.monotonic()
        self.browser.open(page, **options)
        self.browser.wait_for("document.documentElement.dataset.map === 'ready'")
        seconds = time.monotonic() - started
        self.show("map-overlay")
        return seconds

    def run(self, script):
        """The value of an expression."""
        return self.browser.evaluate(script)

    def show(self, name):
        self.run(f"document.getElementById('{name}').scrollIntoView({{block: 'center'}})")

    def texts(self, selector):
        return self.run(f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => one.textContent)")

    def box(self):
        """(left, top, right, bottom) of the map in the window."""
        return self.run("(b => [b.left, b.top, b.right, b.bottom])(pointMap.overlay.getBoundingClientRect())")

    def place_of(self, row):
        """Where a node is in the window."""
        left, top, _, _ = self.box()
        x, y = self.run(f"pointMap.toScreen({row})")
        return x + left, y + top

    def set(self, name, value):
        """Give a field of the page a value, as typing or choosing does."""
        change = "for (const kind of ['input', 'change']) box.dispatchEvent(new Event(kind));"
        self.run(f"((box) => {{ box.value = {json.dumps(value)}; {change} }})(document.getElementById('{name}'))")

    def find(self, name):
        """Search for a name; what is found, as texts."""
        self.run("document.getElementById('map-search').focus()")
        self.set("map-search", name)
        self.browser.wait_for("document.querySelector('#map-found button') !== null")
        return self.texts("#map-found button")

    def click_node(self, row):
        """Click a node on the map and wait for its lists."""
        self.browser.drag([self.place_of(row)])
        self.wait_for_lists()

    def wait_for_lists(self):
        self.browser.wait_for("document.querySelectorAll('#map-neighbours li, #map-links li').length === 20")

    def lasso(self, corners):
        """Draw a lasso; the rows that are selected."""
        if self.run("document.getElementById('map-lasso').getAttribute('aria-pressed')") == "false":
            self.browser.click("#map-lasso")
            self.show("map-overlay")
        self.browser.drag([*corners, corners[0]])
        return self.run("state.selected")

    def save(self, button, folder):
        """Click a button that saves a file; its lines."""
        self.browser.save_downloads(folder)
        before = set(folder.iterdir())
        self.browser.click(button)
        deadline = time.monotonic() + 20
        while True:
            assert time.monotonic() < deadline, "nothing was saved"
            new = set(folder.iterdir()) - before
            # The browser reserves the name with an empty file, and writes to another one that it renames.
            if len(new) == 1 and (path := new.pop()).suffix in (".txt", ".csv") and path.stat().st_size:
                return path.read_text(encoding="utf-8").splitlines()
            time.sleep(0.02)


@pytest.fixture
def map_page(browser):
    """A page of a run in the browser."""
    return MapPage(browser)
