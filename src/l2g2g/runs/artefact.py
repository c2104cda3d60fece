"""Artefact: a finished training as one folder, which every command reads.

DIR/trainings/NAME/manifest.json          format version; values: settings, command, versions, history, scores, choices
                                          and what the graph was; type, shape and SHA-256 of every array and file
DIR/trainings/NAME/weights.safetensors    parameters of the model, frames, small tensors that nodes are read with
DIR/trainings/NAME/ARRAY.npy              what there is a row of for every node, edge or pair, see `runs.finished`

DIR is a run directory, or a folder of `model.save`. The folder of a training is written under another name, forced to
disk and renamed: it is complete or not there at all. Arrays go to disk block by block, and come back when they are
asked for, checked. No pickle.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from l2g2g.errors import InputError, ResourceError
from l2g2g.graphs.array_folder import ArrayFolder, open_folder
from l2g2g.graphs.array_writer import replaced_folder, write_folder
from l2g2g.models.node_states import Parts, collect

KIND = "finished training"
WEIGHTS = "weights.safetensors"
_TRAININGS = "trainings"
_VERSION = 1
_REMEDY = "make the run again"
# Files of versions before this format: the manifest of a model, and records of trainings.
_OLD_FILES = ("model.json", "records/*/record.json")
_MISTAKES = (
    *(KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError),
    RuntimeError,  # parameters of other shapes, nested beyond recursion
    SafetensorError,
)


@dataclass(frozen=True, eq=False)
class Contents:
    """What is written.

    Attributes:
        values: Plain values, for JSON.
        weights: Tensors by name.
        parts: Makes the arrays, as rows to be appended to the array of a name.
    """

    values: dict[str, Any]
    weights: dict[str, Tensor]
    parts: Callable[[], Parts]

    def in_memory(self, where: str = "the model") -> Artefact:
        """The artefact without writing it. where: what errors call it."""
        values = json.loads(json.dumps(self.values))
        return Artefact(values, _plain(self.weights), collect(self.parts()), where)


@dataclass(frozen=True, eq=False)
class Artefact:
    """A finished training, in memory or on disk.

    Attributes:
        values, weights: As in `Contents`.
        arrays: Arrays by name; those on disk are read, and their SHA-256 checked, each time they are accessed.
        where: What errors call it.
    """

    values: dict[str, Any]
    weights: dict[str, Tensor]
    arrays: Mapping[str, np.ndarray]
    where: str

    def in_memory(self) -> Artefact:
        """The same with all arrays in memory."""
        return Artefact(self.values, self.weights, dict(self.arrays.items()), self.where)

    def contents(self, **values: Any) -> Contents:
        """What is to be written to have it elsewhere, with some other values."""
        return Contents({**self.values, **values}, self.weights, lambda: iter(self.arrays.items()))

    def weights_of(self, part: str) -> dict[str, Tensor]:
        """The tensors PART.NAME by NAME."""
        return {
            name.removeprefix(f"{part}."): value for name, value in self.weights.items() if name.startswith(f"{part}.")
        }

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn any error that a damaged or foreign artefact causes while it is read into an InputError."""
        try:
            yield
        except (InputError, ResourceError):
            raise
        except _MISTAKES as error:
            reason = str(error).splitlines()[0] if str(error) else ""
            raise InputError(
                f"{self.where}: is no finished training ({type(error).__name__}: {reason}); {_REMEDY}"
            ) from error


class _StoredArrays(Mapping[str, np.ndarray]):
    """The arrays of a folder, each read and checked when it is accessed."""

    def __init__(self, folder: ArrayFolder) -> None:
        self._folder = folder

    def __getitem__(self, name: str) -> np.ndarray:
        stored = self._folder.arrays[name]
        stored.check_hash()
        return stored.read()

    def __iter__(self) -> Iterator[str]:
        return iter(self._folder.arrays)

    def __len__(self) -> int:
        return len(self._folder.arrays)


def write_artefact(directory: Path, name: str, contents: Contents) -> None:
    """Write a finished training into a directory; one of this name stays until the new one is complete."""
    folder = directory / _TRAININGS / name
    with write_folder(folder, KIND) as writer:
        writer.values = {"version": _VERSION, "name": name, **contents.values}
        writer.save_file(WEIGHTS, save(_plain(contents.weights)))
        for array, rows in contents.parts():
            writer.append(array, rows)


def open_artefact(directory: Path, name: str | None = None) -> Artefact:
    """A finished training of a directory; the first one where no name is given."""
    names = list_trainings(directory)
    if name is not None and name not in names:
        raise InputError(f"{directory}: no training '{name}'; it holds {', '.join(names)}")
    path = directory / _TRAININGS / (name or names[0])
    folder = open_folder(path if path.exists() else replaced_folder(path), KIND, remedy=_REMEDY)
    where = str(folder.folder)
    if folder.values.get("version") != _VERSION:
        found = folder.values.get("version")
        raise InputError(f"{where}: of format {found}, and this version reads format {_VERSION}; {_REMEDY}")
    data = folder.read_file(WEIGHTS)
    artefact = Artefact(folder.values, {}, _StoredArrays(folder), where)
    with artefact.explained():
        artefact.weights.update(load(data))
    return artefact


def list_trainings(directory: Path) -> list[str]:
    """Names of the finished trainings in a directory. Raises InputError where there are none."""
    if not directory.is_dir():
        raise InputError(f"{directory}: no such directory; give what --run-dir was, or a folder of model.save")
    found = {path.name for path in (directory / _TRAININGS).glob("*") if not path.name.endswith(".part")}
    names = sorted({name[1:].removesuffix(".old") if name.startswith(".") else name for name in found})
    if not names and any(next(directory.glob(old), None) for old in _OLD_FILES):
        raise InputError(f"{directory}: was written by an older version, and is not read any more; {_REMEDY}")
    if not names:
        raise InputError(f"{directory}: no run has finished here; give a directory of --run-dir or of model.save")
    return names


def _plain(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach().cpu().contiguous() for name, value in weights.items()}
