"""Public files: where the real graphs are published, how they come here, and what to do without a network.

Nothing is kept unless its SHA-256 is the expected one. None of these files could be had where this was written, so the
sums that are built in are those that others have published (jackd/graph-tfds, checksums.tsv of amazon and coauthor;
yuehhua/GraphMLDatasets.jl for Cora); for the rest the user who gives the sum vouches for the file.
"""

from __future__ import annotations

import hashlib
import os
import re
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from l2g2g.errors import InputError, ResourceError

_CITATIONS = "https://github.com/abojchevski/graph2gauss/raw/master/data/"
_BENCHMARK = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz/"
_GRAPHSAINT = "https://github.com/GraphSAINT/GraphSAINT#datasets"
_BLOCK = 1 << 20


@dataclass(frozen=True)
class PublicSource:
    """Where a graph is published: one archive with the sum it is known by, or a page with GraphSAINT's files."""

    address: str
    sha256: str | None = None
    is_folder: bool = False


SOURCES = {
    "cora-ml": PublicSource(_CITATIONS + "cora_ml.npz"),
    "cora": PublicSource(_CITATIONS + "cora.npz", "62e054f93be00a3dedb15b7ac15a2a07168ceab68b40bf95f54d2289d024c6bc"),
    "pubmed": PublicSource(_CITATIONS + "pubmed.npz"),
    "amazon-photo": PublicSource(
        _BENCHMARK + "amazon_electronics_photo.npz", "bdb1feb8e6ff42ee44024b04479145029c563fd42fc31bff80af20887ba0439a"
    ),
    "coauthor-cs": PublicSource(
        _BENCHMARK + "ms_academic_cs.npz", "933c745734e78908c7eb77172a673fee0503f30e26e5a99b36814d88534c42e3"
    ),
    "reddit": PublicSource(_GRAPHSAINT, is_folder=True),
    "yelp": PublicSource(_GRAPHSAINT, is_folder=True),
}


def cache_folder() -> Path:
    """Where fetched graphs lie, and where they are found without --data-dir."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "l2g2g"


def manual_steps(name: str) -> str:
    """What a person does to get a graph."""
    source = SOURCES.get(name)
    if source is None:
        return f"give the folder that holds {name}.npz with --data-dir"
    if source.is_folder:
        return (
            f"give the folder that holds {name}/ with --data-dir: fetch adj_full.npz, feats.npy, role.json and "
            f"class_map.json of {name} from {source.address} into it"
        )
    command = f"l2g2g datasets --fetch {name}" + (" --sha256 SUM" if source.sha256 is None else "")
    return (
        f"give the folder that holds {name}.npz with --data-dir: fetch it from {source.address} and save it under that "
        f"name (or: {command})"
    )


def fetch_dataset(name: str, sha256: str | None = None, folder: Path | None = None) -> Path:
    """Fetch a published archive into the cache, and keep it only if its SHA-256 is the given one, or the known one."""
    source = SOURCES.get(name)
    if source is None or source.is_folder:
        raise InputError(f"{name!r} cannot be fetched as one file; {manual_steps(name)}")
    sha256 = sha256 or source.sha256
    if sha256 is None:
        raise InputError(f"the sum of {name} is not known here; add --sha256 SUM of the file that you trust")
    if not re.fullmatch(r"[0-9a-fA-F]{64}", sha256):
        raise InputError(f"--sha256 is {sha256!r}; give the 64 hexadecimal digits of the file's SHA-256")
    folder = folder or cache_folder()
    target, partial = folder / f"{name}.npz", folder / f"{name}.npz.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = _download(source.address, partial)
        if found != sha256.lower():
            raise InputError(f"{source.address}: its SHA-256 is {found}, not {sha256.lower()}; nothing was kept")
        partial.replace(target)
    except urllib.error.URLError as error:
        raise ResourceError(f"{source.address}: cannot be fetched ({error.reason}); {manual_steps(name)}") from error
    except TimeoutError as error:
        raise ResourceError(f"{source.address}: no answer; {manual_steps(name)}") from error
    finally:
        partial.unlink(missing_ok=True)
    return target


def _download(address: str, target: Path) -> str:
    """Write what is at the address. Returns its SHA-256."""
    digest = hashlib.sha256()
    with urllib.request.urlopen(address, timeout=60) as answer, target.open("wb") as file:
        while block := answer.read(_BLOCK):
            digest.update(block)
            file.write(block)
    return digest.hexdigest()
