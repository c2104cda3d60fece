"""A folder with one small graph, and a real browser driven over a pipe."""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from dataclasses import asdict

import numpy as np
import pytest
import scipy.sparse as sp

from l2g2g.reproduce.cells import Cell
from l2g2g.reproduce.contenders import CONTENDERS

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
    "--remote-debugging-pipe",
]


@pytest.fixture(scope="session")
def data_dir(planted, tmp_path_factory):
    """A folder with the planted graph as tiny.npz."""
    folder = tmp_path_factory.mktemp("data")
    arrays = {}
    for name, matrix in (("adj", planted.adjacency), ("attr", sp.csr_array(planted.features))):
        arrays |= {f"{name}_indptr": matrix.indptr, f"{name}_indices": matrix.indices}
        arrays |= {f"{name}_data": matrix.data, f"{name}_shape": np.array(matrix.shape)}
    np.savez(folder / "tiny.npz", **arrays)
    return folder


@pytest.fixture(scope="session")
def make_row():
    """A stored line without any training: make_row(dataset, contender, auc=..., epoch=..., ...)."""

    def make(dataset, contender, *, options=None, seed=0, protocol="heldout", auc=0.9, epoch=0.01, **fields):
        chosen = CONTENDERS[contender]
        cell = Cell(dataset, chosen.method, chosen.preset, options or {}, seed, protocol)
        row = {
            **{"key": cell.key, "cell": asdict(cell), "settings": {"threads": 1}, "seed": seed, "auc": auc, "ap": auc},
            **{"best_auc": None, "num_nodes": 1000, "num_edges": 5000, "num_features": 10, "epochs": 20},
            **{"node_duplication": 1.5, "largest_patch_nodes": 200, "peak_memory_bytes": 10**9, "cell_seconds": 1.0},
        }
        seconds = {"epoch_median": epoch, "synchronise": 0.0, "partition": 0.5, "total": 2.0}
        return {**row, "seconds": seconds, **fields}

    return make


class Browser:
    """Chromium over its debugging pipe: messages are JSON with a zero byte at the end, on descriptors 3 and 4."""

    def __init__(self, program, profile):
        command_read, self.command = os.pipe()
        self.answer, answer_write = os.pipe()
        arguments = [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{command_read} 4>&{answer_write}', "bash", *arguments],
            pass_fds=(command_read, answer_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(command_read)
        os.close(answer_write)
        self.buffer, self.number, self.session, self.events = b"", 0, None, []

    def call(self, method, **parameters):
        """Send a command and wait for its answer; events that come in between are kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.command, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _receive(self, patience=60):
        deadline = time.monotonic() + patience
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.answer], [], [], max(0.0, deadline - time.monotonic()))
            block = os.read(self.answer, 1 << 20) if ready else b""
            assert block, "the browser does not answer"
            self.buffer += block
        text, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(text)

    def open(self, path, width=1000, height=800):
        """Show a file in a new tab and wait until it is loaded."""
        self.session, self.events = None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._receive())

    def evaluate(self, script):
        """The value of an expression on the page."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def click(self, selector):
        """A mouse click in the middle of an element."""
        found = f"document.querySelector({json.dumps(selector)})"
        self.evaluate(f"{found}.scrollIntoView({{block: 'center', inline: 'center'}})")
        x, y = self.evaluate(f"(r => [r.x + r.width / 2, r.y + r.height / 2])({found}.getBoundingClientRect())")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def troubles(self):
        """Script errors, messages of the console, and requests that leave the file."""
        found = []
        for event in self.events:
            method, parameters = event.get("method"), event.get("params", {})
            if method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
                found.append(event)
            if method == "Network.requestWillBeSent" and not parameters["request"]["url"].startswith(
                ("file:", "data:")
            ):
                found.append(event)
        return found

    def print(self):
        """The page as a PDF."""
        return base64.b64decode(self.call("Page.printToPDF")["data"])

    def close(self):
        self.session = None
        try:
            self.call("Browser.close")
        except (AssertionError, OSError):
            self.process.kill()
        self.process.wait(timeout=30)
        os.close(self.command)
        os.close(self.answer)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """Chromium of the system; without it the test is skipped, but not in CI, which installs it."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        if os.environ.get("L2G2G_NEEDS_BROWSER"):
            pytest.fail("there is no chromium, and .ci/run should have installed it")
        pytest.skip("there is no chromium on this machine (Debian: apt-get install chromium)")
    browser = Browser(program, tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()
