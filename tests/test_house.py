"""The order of the rooms (DESIGN.md section 3), read from the imports themselves."""

import ast
from dataclasses import dataclass
from pathlib import Path

import pytest

import l2g2g

SOURCE = Path(l2g2g.__file__).parent
ROOMS = [
    "core",
    "parallel",
    "graphs",
    "patches",
    "models",
    "alignment",
    "training",
    "evaluation",
    "neighbours",
    "runs",
    "reports",
]
RIM = {"paper", "runs"}  # folders that wire layers together, as cli.py does
MODULES = sorted(SOURCE.rglob("*.py"))


@dataclass(frozen=True)
class Import:
    module: str
    line: int
    only_for_types: bool


def imports_of(path):
    """Every import of a module, also inside functions; relative ones made absolute."""
    package = ["l2g2g", *path.relative_to(SOURCE).parts[:-1]]
    return list(_walk(ast.parse(path.read_text()), package, only_for_types=False))


def _walk(node, package, only_for_types):
    if isinstance(node, ast.Import):
        for name in node.names:
            yield Import(name.name, node.lineno, only_for_types)
    elif isinstance(node, ast.ImportFrom):
        base = package[: len(package) - node.level + 1] if node.level else []
        module = ".".join([*base, *([node.module] if node.module else [])])
        # `from l2g2g import config` names a module, `from l2g2g.config import Config` lies in one: list both.
        yield Import(module, node.lineno, only_for_types)
        if module == "l2g2g":
            for name in node.names:
                yield Import(f"l2g2g.{name.name}", node.lineno, only_for_types)
    elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        for child in node.body:
            yield from _walk(child, package, True)
        for child in node.orelse:
            yield from _walk(child, package, only_for_types)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _walk(child, package, only_for_types)


def room_of(path):
    first = path.relative_to(SOURCE).parts[0]
    return first if first in ROOMS else None


def violations(path):
    room = room_of(path)
    if room is None:
        return []
    found = []
    for item in imports_of(path):
        parts = item.module.split(".")
        if parts[0] != "l2g2g" or parts[1:2] == ["errors"]:
            continue
        target = parts[1] if len(parts) > 1 else None
        if room == "runs" and target not in ROOMS:  # what wires a run is still beside this folder, not in it
            continue
        if target is None and Import(f"{item.module}.errors", item.line, item.only_for_types) in imports_of(path):
            continue
        if target not in ROOMS or ROOMS.index(target) > ROOMS.index(room):
            found.append(f"{path.relative_to(SOURCE)}:{item.line} imports {item.module}")
    return found


def test_the_house_has_all_its_rooms():
    assert {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"} == {*ROOMS, *RIM}
    assert len(MODULES) > 30


@pytest.mark.parametrize("path", [path for path in MODULES if room_of(path)], ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_room_imports_only_rooms_before_it(path):
    assert violations(path) == []


@pytest.mark.parametrize(
    "line",
    [
        "from l2g2g.training.loop import train",
        "import l2g2g.training.loop",
        "from l2g2g import config",
        "from l2g2g.config import Config",
        "from .. import config",
        "from ..training import loop",
        "def late():\n    from l2g2g.training.loop import train",
        "if TYPE_CHECKING:\n    from l2g2g.training.loop import History",
    ],
)
def test_the_rule_notices_a_step_back(line, monkeypatch, tmp_path):
    monkeypatch.setattr(f"{__name__}.SOURCE", tmp_path)
    (tmp_path / "models").mkdir()
    intruder = tmp_path / "models" / "intruder.py"
    intruder.write_text(
        f"import numpy\nfrom l2g2g.errors import InputError\nfrom l2g2g.graphs.graph import Graph\n{line}\n"
    )
    assert len(violations(intruder)) >= 1


def test_no_import_cycle_inside_the_house():
    names = {".".join(["l2g2g", *path.relative_to(SOURCE).with_suffix("").parts]): path for path in MODULES}
    graph = {
        name: {item.module for item in imports_of(path) if item.module in names and not item.only_for_types}
        for name, path in names.items()
    }
    finished = set()

    def visit(name, trail):
        assert name not in trail, f"import cycle: {' -> '.join([*trail, name])}"
        if name not in finished:
            for other in sorted(graph[name]):
                visit(other, [*trail, name])
            finished.add(name)

    for name in graph:
        visit(name, [])


def test_no_module_is_called_utils():
    assert [path for path in MODULES if "util" in path.stem or "helper" in path.stem] == []


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_pickle(path):
    roots = {item.module.split(".")[0] for item in imports_of(path)}
    assert not roots & {"pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
            assert isinstance(node.value, ast.Constant)
            assert node.value.value is False, f"{path}:{node.value.lineno}"
        # torch.load unpickles unless weights_only is set; safetensors is what this house uses.
        assert not (isinstance(node, ast.Attribute) and ast.unparse(node) in ("torch.load", "torch.save")), path


STORAGE = {"Graph", "StoredGraph", "TrainingGraph", "GraphStore", "PatchStore", "InducedPatches", "StoredPatches"}
STORAGE |= {
    "Communicator",
    "RankCommunicator",
    "NodeTable",
    "PatchBatches",
    "RowBatches",
    "RowBatch",
    "Shard",
    "RowShard",
}
STORAGE |= {"TrainingRows", "LocalRows", "WholeGraph", "RowPass"}
# Where what a user gives is looked at, to make one of them.
FACTORIES = {"graphs/read.py", "estimator_input.py"}


def names_in(node):
    """Names in an expression, and what is taken of modules."""
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return names | {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}


def type_switches(path):
    """Lines that ask what type a storage or a communicator has, or take one or another of them."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        names = set()
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            names = names_in(node.args[1])
        elif isinstance(node, ast.Compare) and ("type(" in ast.unparse(node) or "__class__" in ast.unparse(node)):
            names = names_in(node)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            both = names_in(node.left) | names_in(node.right)
            names = both if len(both & STORAGE) == 2 else set()
        elif isinstance(node, ast.match_case):
            names = names_in(node.pattern)
        if names & STORAGE:
            line = getattr(node, "pattern", node).lineno
            found.append(f"{path.relative_to(SOURCE)}:{line}: {ast.unparse(node)}")
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_invariant_2_no_type_switch_on_storage_or_communicator_outside_factories(path):
    if str(path.relative_to(SOURCE)) not in FACTORIES:
        assert type_switches(path) == []


@pytest.mark.parametrize(
    "line",
    [
        "isinstance(graph, StoredGraph)",
        "isinstance(graph, (int, Graph))",
        "isinstance(graph, store.StoredGraph)",
        "type(graph) is StoredGraph",
        "StoredGraph == type(graph)",
        "graph.__class__ is StoredGraph",
        "match graph:\n    case StoredGraph():\n        pass",
        "def read(graph: Graph | StoredGraph): ...",
        "isinstance(communicator, RankCommunicator)",
    ],
)
def test_invariant_2_notices_a_type_switch(line, monkeypatch, tmp_path):
    monkeypatch.setattr(f"{__name__}.SOURCE", tmp_path)
    (tmp_path / "module.py").write_text(line)
    assert len(type_switches(tmp_path / "module.py")) == 1
