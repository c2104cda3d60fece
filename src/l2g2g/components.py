"""Components: encoders and decoders by name, each imported when it is first used.

A decoder is one file of `models/decoders` with one class and one line here; an encoder is the same in
`models/encoders`. Options, help and completion list the names without importing torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, TypeVar

T = TypeVar("T")


class ClassTable(Mapping[str, type[T]]):
    """A read-only mapping of names to classes.

    Args:
        package: Dotted name of the package that holds the modules.
        places: For each name, "module.Class" inside the package, and a note for the help; empty for none.

    Attributes:
        notes: The notes by name.

    Example:
        >>> table = ClassTable("collections", {"mapping": ("abc.Mapping", "read-only")})
        >>> list(table), table["mapping"].__name__, table.notes
        (['mapping'], 'Mapping', {'mapping': 'read-only'})
    """

    def __init__(self, package: str, places: dict[str, tuple[str, str]]) -> None:
        self._package = package
        self._places = {name: place for name, (place, _) in places.items()}
        self.notes = {name: note for name, (_, note) in places.items()}

    def __getitem__(self, name: str) -> type[T]:
        """The class of a name."""
        module, _, kind = self._places[name].rpartition(".")
        found: type[T] = getattr(import_module(f"{self._package}.{module}"), kind)
        return found

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return iter(self._places)

    def __len__(self) -> int:
        """Number of classes."""
        return len(self._places)


DECODERS: ClassTable[Any] = ClassTable(
    "l2g2g.models.decoders",
    {
        "inner": ("factors.InnerDecoder", "the inner product"),
        "cosine": ("factors.CosineDecoder", ""),
        "distance": ("factors.DistanceDecoder", ""),
        "product": ("product.ProductDecoder", "learned"),
        "signed": ("factors.SignedDecoder", "for bipartite graphs"),
        "asymmetric": ("factors.AsymmetricDecoder", "the default with --directed"),
    },
)
ENCODERS: ClassTable[Any] = ClassTable(
    "l2g2g.models.encoders",
    {
        "gcn": ("gcn.GCNEncoder", "graph convolutions"),
        "sage": ("sage.SageEncoder", "GraphSAGE-mean"),
        "linear": ("linear.LinearEncoder", "no hidden layer"),
    },
)
