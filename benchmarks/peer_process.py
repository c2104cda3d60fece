"""Peers as processes: a training graph goes out as .npy files, vectors and seconds come back.

Each peer has a virtual environment of its own, made when it is first wanted and kept in a cache folder.
A peer that cannot be installed or run raises PeerSkipped with the reason.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from l2g2g.graphs.graph import Graph

SCRIPTS = Path(__file__).resolve().parent / "peer_scripts"
# Every library that these peers compute with reads one of these when it starts.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "RAYON_NUM_THREADS",
)


class PeerSkipped(Exception):
    """This peer gives no figures here; the message says why."""


@dataclass(frozen=True)
class Peer:
    """Another embedding method.

    Attributes:
        name: As in the tables.
        packages: What pip installs for it; the first one gives the version. Their newest versions are taken.
        script: File in peer_scripts.
        arguments: Further arguments of the script.
        missing: Why there is nothing to install; such a peer is always skipped.
    """

    name: str
    packages: tuple[str, ...] = ()
    script: str = ""
    arguments: tuple[str, ...] = ()
    missing: str = ""


PEERS = {
    peer.name: peer
    for peer in (
        Peer("node2vec", ("pecanpy",), "node2vec.py"),
        Peer("prone", ("nodevectors",), "prone.py"),
        Peer("pycleora", ("pycleora", "numpy", "scipy"), "cleora.py"),
        Peer(
            "pycleora-plain",
            ("pycleora", "numpy", "scipy"),
            "cleora.py",
            ("--iterations", "10", "--no-whiten"),
        ),
        Peer("maskgae", missing="published as research code only: no package of it to install"),
    )
}


@dataclass(frozen=True)
class PeerResult:
    """vectors: (num_nodes, dim) float32; the seconds are the peer's own count."""

    vectors: np.ndarray
    seconds: float
    cpu_seconds: float
    version: str


def default_environments() -> Path:
    """Where this platform keeps what can be made again."""
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "l2g2g" / "peers"


def prepare_environment(peer: Peer, folder: Path, *, timeout: float = 1800) -> Path:
    """The interpreter of the peer's environment, which is made if it is not there yet."""
    if peer.missing:
        raise PeerSkipped(peer.missing)
    place = folder.expanduser().resolve() / "-".join(peer.packages)
    python = place / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if (place / "ready").exists():
        return python
    shutil.rmtree(place, ignore_errors=True)  # half made
    place.parent.mkdir(parents=True, exist_ok=True)
    _run([sys.executable, "-m", "venv", str(place)], timeout, "no virtual environment")
    _run([str(python), "-m", "pip", "install", "--quiet", *peer.packages], timeout, "does not install")
    (place / "ready").touch()
    return python


def run_peer(
    peer: Peer,
    graph: Graph,
    *,
    dim: int,
    seed: int,
    threads: int,
    environments: Path,
    timeout: float = 3600,
) -> PeerResult:
    """Embed the graph in the peer's environment. Peers see the pattern of the edges, no features, no weights."""
    python = prepare_environment(peer, environments)
    variables = {**os.environ, **{name: str(threads) for name in THREAD_VARIABLES}, "PYTHONHASHSEED": str(seed)}
    variables.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory(prefix="l2g2g-peer-") as name:
        folder = Path(name)
        np.save(folder / "indptr.npy", graph.adjacency.indptr.astype(np.int32))
        np.save(folder / "indices.npy", graph.adjacency.indices.astype(np.int32))
        command = [str(python), str(SCRIPTS / peer.script), name, "--dim", str(dim), "--seed", str(seed)]
        command += ["--threads", str(threads), *peer.arguments]
        output = _run(command, timeout, "does not run", variables)
        try:
            line = json.loads(output.strip().splitlines()[-1])
            vectors = np.load(folder / "vectors.npy", allow_pickle=False)
            result = PeerResult(vectors, float(line["seconds"]), float(line["cpu_seconds"]), str(line["version"]))
        except (OSError, ValueError, IndexError, KeyError, TypeError) as error:
            raise PeerSkipped(f"does not answer as agreed: {type(error).__name__} {error}") from error
    if vectors.shape != (graph.num_nodes, dim):
        raise PeerSkipped(f"gave vectors of shape {vectors.shape}, not {(graph.num_nodes, dim)}")
    if not np.isfinite(vectors).all():
        raise PeerSkipped("gave vectors that are not finite")
    return result


def _run(command: list[str], timeout: float, failure: str, variables: dict[str, str] | None = None) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=variables, check=False)
    except subprocess.TimeoutExpired as error:
        raise PeerSkipped(f"{failure}: not finished after {timeout:.0f} s") from error
    except OSError as error:
        raise PeerSkipped(f"{failure}: {error.strerror}") from error
    if done.returncode != 0:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()] or ["no message"]
        errors = [line for line in lines if line.startswith("ERROR:")]  # pip's own, of which the last sums up
        raise PeerSkipped(f"{failure}: {(errors or lines)[-1]}")
    return done.stdout
