"""Options: how a setting is declared, once, for the command line, the estimators, the documentation and the checks.

A field of `Config` is declared by `option`; its annotation says the type and, as a `Literal`, the choices. `Option` is
the finished declaration. Everything that shows, completes or checks a setting reads it from there.
"""

from __future__ import annotations

import dataclasses
import difflib
import numbers
import re
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from l2g2g.errors import InputError
from l2g2g.methods import Method

Group = Literal["input", "model", "patches", "training", "output", "machine"]
Use = Literal["every method", "patches", "synchronised", "sampled nodes"]
PRESET_NAMES = ("default", "paper", "accurate")
_SAME = object()  # the preset has the default
_PLAIN: dict[type, str] = {bool: "True or False", int: "a whole number", float: "a number", str: "text"}
_NUMBERS: dict[type, type] = {int: numbers.Integral, float: numbers.Real}  # those of NumPy too


@dataclass(frozen=True)
class ByMethod:
    """A default that depends on the method: its value, as a function of the method's row, and the same in words."""

    choose: Callable[[Method], Any]
    words: str


@dataclass(frozen=True)
class Option:
    """The declaration of one setting.

    Attributes:
        name: Name of the field of `Config`, and of the parameter of the estimators.
        kinds: Types of a value, bool, int, float or str; empty where only the choices are allowed.
        choices: Words that are allowed.
        is_optional: Whether the value may be None, which means `unset`.
        defaults: Default of each preset; some are `ByMethod`.
        group: Where help and documentation show it.
        help: What it does, in one sentence.
        when: When to change it.
        unset: What None means.
        least, above, most, below: Bounds of a number.
        is_rare: Whether only --help-all shows it.
        flags: How it is spelled on the command line; both spellings of a switch, with a slash between them.
        use: The methods that it matters for; the estimators of others do not have it.
        parse: What turns text into a value, where a value may be given as text.
    """

    name: str
    kinds: tuple[type, ...]
    choices: tuple[str, ...]
    is_optional: bool
    defaults: dict[str, Any]
    group: Group
    help: str
    when: str
    unset: str
    least: float | None
    above: float | None
    most: float | None
    below: float | None
    is_rare: bool
    flags: str
    use: Use
    parse: Callable[[str], Any] | None

    @property
    def flag(self) -> str:
        """The flag that messages name."""
        return self.flags.split("/")[0]

    def default_of(self, preset: str, method: Method) -> Any:
        """The default of a preset for a method."""
        value = self.defaults[preset]
        return value.choose(method) if isinstance(value, ByMethod) else value

    def is_for(self, method: Method) -> bool:
        """Whether the option matters for a method."""
        return {
            "every method": True,
            "patches": method.uses_patches,
            "synchronised": method.alignment == "during",
            "sampled nodes": method.pairs == "subgraph",
        }[self.use]

    def check(self, value: Any) -> Any:
        """The value in Python's own types.

        Raises:
            InputError: The value is of another type, not among the choices, or out of bounds.
        """
        if isinstance(value, str) and self.parse is not None:
            value = self.parse(value)
        if value is None and self.is_optional:
            return None
        if isinstance(value, str) and value in self.choices:
            return value
        if self.choices and not self.kinds:
            raise InputError(f"unknown {self.name.replace('_', '-')} '{value}'; {suggest(str(value), self.choices)}")
        for kind in self.kinds:
            if _is_of_kind(value, kind):
                self._check_bounds(value)
                return kind(value) if kind in _PLAIN else value
        raise InputError(f"{self.flag} is {value!r}; give {self.type_text}")

    def _check_bounds(self, value: Any) -> None:
        fits = (
            (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.most is None or value <= self.most)
            and (self.below is None or value < self.below)
        )
        if not fits:
            raise InputError(f"{self.flag} is {value}; it must {self.bounds_text}")

    @property
    def bounds_text(self) -> str:
        """The bounds in words; empty where there are none.

        Example: "be at least 0 and below 1".
        """
        bounds = [
            ("be at least", self.least),
            ("be above", self.above),
            ("at most", self.most),
            ("below", self.below),
        ]
        found = [f"{words} {bound}" for words, bound in bounds if bound is not None]
        if found == ["be at least 0"]:
            return "not be negative"
        return "be positive" if found == ["be above 0"] else " and ".join(found)

    @property
    def type_text(self) -> str:
        """What may be given, in words, as "a whole number, sqrt or authors"."""
        return _list_words(
            dict.fromkeys([*(_PLAIN.get(kind, kind.__name__) for kind in self.kinds), *self.choices], "")
        )

    def value_text(self, value: Any) -> str:
        """A default as help and documentation show it."""
        if isinstance(value, ByMethod):
            return value.words
        if value is None:
            return self.unset
        return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)

    def default_text(self, method: Method | None = None) -> str:
        """The defaults of all presets in one line, as "16; accurate: 128"; those of a method where it is given."""
        values = {preset: self.defaults[preset] for preset in PRESET_NAMES}
        if method is not None:
            values = {preset: self.default_of(preset, method) for preset in PRESET_NAMES}
        usual = self.value_text(values.pop("default"))
        others = [f"{name}: {text}" for name, value in values.items() if (text := self.value_text(value)) != usual]
        return "; ".join([usual, *others])


