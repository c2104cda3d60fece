"""Named graphs: generated ones, and real ones from a data folder or the download cache."""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from l2g2g.errors import InputError, ResourceError
from l2g2g.graphs.archives import check_unpacked_size
from l2g2g.graphs.block_model import BlockModel
from l2g2g.graphs.graph import Graph
from l2g2g.graphs.matrix_files import is_graphsaint_folder, read_graphsaint, read_npz_graph
from l2g2g.graphs.stand_ins import NUM_BLOCKS, NUM_EDGES, NUM_NODES, STAND_INS, VARIANTS, find_stand_in

_CITATIONS = "https://github.com/abojchevski/graph2gauss/raw/master/data/"
_BENCHMARK = "https://github.com/shchur/gnn-benchmark/raw/master/data/npz/"
_GRAPHSAINT = "https://github.com/GraphSAINT/GraphSAINT#datasets"
_BLOCK = 1 << 20


@dataclass(frozen=True)
class PublicSource:
    """Address of a published archive and its SHA-256, where known, or of a page with a GraphSAINT folder."""

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
    """Return the folder of downloaded graphs."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "l2g2g"


def manual_steps(name: str) -> str:
    """Describe how to get a graph by hand."""
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
    """Download a published archive into the cache; keep it only if its SHA-256 is the given or the known one."""
    source = SOURCES.get(name)
    if source is None or source.is_folder:
        raise InputError(f"{name!r} cannot be fetched as one file; {manual_steps(name)}")
    sha256 = sha256 or source.sha256
    if sha256 is None:
        raise InputError(f"the SHA-256 of {name} is not known; add --sha256 SUM of a file that you trust")
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
    """Download a file. Returns its SHA-256."""
    digest = hashlib.sha256()
    with urllib.request.urlopen(address, timeout=60) as answer, target.open("wb") as file:
        while block := answer.read(_BLOCK):
            digest.update(block)
            file.write(block)
    return digest.hexdigest()


@dataclass(frozen=True)
class DatasetInfo:
    """One entry of the list of datasets.

    Attributes:
        kind: "block model" or "stand-in" (generated), or "file" (in the data folder or the cache).
        num_nodes, num_edges, num_features: None where only reading the file tells; expected edges of a block model.
        available: True if `load_dataset` can load it now.
    """

    name: str
    kind: str
    num_nodes: int | None
    num_edges: int | None
    num_features: int | None
    description: str
    available: bool


# Table 2 of the paper gives 99,231 edges for SBM-Large-Sparse. The stated p_out = 1e-4 gives about 545,000, and
# p_out = 1e-5 gives 99,450, which the authors must have run.
_BLOCK_MODELS = {
    "sbm-small": (BlockModel.planted(100, 100, 0.02, 1e-4), "block model of the paper, 100 blocks of 100"),
    "sbm-large-sparse": (
        BlockModel.planted(100, 1000, 1e-3, 1e-5),
        "block model of the paper, p_out = 1e-5 as its Table 2 implies (the text says 1e-4)",
    ),
    "sbm-large-sparse-stated": (
        BlockModel.planted(100, 1000, 1e-3, 1e-4),
        "the same with the p_out = 1e-4 that the text states",
    ),
    "sbm-large": (BlockModel.planted(100, 1000, 0.02, 1e-4), "block model of the paper, 100 blocks of 1000"),
    "sbm-large-dense": (BlockModel.planted(100, 1000, 0.1, 0.002), "block model of the paper, mean degree 298"),
}
# name: nodes, undirected edges, features, description
_KNOWN_FILES = {
    "cora-ml": (2_995, 8_158, 2_879, "citations between machine-learning papers; the paper's Cora ML"),
    "cora": (19_793, 63_421, 8_710, "citations between papers of all fields; the paper's Cora"),
    "reddit": (232_965, 11_606_919, 602, "posts that a user commented on together; GraphSAINT's Reddit2"),
    "yelp": (716_847, 6_977_409, 300, "friends who write reviews; GraphSAINT's Yelp"),
    "pubmed": (19_717, 44_324, 500, "citations between diabetes papers"),
    "amazon-photo": (7_650, 119_081, 745, "products bought together"),
    "coauthor-cs": (18_333, 81_894, 6_805, "authors who published together"),
    "npm-deps": (304_031, 2_330_240, 602, "package dependencies, with names"),
    "npm-codep": (304_031, 15_231_582, 0, "packages that share a dependency"),
}


def load_dataset(name: str, data_dir: str | Path | None = None, seed: int = 0, *, directed: bool = False) -> Graph:
    """Load or generate the graph of this name.

    Args:
        name: A block model (`sbm-small`, `hetero-nested`, ...), a stand-in (`reddit-like`, `yelp-like`, or
            `sized-N-M-F` with N nodes, M edges and F features), or the name of a file `NAME.npz` or a GraphSAINT folder
            `NAME/` in data_dir or in the cache, with hyphens or underscores.
        data_dir: Folder of real graphs.
        seed: Seed of generated graphs.
        directed: Keep the directions of a file's edges; generated graphs have none.

    Example:
        >>> load_dataset("sbm-small").num_nodes
        10000
    """
    wanted = normalise_name(name)
    stand_in = find_stand_in(wanted)
    if wanted in _BLOCK_MODELS or wanted in VARIANTS or stand_in is not None:
        if directed:
            raise InputError(f"{wanted}: its edges have no direction; leave --directed out")
        model = _BLOCK_MODELS[wanted][0] if wanted in _BLOCK_MODELS else stand_in or VARIANTS[wanted]
        return model.sample(seed, name=wanted)
    files = _files_by_name(data_dir)
    if wanted in files:
        path = files[wanted]
        if path.is_dir():
            return read_graphsaint(path, name=wanted, directed=directed)
        check_unpacked_size(path)
        return read_npz_graph(path, name=wanted, directed=directed)
    if wanted in _KNOWN_FILES:
        place = f"is not in {data_dir}" if data_dir is not None else "needs its file"
        raise InputError(f"dataset {wanted!r} {place}; {manual_steps(wanted)}")
    raise InputError(_unknown_name(name, wanted, files))


def list_datasets(data_dir: str | Path | None = None) -> list[DatasetInfo]:
    """List all names that `load_dataset` knows, with sizes; files are listed but not read."""
    files = _files_by_name(data_dir)
    generated = [
        DatasetInfo(
            name, "block model", model.num_nodes, round(model.expected_num_edges), model.num_blocks, description, True
        )
        for name, (model, description) in _BLOCK_MODELS.items()
    ]
    generated += [
        DatasetInfo(name, "block model", NUM_NODES, NUM_EDGES, NUM_BLOCKS, variant.description, True)
        for name, variant in VARIANTS.items()
    ]
    generated += [
        DatasetInfo(name, "stand-in", item.num_nodes, item.num_edges, item.num_features, item.description, True)
        for name, item in STAND_INS.items()
    ]
    known = [DatasetInfo(name, "file", *facts, available=name in files) for name, facts in _KNOWN_FILES.items()]
    names = {info.name for info in generated + known}
    others = [
        DatasetInfo(name, "file", None, None, None, path.name, True)
        for name, path in sorted(files.items())
        if name not in names
    ]
    return generated + known + others


def normalise_name(name: str) -> str:
    """Return a name as it is listed.

    Example:
        >>> normalise_name("Cora_ML ")
        'cora-ml'
    """
    return name.strip().lower().replace("_", "-")


def _files_by_name(data_dir: str | Path | None) -> dict[str, Path]:
    """Find archives and GraphSAINT folders; the data folder wins over the cache."""
    folders = [cache_folder()]
    if data_dir is not None:
        if not Path(data_dir).is_dir():
            raise InputError(f"{data_dir}: no such folder; --data-dir must hold the .npz files")
        folders.append(Path(data_dir))
    found: dict[str, Path] = {}
    for folder in folders:
        found |= {normalise_name(path.stem): path for path in sorted(folder.glob("*.npz"))}
        found |= {normalise_name(path.name): path for path in sorted(folder.glob("*")) if is_graphsaint_folder(path)}
    return found


def _unknown_name(name: str, wanted: str, files: dict[str, Path]) -> str:
    names = list(dict.fromkeys([*_BLOCK_MODELS, *VARIANTS, *STAND_INS, *_KNOWN_FILES, *files]))
    close = difflib.get_close_matches(wanted, names, n=1)
    remedy = f"did you mean {close[0]!r}?" if close else f"known names: {', '.join(names)}"
    return f"{name!r} is neither a file nor a dataset; {remedy}"
