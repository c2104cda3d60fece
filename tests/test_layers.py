"""Invariants 2 and 6, read from the code: no type switch on storage, and layers import only earlier layers."""

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import l2g2g

SOURCE = Path(l2g2g.__file__).parent
# The layers in order; modules in the root are named, folders are layers as a whole.
LAYERS = [
    {"core"},
    {"config", "options", "methods", "components"},
    {"parallel"},
    {"graphs"},
    {"patches"},
    {"models"},
    {"alignment"},
    {"evaluation"},
    {"training"},
    {"neighbours"},
    {"runs"},
    {"reports"},
    {"estimators"},
    {"cli"},
    {"paper"},
]
LEAVES = {"errors", "lazy"}  # import nothing and may be imported by all, the core included
OUTSIDE = {"__init__", "__main__"}  # put the layers together: public names, and the commands of `cli` and `paper`
POSITIONS = {name: position for position, names in enumerate(LAYERS) for name in names}
MODULES = sorted(SOURCE.rglob("*.py"))


@dataclass(frozen=True)
class Import:
    module: str
    line: int
    only_for_types: bool


@cache
def parse(path):
    return ast.parse(path.read_text())


@cache
def imports_of(path):
    """Every import of a module, also inside functions; relative ones made absolute."""
    package = ["l2g2g", *path.relative_to(SOURCE).parts[:-1]]
    return list(_walk(parse(path), package, only_for_types=False))


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
    elif not isinstance(node, ast.expr):  # an import is a statement, and no statement lies in an expression
        for child in ast.iter_child_nodes(node):
            yield from _walk(child, package, only_for_types)


def layer_of(path):
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def violations(path):
    """Imports of a module that are not of its own or an earlier layer."""
    found = []
    for item in imports_of(path):
        package, *rest = item.module.split(".")
        if package != "l2g2g":
            continue
        target = rest[0] if rest else None
        if target in LEAVES or (target is None and _names_modules_only(path, item)):
            continue
        position = -1 if layer_of(path) in LEAVES else POSITIONS[layer_of(path)]
        if POSITIONS.get(target, len(LAYERS)) > position:
            found.append(f"{path.relative_to(SOURCE)}:{item.line} imports {item.module}")
    return found


def _names_modules_only(path, item):
    """Whether `from l2g2g import ...` names layers, which are looked at one by one, and no public name."""
    names = [each.module.split(".")[1] for each in imports_of(path) if each.line == item.line and "." in each.module]
    return bool(names) and all(name in POSITIONS or name in LEAVES for name in names)


def test_invariant_6_every_module_is_in_a_layer():
    in_root = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert in_root == {*POSITIONS, *LEAVES, *OUTSIDE}
    assert len(MODULES) > 100


def test_invariant_6_layers_import_only_earlier_layers():
    assert [found for path in MODULES if layer_of(path) not in OUTSIDE for found in violations(path)] == []


@pytest.mark.parametrize(
    "line",
    [
        "from l2g2g.training.loop import train",
        "import l2g2g.training.loop",
        "from l2g2g import training",
        "from l2g2g import L2G2G",
        "from .. import training",
        "from ..training import loop",
        "from l2g2g.cli import main",
        "from l2g2g.paper.cells import Cell",
        "from l2g2g.unknown import anything",
        "def late():\n    from l2g2g.training.loop import train",
        "if TYPE_CHECKING:\n    from l2g2g.training.loop import History",
    ],
)
def test_invariant_6_notices_an_import_of_a_later_layer(line, monkeypatch, tmp_path):
    monkeypatch.setattr(f"{__name__}.SOURCE", tmp_path)
    (tmp_path / "models").mkdir()
    intruder = tmp_path / "models" / "intruder.py"
    intruder.write_text(
        "import numpy\nfrom l2g2g import core, errors\nfrom l2g2g.errors import InputError\n"
        f"from l2g2g.config import Config\nfrom l2g2g.graphs.graph import Graph\n{line}\n"
    )
    assert violations(intruder)
    assert all(found.startswith(("models/intruder.py:6 ", "models/intruder.py:7 ")) for found in violations(intruder))


def test_no_import_cycle():
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


def pickles(path):
    """Lines that pickle or unpickle. torch.load unpickles unless weights_only is set; safetensors is used instead."""
    pickling = {"pickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}
    lines = {item.line for item in imports_of(path) if item.module.split(".")[0] in pickling}
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle" and ast.unparse(node.value) != "False":
            lines.add(node.value.lineno)
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("torch.load", "torch.save"):
            lines.add(node.lineno)
    return [f"{path.relative_to(SOURCE)}:{line}" for line in sorted(lines)]


def test_no_pickle():
    assert [found for path in MODULES for found in pickles(path)] == []


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from joblib import dump",
        "def late():\n    import marshal",
        "np.load(file, allow_pickle=True)",
        "np.load(file, allow_pickle=trusted)",
        "torch.load(file)",
        "save = torch.save",
    ],
)
def test_a_pickle_is_noticed(line, monkeypatch, tmp_path):
    monkeypatch.setattr(f"{__name__}.SOURCE", tmp_path)
    (tmp_path / "module.py").write_text(f"np.load(file, allow_pickle=False)\n{line}")
    assert len(pickles(tmp_path / "module.py")) == 1


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
FACTORIES = {"graphs/read.py", "estimators/graph_input.py"}


def names_in(node):
    """Names in an expression, and what is taken of modules."""
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return names | {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}


def type_switches(path):
    """Lines that ask what type a storage or a communicator has, or take one or another of them."""
    found = []
    for node in ast.walk(parse(path)):
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


def test_invariant_2_no_type_switch_on_storage_or_communicator_outside_factories():
    looked_at = [path for path in MODULES if str(path.relative_to(SOURCE)) not in FACTORIES]
    assert [found for path in looked_at for found in type_switches(path)] == []


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


def test_every_layer_has_a_folder_of_tests():
    folders = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    tests = Path(__file__).parent
    assert [name for name in sorted(folders) if not list((tests / name).glob("test_*.py"))] == []
