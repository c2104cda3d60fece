"""The server: one page and its nodes for one browser on this machine, and nothing for anybody else."""

import base64
import http.client
import json
import threading
from contextlib import contextmanager
from urllib.parse import quote

import numpy as np
import pytest

from l2g2g.errors import InputError, ResourceError
from l2g2g.reports.explore_server import make_server


class FewPartners:
    """Answers without a search: the three nodes after the one asked for."""

    vectors = np.zeros((10, 2), np.float32)
    has_links = True

    def neighbours(self, rows):
        return (rows[:, None] + [1, 2, 3]) % 10, np.full((len(rows), 3), 0.5, np.float32)

    def links(self, rows):
        return np.array([[4, -1]]), np.array([[0.25, 0.0]], np.float32)


@contextmanager
def serving(*arguments):
    """A server in a thread; it looks for the end often, because a test waits for it."""
    with make_server("<p>page", FewPartners(), 0, *arguments) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def server():
    with serving() as server:
        yield server


def ask(server, path, method="GET", host=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.request(method, path, headers={"Host": host or f"127.0.0.1:{server.server_port}", **headers})
    answer = connection.getresponse()
    content = answer.read().decode()
    connection.close()
    return answer.status, content, dict(answer.getheaders())


def test_the_page_and_the_partners_of_a_node(server):
    assert server.address == f"http://127.0.0.1:{server.server_port}/{server.token}/"
    status, content, headers = ask(server, f"/{server.token}/")
    assert (status, content) == (200, "<p>page")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert "Access-Control-Allow-Origin" not in headers
    status, content, _ = ask(server, f"/{server.token}/node?row=7")
    assert status == 200
    assert json.loads(content) == {"neighbours": [[8, 0.5], [9, 0.5], [0, 0.5]], "links": [[4, 0.25]]}


def test_a_projection_that_takes_long_is_given_when_it_is_there():
    go, calls = threading.Event(), []

    def compute():
        go.wait(10)
        calls.append(1)
        return np.array([[0.0, 0.0], [4.0, 1.0], *[[2.0, 0.5]] * 8])

    def fail():
        raise ValueError("no room")

    with serving({"tsne": compute, "bad": fail}) as server:
        path = f"/{server.token}/places?projection="
        assert ask(server, f"{path}tsne")[0] == 202
        go.set()
        server.pending["tsne"].result(timeout=10)
        for _ in range(2):
            status, content, _ = ask(server, f"{path}tsne")
            points = np.frombuffer(base64.b64decode(json.loads(content)["points"]), np.uint16)
            assert (status, points[:4].tolist()) == (200, [0, 16384, 65535, 0])
        assert calls == [1]
        assert ask(server, f"{path}other")[0] == 400
        assert ask(server, f"{path}bad")[:2] == (500, "no room\n")


def test_it_listens_on_this_machine_only_and_every_token_is_new(server):
    assert server.socket.getsockname()[0] == "127.0.0.1"
    with make_server("", FewPartners(), 0) as other:
        assert other.token != server.token
        assert len(other.token) >= 20


@pytest.mark.parametrize("path", ["/", "/wrong/", "/wrong/node?row=1", "/{token}x/", "/%2e%2e/etc/passwd"])
def test_without_the_token_there_is_nothing(server, path):
    status, content, _ = ask(server, path.format(token=server.token))
    assert status == 404
    assert server.token not in content


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "[::1]:{port}"])
def test_other_names_of_this_host_are_refused(server, host):
    assert ask(server, f"/{server.token}/", host=host.format(port=server.server_port))[0] == 403


def test_pages_of_other_origins_are_refused(server):
    assert ask(server, f"/{server.token}/", Origin="http://evil.example")[0] == 403
    assert ask(server, f"/{server.token}/", Origin="null")[0] == 403
    assert ask(server, f"/{server.token}/", Origin=f"http://localhost:{server.server_port}")[0] == 200


@pytest.mark.parametrize(
    "query",
    ["", "row=", "row=10", "row=-1", "row=1.5", "row=x", "row=1&row=2", "row=1&k=9", "k=1", "row=٣", f"row={'9' * 50}"],
)
def test_other_questions_are_refused(server, query):
    status, content, _ = ask(server, f"/{server.token}/node?{quote(query, safe='=&-.')}")
    assert (status, content) == (400, "ask for node?row=NUMBER\n")


def test_other_methods_and_places_are_refused(server):
    assert ask(server, f"/{server.token}/", "POST")[0] == 501
    assert ask(server, f"/{server.token}/files")[0] == 404
    assert ask(server, f"/{server.token}/?row=1")[0] == 404


def test_ports_that_cannot_be_used(server):
    with pytest.raises(InputError, match="from 0 to 65535"):
        make_server("", FewPartners(), 70_000)
    with pytest.raises(ResourceError, match="give another --port"):
        make_server("", FewPartners(), server.server_port)
