"""Small named graphs and a browser that many tests share, and one thread each: several runs may share a machine."""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from dataclasses import replace

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pytest
import scipy.sparse as sp
import typer
import typer.testing

from .processes import ForkServer

# l2g2g is imported in fixtures: it loads torch, which the process that only deals tests to others does not need.
collect_ignore = ["dist_build.py"]  # a script of `make dist`, run in the folder that it lies in
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
    "--remote-debugging-pipe",
]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Pages in Chromium are slow tests."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True, scope="session")
def no_waiting_for_the_disk():
    """Files are not forced to disk: that is for a power failure, and two thirds of the time of tests that save."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def commands_made_once():
    """Typer makes all commands anew for each call, which takes longer than most calls; here they are kept."""
    made, make = {}, typer.main.get_command

    def get_command(app):
        key = app, len(app.registered_groups)  # `reproduce` joins where the paper's commands are imported
        if key not in made:
            made[key] = make(app)
        return made[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", get_command)
        patch.setattr(typer.testing, "_get_command", get_command)
        yield


@pytest.fixture
def run(capsys):
    """Run a command in this process: (exit code, stdout, stderr)."""
    from l2g2g import cli

    def call(*arguments):
        with pytest.raises(SystemExit) as stop:
            cli.main([str(argument) for argument in arguments])
        output = capsys.readouterr()
        return stop.value.code, output.out, output.err

    return call


@pytest.fixture(scope="session")
def processes():
    """Real processes and jobs of ranks, which need not import the package each."""
    server = ForkServer()
    yield server
    server.close()


@pytest.fixture
def usual_backend():
    """For tests that choose a backend: the usual one is there again after them."""
    from l2g2g import core

    yield
    core.set_backend("auto")


@pytest.fixture(params=["native", "torch"])
def backend(request, usual_backend):
    """A test with the compiled core, where there is one, and with the torch reference."""
    from l2g2g import core

    if request.param == "native" and not core.is_built():
        pytest.skip("the compiled core is not built")
    core.set_backend(request.param)
    return request.param


@pytest.fixture(scope="session")
def planted():
    """Four blocks of 30 nodes, dense inside and sparse between; one-hot blocks as features."""
    from l2g2g.graphs.block_model import BlockModel

    return BlockModel.planted(num_blocks=4, block_size=30, inside=0.4, outside=0.02).sample(0, name="planted")


@pytest.fixture(scope="session")
def arrows(planted):
    """The planted graph as arcs: most point to the larger number, some to the smaller, some both ways."""
    from l2g2g.graphs.graph import Graph

    sources, targets = planted.edges()
    way = np.random.default_rng(0).random(len(sources))
    forth, back = way < 0.7, way > 0.6
    return Graph.from_arcs(
        np.concatenate([sources[forth], targets[back]]),
        np.concatenate([targets[forth], sources[back]]),
        num_nodes=planted.num_nodes,
        features=planted.features,
        directed=True,
        name="arrows",
    )


@pytest.fixture(scope="session")
def plain(planted):
    """The planted graph without features."""
    from l2g2g.graphs.graph import Graph

    return Graph(planted.adjacency, name="plain")


@pytest.fixture(scope="session")
def noisy(planted):
    """The planted graph with twelve dense columns that say little about the blocks and span all directions."""
    generator = np.random.default_rng(0)
    hints = planted.features @ generator.normal(size=(4, 12))
    features = (0.3 * hints + generator.normal(size=(planted.num_nodes, 12))).astype(np.float32)
    return replace(planted, features=features, name="noisy")


@pytest.fixture(scope="session")
def islands():
    """Three rings of 20 nodes with no edge between them, and four nodes with no edge at all; dense features."""
    from l2g2g.graphs.graph import Graph

    ring = np.arange(20)
    sources = np.concatenate([start + ring for start in (0, 20, 40) for _ in (1, 2)])
    targets = np.concatenate([start + (ring + step) % 20 for start in (0, 20, 40) for step in (1, 2)])
    features = np.random.default_rng(0).normal(size=(64, 5))
    return Graph.from_arcs(sources, targets, num_nodes=64, features=features, name="islands")


@pytest.fixture(scope="session")
def path_of_four():
    """0 - 1 - 2 - 3 as a float32 adjacency."""
    return sp.csr_array(np.diag(np.ones(3), 1) + np.diag(np.ones(3), -1)).astype(np.float32)


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

    def open(self, page, width=1000, height=800, theme="light"):
        """Show a file or an address in a new tab and wait until it is loaded."""
        self.session, self.events = None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self.call("Emulation.setEmulatedMedia", features=features)
        self.call("Page.navigate", url=page if isinstance(page, str) else page.resolve().as_uri())
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
        self.drag([(x, y)])

    def drag(self, places):
        """Press the mouse at the first place, move it through the others and let go. places: [(x, y)]."""
        for number, (x, y) in enumerate(places):
            kind = "mouseMoved" if number else "mousePressed"
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)
        x, y = places[-1]
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=x, y=y, button="left", clickCount=1)

    def press(self, key):
        """Press a key, by its name as scripts know it."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        codes = {"Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Tab": 9}
        code = codes.get(key, ord(key[0]))
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def wait_for(self, script, patience=20):
        """Wait until an expression on the page is true."""
        deadline = time.monotonic() + patience
        while not self.evaluate(script):
            assert time.monotonic() < deadline, f"never true: {script}"
            time.sleep(0.02)

    def save_downloads(self, folder):
        """Where files that the page gives go."""
        self.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(folder))

    def photograph(self):
        """What is in view, as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot")["data"])

    def troubles(self, *allowed):
        """Script errors, messages of the console, and requests that leave the file. allowed: addresses that may be."""
        found = []
        for event in self.events:
            method, parameters = event.get("method"), event.get("params", {})
            if method in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"):
                found.append(event)
            if method == "Network.requestWillBeSent" and not parameters["request"]["url"].startswith(
                ("file:", "data:", *allowed)
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
