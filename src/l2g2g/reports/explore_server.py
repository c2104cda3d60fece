"""Explore server: one page, its projections and the partners of its nodes, for a browser on this machine only.

It listens on 127.0.0.1 only. Its address holds a random token, so that other users of the machine and other pages in
the browser cannot ask; and a request must name this host, so that a foreign name that resolves to 127.0.0.1 is refused.
"""

from __future__ import annotations

import base64
import json
import secrets
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import numpy as np

from l2g2g.errors import InputError, ResourceError
from l2g2g.reports.map_data import quantise_places
from l2g2g.reports.projection import neighbours_kept

if TYPE_CHECKING:
    from l2g2g.reports.map_data import Partners

Pending = Mapping[str, Callable[[], np.ndarray]]
_HOST = "127.0.0.1"
_PATIENCE = 30  # seconds that a request may take to arrive
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class ExploreServer(ThreadingHTTPServer):
    """A server of one page. address: what to open in the browser."""

    daemon_threads = True

    def __init__(self, page: str, partners: Partners, port: int, pending: Pending) -> None:
        super().__init__((_HOST, port), _Handler)
        self.page, self.partners = page.encode(), partners
        self.pending = {name: Future[bytes]() for name in pending}
        for name, compute in pending.items():
            arguments = self.pending[name], compute, partners.vectors
            threading.Thread(target=_compute, args=arguments, daemon=True).start()
        self.one_at_a_time = threading.Lock()  # the compiled search has threads of its own, which must not be shared
        self.token = secrets.token_urlsafe(16)
        self.hosts = {f"{name}:{self.server_port}" for name in (_HOST, "localhost")}
        self.address = f"http://{_HOST}:{self.server_port}/{self.token}/"


def _compute(future: Future[bytes], compute: Callable[[], np.ndarray], vectors: np.ndarray) -> None:
    """Compute places and give them as the page wants them."""
    try:
        places = compute()
        points, view = quantise_places(places)
        text = base64.b64encode(points.tobytes()).decode()
        answer = {"view": view, "kept": neighbours_kept(vectors, places), "points": text}
        future.set_result(json.dumps(answer).encode())
    except Exception as error:  # whatever it is, the page that waits is told
        future.set_exception(error)


def make_server(page: str, partners: Partners, port: int, pending: Pending | None = None) -> ExploreServer:
    """A server that is bound and not yet serving.

    pending: what computes the (num_nodes, 2) places of a projection that the page asks for; it begins at once.
    """
    if not 0 <= port < 65536:
        raise InputError(f"--port is {port}; it must be from 0 to 65535")
    try:
        return ExploreServer(page, partners, port, pending or {})
    except OSError as error:
        raise ResourceError(f"port {port} cannot be used ({error.strerror}); give another --port") from error


def answer_node(partners: Partners, query: str) -> dict[str, list[list[float]]]:
    """The partners of the node that a query asks for. Raises ValueError for any other query."""
    fields = parse_qs(query, strict_parsing=True, max_num_fields=1)
    (text,) = fields["row"] if list(fields) == ["row"] else ("",)
    if not (text.isascii() and text.isdigit() and len(text) <= 12) or int(text) >= len(partners.vectors):
        raise ValueError("row must be the number of a node")
    rows = np.array([int(text)])
    found = {"neighbours": partners.neighbours(rows)} | ({"links": partners.links(rows)} if partners.has_links else {})
    return {
        kind: [[int(node), float(value)] for node, value in zip(nodes[0], values[0], strict=True) if node >= 0]
        for kind, (nodes, values) in found.items()
    }


class _Handler(BaseHTTPRequestHandler):
    server: ExploreServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "l2g2g", ""
    timeout = _PATIENCE

    def do_GET(self) -> None:
        """The page, or the partners of a node."""
        parts = urlsplit(self.path)
        token, _, name = parts.path.removeprefix("/").partition("/")
        if self.headers.get("Host") not in self.server.hosts or not self._is_own_origin():
            return self._send_text(HTTPStatus.FORBIDDEN, "only for browsers that ask this host by its own name")
        if not secrets.compare_digest(token.encode(), self.server.token.encode()):
            return self._send_text(HTTPStatus.NOT_FOUND, "nothing here; use the whole address that was printed")
        if name == "" and not parts.query:
            return self._send(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page)
        if name == "places":
            return self._send_places(parts.query)
        if name != "node":
            return self._send_text(HTTPStatus.NOT_FOUND, "nothing here")
        try:
            with self.server.one_at_a_time:
                answer = answer_node(self.server.partners, parts.query)
        except (ValueError, KeyError):
            return self._send_text(HTTPStatus.BAD_REQUEST, "ask for node?row=NUMBER")
        return self._send(HTTPStatus.OK, "application/json", json.dumps(answer).encode())

    def _send_places(self, query: str) -> None:
        """The places of a projection as JSON, 202 while they are computed."""
        future = self.server.pending.get(query.removeprefix("projection="))
        if future is None:
            return self._send_text(HTTPStatus.BAD_REQUEST, "ask for places?projection=NAME")
        if not future.done():
            return self._send_text(HTTPStatus.ACCEPTED, "not yet")
        error = future.exception()
        if error is not None:
            return self._send_text(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
        return self._send(HTTPStatus.OK, "application/json", future.result())

    def _is_own_origin(self) -> bool:
        origin = self.headers.get("Origin")
        return origin is None or origin.removeprefix("http://") in self.server.hosts

    def _send_text(self, status: HTTPStatus, text: str) -> None:
        self._send(status, "text/plain; charset=utf-8", f"{text}\n".encode())

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Type": kind, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing: the terminal belongs to the user, and a log would hold the token."""