def option(
    default: Any,
    *,
    group: Group,
    help: str,
    when: str,
    paper: Any = _SAME,
    accurate: Any = _SAME,
    choices: Mapping[str, str] | None = None,
    unset: str = "",
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    rare: bool = False,
    flags: str = "",
    use: Use = "every method",
    parse: Callable[[str], Any] | None = None,
) -> Any:
    """Declare a field of `Config`. The arguments are those of `Option`.

    default, paper, accurate: default of each preset.
    choices: Words that are allowed, each with a note for the help, where the annotation is not a `Literal`.
    help: "{choices}" in it stands for the choices and their notes.
    """
    declared = {
        "defaults": {"paper": paper, "accurate": accurate},
        "group": group,
        "help": help.replace("{choices}", _list_words(choices or {})),
        "when": when,
        "choices": tuple(choices or ()),
        "unset": unset,
        "least": least,
        "above": above,
        "most": most,
        "below": below,
        "is_rare": rare,
        "flags": flags,
        "use": use,
        "parse": parse,
    }
    return dataclasses.field(default=default, metadata=declared)


def read_options(declared_in: type) -> dict[str, Option]:
    """The options that a dataclass declares, by name."""
    hints = get_type_hints(declared_in)
    return {item.name: _read_option(item, hints[item.name]) for item in dataclasses.fields(declared_in)}


def in_python(text: str, options: Mapping[str, Option]) -> str:
    """A text that names flags, with the parameters that they set: `share_encoder=False` for --separate-encoders."""
    names: dict[str, str] = {}
    for name, each in options.items():
        on, _, off = each.flags.partition("/")
        names |= {on: f"`{name}`", off: f"`{name}=False`"}
    return re.sub(r"--[a-z][a-z-]*", lambda found: names.get(found[0], found[0]), text)


def _read_option(item: dataclasses.Field[Any], annotation: Any) -> Option:
    declared = dict(item.metadata)
    plain, words = _read_annotation(annotation)
    choices = declared.pop("choices") or words
    kinds = tuple(kind for kind in plain if kind is not type(None) and not (kind is str and choices))
    given = {name: value for name, value in declared.pop("defaults").items() if value is not _SAME}
    spelling = f"--{item.name.replace('_', '-')}"
    flags = declared.pop("flags") or (f"{spelling}/--no-{spelling[2:]}" if bool in kinds else spelling)
    return Option(
        name=item.name,
        kinds=kinds,
        choices=choices,
        is_optional=type(None) in plain,
        defaults={**dict.fromkeys(PRESET_NAMES, item.default), **given},
        flags=flags,
        **declared,
    )


def _read_annotation(annotation: Any) -> tuple[list[type], tuple[str, ...]]:
    """(plain types, words of its literals) of an annotation such as `int | Literal["sqrt"] | None`."""
    parts = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
    plain = [part for part in parts if get_origin(part) is not Literal]
    words = tuple(word for part in parts if get_origin(part) is Literal for word in get_args(part))
    return plain, words


def _is_of_kind(value: Any, kind: type) -> bool:
    is_switch = isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")  # NumPy's has no abstract class
    if kind is bool:
        return is_switch
    if kind in _NUMBERS:
        return not is_switch and isinstance(value, _NUMBERS[kind])
    return isinstance(value, kind)


def _list_words(notes: Mapping[str, str]) -> str:
    """Words with their notes, as "inner, cosine or product (learned)"."""
    *first, last = [f"{word} ({note})" if note else word for word, note in notes.items()] or [""]
    return f"{', '.join(first)} or {last}" if first else last


def check_choice(what: str, word: str, choices: Iterable[Any]) -> None:
    """Refuse a word that is none of the choices."""
    choices = tuple(choices)
    if word not in choices:
        raise InputError(f"unknown {what} '{word}'; {suggest(word, choices)}")


def suggest(word: str, choices: Iterable[Any]) -> str:
    """Name the nearest choice, and all of them."""
    names = [str(choice) for choice in choices if choice is not None]
    near = difflib.get_close_matches(word, names, n=1)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return f"{hint}choose from {', '.join(names)}"
