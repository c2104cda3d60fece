"""The option --profile: a command is timed, its stages and functions written to a file and shown on stderr."""

from __future__ import annotations

import functools
import inspect
import json
import pkgutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Annotated, Any, TypeVar

import typer
from rich.table import Table

from l2g2g.cli.common_options import with_parameters
from l2g2g.cli.help import panel_name
from l2g2g.errors import InputError, ResourceError

LAYERS = ("graphs", "patches", "models", "alignment", "training", "evaluation")
_WRAPPABLE = (FunctionType, staticmethod, classmethod)
Command = TypeVar("Command", bound=Callable[..., None])
ProfileOption = Annotated[
    Path | None,
    typer.Option(
        "--profile",
        help="Write where the time went, by stage and function, and what ranks sent each other to this JSON file.",
        rich_help_panel=panel_name("output", rare=True),
    ),
]
_active: list[tuple[Recording, list[dict[str, Any]]]] = []


@dataclass
class Spent:
    """Time of one function: calls, seconds from call to return, and seconds in no other recorded function."""

    calls: int = 0
    seconds: float = 0.0
    own_seconds: float = 0.0


@dataclass
class Recording:
    """What was spent in which function of the thread that started it, by 'layer.module.function'."""

    functions: dict[str, Spent] = field(default_factory=dict)
    started: float = field(default_factory=lambda: time.perf_counter())
    _inside: list[float] = field(default_factory=list)  # for each open call: the seconds of recorded calls in it
    _thread: int = field(default_factory=threading.get_ident)

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, timed."""
        spent = self.functions.setdefault(name, Spent())
        inside, clock, thread = self._inside, time.perf_counter, threading.get_ident

        @functools.wraps(function)
        def measured(*arguments: Any, **options: Any) -> Any:
            if thread() != self._thread:
                return function(*arguments, **options)
            inside.append(0.0)
            started = clock()
            try:
                return function(*arguments, **options)
            finally:
                passed = clock() - started
                own = passed - inside.pop()
                if inside:
                    inside[-1] += passed
                spent.calls += 1
                spent.seconds += passed
                spent.own_seconds += own

        return measured

    def take(self) -> list[dict[str, Any]]:
        """Functions that were called, the costliest first, as JSON rows; counting starts anew."""
        total = time.perf_counter() - self.started
        rows = [
            {"name": name, **vars(spent), "share": spent.own_seconds / total}
            for name, spent in self.functions.items()
            if spent.calls
        ]
        for spent in self.functions.values():
            spent.calls, spent.seconds, spent.own_seconds = 0, 0.0, 0.0
        self.started = time.perf_counter()
        return sorted(rows, key=lambda row: -row["own_seconds"])


@contextmanager
def record() -> Iterator[Recording]:
    """Record all functions of the layers while the block runs."""
    import torch

    recording = Recording()
    originals = _functions_of(_load_layers()) + _native_kernels()
    loaded = _loaded_modules()
    places: list[tuple[Any, str, Any]] = []
    for owner, name, label, value in originals:
        function = value.__func__ if isinstance(value, staticmethod | classmethod) else value
        wrapped: Any = recording.wrap(label, function)
        if isinstance(value, staticmethod | classmethod):
            wrapped = type(value)(wrapped)
        users = [owner] if inspect.isclass(owner) else [each for each in loaded if vars(each).get(name) is value]
        places += [(user, name, value) for user in users]
        for user in users:
            setattr(user, name, wrapped)
    backward = torch.Tensor.backward
    places.append((torch.Tensor, "backward", backward))
    torch.Tensor.backward = recording.wrap("torch.Tensor.backward", backward)  # type: ignore[method-assign]
    recording.started = time.perf_counter()
    try:
        yield recording
    finally:
        for user, name, value in places:
            setattr(user, name, value)


def _load_layers() -> list[ModuleType]:
    """Every module of the layers."""
    modules = []
    for layer in LAYERS:
        package = import_module(f"l2g2g.{layer}")
        modules += [import_module(f"{package.__name__}.{item.name}") for item in pkgutil.iter_modules(package.__path__)]
    return modules


def _loaded_modules() -> list[ModuleType]:
    """All loaded modules of this package, any of which may have imported a function by name."""
    return [module for name, module in list(sys.modules.items()) if name.split(".")[0] == "l2g2g"]


def _functions_of(modules: list[ModuleType]) -> list[tuple[Any, str, str, Any]]:
    """(owner, name, label, function) of functions and methods that are defined in the modules."""
    found: list[tuple[Any, str, str, Any]] = []
    for module in modules:
        place = module.__name__.removeprefix("l2g2g.")
        for name, value in list(vars(module).items()):
            if getattr(value, "__module__", None) != module.__name__:
                continue
            if isinstance(value, FunctionType):
                found.append((module, name, f"{place}.{name}", value))
            elif inspect.isclass(value):
                found += [
                    (value, method, f"{place}.{name}.{method}", each)
                    for method, each in list(vars(value).items())
                    if isinstance(each, _WRAPPABLE) and not method.startswith("__") and _is_own(each, module)
                ]
    return found


def _native_kernels() -> list[tuple[Any, str, str, Any]]:
    """The same for the native kernels; none where the core is not built."""
    core = sys.modules.get("l2g2g.core._native")
    values = vars(core).items() if core else ()
    kernels = [(name, value) for name, value in values if callable(value) and not name.startswith("_")]
    return [(core, name, f"core.{name}", value) for name, value in kernels]


def _is_own(method: Any, module: ModuleType) -> bool:
    function = method.__func__ if isinstance(method, staticmethod | classmethod) else method
    return getattr(function, "__module__", None) == module.__name__


def check_profile(path: Path) -> None:
    """Refuse a file that cannot be written before hours of work, not after."""
    if path.is_dir() or not path.parent.is_dir():
        raise InputError(f"--profile {path}: give a file in a folder that exists")


def write_profile(path: Path, runs: list[dict[str, Any]]) -> None:
    """One JSON file with the stages and functions of every run."""
    try:
        path.write_text(json.dumps({"runs": runs}, indent=1) + "\n")
    except OSError as error:
        raise ResourceError(f"{path}: cannot write the profile ({error.strerror})") from error


def describe_run(row: dict[str, Any], functions: list[dict[str, Any]]) -> dict[str, Any]:
    """A run of the profile: what it was, its stages and its functions. row: the JSON line of the command."""
    names = ("dataset", "method", "preset", "seed", "num_nodes", "num_edges", "num_patches", "epochs", "messages")
    stages = {**row["seconds"]}
    return {
        **{name: row[name] for name in names if name in row},
        "epoch_median": stages.pop("epoch_median", None),
        "seconds": stages.pop("total", None),
        "stages": stages,
        "functions": functions,
    }


def render_profile(run: dict[str, Any], most: int = 15) -> list[Table]:
    """The stages, the functions that cost most by themselves, and what ranks sent each other."""
    total = run["seconds"] or 1.0
    stages = Table("stage", title=f"{run['method']}: stages")
    functions = Table("function", title=f"{run['method']}: functions, those they call not counted")
    for name in ("seconds", "%"):
        stages.add_column(name, justify="right")
    for name in ("calls", "ms per call", "seconds", "%"):
        functions.add_column(name, justify="right")
    for stage, seconds in sorted(run["stages"].items(), key=lambda item: -item[1]):
        label = f"{stage} (in train)" if stage == "synchronise" else stage
        stages.add_row(label, f"{seconds:.3f}", f"{100 * seconds / total:.1f}")
    for row in run["functions"][:most]:
        own = row["own_seconds"]
        functions.add_row(
            row["name"],
            f"{row['calls']:,}",
            f"{1000 * own / row['calls']:.3f}",
            f"{own:.3f}",
            f"{100 * row['share']:.1f}",
        )
    return [stages, functions, *([_render_messages(run)] if run.get("messages") else [])]


def _render_messages(run: dict[str, Any]) -> Table:
    """What every rank sends to others each time, and in every epoch: messages that are not sent so often left out."""
    messages, epochs = run["messages"], max(1, run["epochs"])
    num_ranks = len(next(iter(messages.values()))["by_rank"])
    table = Table("message", title=f"{run['method']}: bytes that a rank sends")
    for name in ("times", "an epoch", *(f"rank {rank}" for rank in range(num_ranks))):
        table.add_column(name, justify="right")
    rows = sorted(messages.items(), key=lambda item: -item[1]["bytes"] * item[1]["times"])
    for kind, each in rows:
        sent = [f"{number:,.0f}" for number in each["by_rank"]]
        table.add_row(kind.replace("_", " "), f"{each['times']:,}", f"{each['times'] / epochs:.2g}", *sent)
    often = [each for _, each in rows if each["times"] >= epochs]
    exchanges = sum(each["times"] for each in often) / epochs
    sums = [sum(each["by_rank"][rank] * each["times"] for each in often) / epochs for rank in range(num_ranks)]
    table.add_row("every epoch", "", f"{exchanges:.2g}", *(f"{number:,.0f}" for number in sums))
    return table


def takes_profile(command: Command) -> Command:
    """Give a command the option. It must have `quiet` and `as_json`, and hand the row of each run to `note_run`."""
    option = inspect.Parameter("profile", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=ProfileOption)

    def with_profile(*, profile: Path | None = None, **given: Any) -> None:
        if profile is None:
            return command(**given)
        with _recorded(profile, silent=given["quiet"] or given["as_json"]):
            return command(**given)

    return with_parameters(command, with_profile, None, [option])


def note_run(row: dict[str, Any]) -> None:
    """A run is finished: what was recorded since the last one is its. Does nothing without --profile."""
    if _active:
        recording, runs = _active[-1]
        runs.append(describe_run(row, recording.take()))


@contextmanager
def _recorded(path: Path, *, silent: bool) -> Iterator[None]:
    from rich.console import Console

    check_profile(path)
    runs: list[dict[str, Any]] = []
    with record() as recording:
        _active.append((recording, runs))
        try:
            yield
        finally:
            _active.pop()
    write_profile(path, runs)
    for run in runs if not silent else ():
        for table in render_profile(run):
            Console(stderr=True).print(table)
