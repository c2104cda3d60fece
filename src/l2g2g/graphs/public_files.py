"""Public files: where the real graphs are published, how they come here, and what to do without a network.

Nothing is fetched unless its SHA-256 is given: whoever gives it vouches for the file. No sum is built in, because
none of these files could be had where this was written, and a sum that nobody checked is worth nothing.
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
    """Where a graph is published: one archive, or a page with a folder of GraphSAINT's files."""

    address: str
    is_folder: bool = False


SOURCES = {
    "cora-ml": PublicSource(_CITATIONS + "cora_ml.npz"),
    "cora": PublicSource(_CITATIONS + "cora.npz"),
    "pubmed": PublicSource(_CITATIONS + "pubmed.npz"),
    "amazon-photo": PublicSource(_BENCHMARK + "amazon_electronics_photo.npz"),
    "coauthor-cs": PublicSource(_BENCHMARK + "ms_academic_cs.npz"),
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
    return (
        f"give the folder that holds {name}.npz with --data-dir: fetch it from {source.address} and save it under that "
        f"name (or: l2g2g datasets --fetch {name} --sha256 SUM)"
    )


def fetch_dataset(name: str, sha256: str, folder: Path | None = None) -> Path:
    """Fetch a published archive into the cache, and keep it only if its SHA-256 is the given one."""
    source = SOURCES.get(name)
    if source is None or source.is_folder:
        raise InputError(f"{name!r} cannot be fetched as one file; {manual_steps(name)}")
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
