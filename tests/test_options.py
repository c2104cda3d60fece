"""Invariant 4: every option is declared once, and whatever shows it reads it from there."""

import ast
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command

import l2g2g
from l2g2g import GAE, GAEL2G, L2G2G, VGAE, VL2G2G, FastGAE, InputError
from l2g2g.__main__ import app, main
from l2g2g.config import OPTIONS, Config, make_config
from l2g2g.estimators.parameters import FIT_OPTIONS
from l2g2g.evaluation.links import BASELINES
from l2g2g.methods import METHODS
from l2g2g.options import PRESET_NAMES, in_python

SOURCE = Path(l2g2g.__file__).parent
ROOT = Path(__file__).parents[1]
TRAINING = ["embed", "evaluate", "plan"]
ESTIMATORS = {"gae": GAE, "vgae": VGAE, "fastgae": FastGAE, "gae+l2g": GAEL2G, "l2g2g": L2G2G, "vl2g2g": VL2G2G}
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*[a-z0-9]")
# Flags of programs that documents and messages tell of: tensorboard, pip, torchrun, sbatch.
OF_OTHERS = {
    "--logdir",
    *("--constraint", "--constraints", "--pip-args"),
    "--path",
    *("--nproc-per-node", "--nnodes", "--rdzv-backend", "--rdzv-endpoint", "--rdzv-id", "--max-restarts"),
    *("--nodes", "--ntasks-per-node", "--cpus-per-task", "--time"),
}


def all_commands(command=None, name="l2g2g"):
    command = get_command(app) if command is None else command
    yield name, command
    for part, each in getattr(command, "commands", {}).items():
        yield from all_commands(each, f"{name} {part}")


COMMANDS = dict(all_commands())


def shown(capsys, monkeypatch, *arguments):
    """What the terminal shows, on lines as long as they need to be, frames and runs of blanks gone."""
    monkeypatch.setenv("TERMINAL_WIDTH", "2000")
    monkeypatch.setenv("COLUMNS", "2000")
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    assert end.value.code == 0
    return "\n".join(" ".join(line.strip("│ ").split()) for line in capsys.readouterr().out.splitlines())


def line_of(flag, text):
    (found,) = (line for line in text.splitlines() if re.match(rf"(\* )?{flag}\b(?!-)", line))
    return found


# One field of Config, in a copy of the package: the only change that is made for a new option.
NEW_FIELD = """
    colour: Literal["red", "green"] = option(
        "red",
        paper="green",
        group="patches",
        use="patches",
        help="Colour of the patches: red or green.",
        when="Use green on Sundays.",
    )

    def __post_init__"""
ASK = """
import inspect, json, runpy, sys
from l2g2g import GAE, L2G2G, InputError
from l2g2g.config import Config, make_config
from l2g2g.estimators.estimator import estimator_of
try:
    make_config(colour="gren")
except InputError as error:
    refused = str(error)
model = L2G2G(colour="green")
print(json.dumps({
    "config": [make_config("l2g2g", preset, patches=2).colour for preset in ("default", "paper")],
    "record": Config().to_dict()["colour"],
    "refused": refused,
    "parameter": model.get_params()["colour"],
    "used": model.make_config().colour,
    "back": estimator_of(make_config(colour="green")).colour,
    "of_gae": "colour" in GAE().get_params(),
    "annotation": str(inspect.signature(L2G2G).parameters["colour"].annotation),
    "docstring": L2G2G.__doc__,
    "page": runpy.run_path(sys.argv[1] + "/options_page.py")["render_page"](),
    "messages": [each.text for each in runpy.run_path(sys.argv[1] + "/error_messages.py")["read_messages"]()],
}))
"""
COMPLETE = "import sys; sys.argv = ['l2g2g']; from l2g2g.__main__ import main; main()"


@pytest.fixture(scope="module")
def with_colour(tmp_path_factory):
    """Runs Python on a copy of the package whose Config has one more field."""
    folder = tmp_path_factory.mktemp("package")
    shutil.copytree(SOURCE, folder / "l2g2g", ignore=shutil.ignore_patterns("__pycache__", "cpp"))
    config = folder / "l2g2g" / "config.py"
    text = config.read_text()
    assert text.count("\n    def __post_init__") == 1
    config.write_text(text.replace("\n    def __post_init__", NEW_FIELD))

    # The finder of an editable install comes before every path.
    first = "import sys; sys.meta_path = [each for each in sys.meta_path if 'Inplace' not in type(each).__name__]"

    def run(code, *arguments, **environment):
        done = subprocess.run(
            [sys.executable, "-c", f"{first}\n{code}", *arguments],
            env={**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "400", "TERMINAL_WIDTH": "400", **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    return run


@pytest.mark.parametrize(
    "command", [TRAINING[0], *(pytest.param(each, marks=pytest.mark.slow) for each in TRAINING[1:])]
)
def test_invariant_4_a_new_field_is_an_option_of_the_command_line(with_colour, command):
    text = with_colour("import sys; from l2g2g.__main__ import main; main(sys.argv[1:])", command, "--help")
    (line,) = (line for line in text.splitlines() if "--colour" in line)
    assert "Colour of the patches: red or green." in line
    assert "default: (red; paper: green)" in line


@pytest.mark.slow
def test_invariant_4_a_new_field_is_completed(with_colour):
    def complete(*words):
        asked = {"_L2G2G_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
        return with_colour(COMPLETE, **asked).split()

    assert complete("l2g2g", "embed", "x", "--col") == ["--colour"]
    assert complete("l2g2g", "evaluate", "x", "--colour", "g") == ["green"]


@pytest.mark.slow
def test_invariant_4_a_new_field_is_a_parameter_a_check_and_a_row_of_the_docs(with_colour):
    answer = json.loads(with_colour(ASK, str(ROOT / "docs" / "tools")))
    assert answer["config"] == ["red", "green"]
    assert answer["record"] == "red"
    assert answer["refused"] == "unknown colour 'gren'; did you mean 'green'? choose from red, green"
    assert (answer["parameter"], answer["used"], answer["back"]) == ("green", "green", "green")
    assert not answer["of_gae"]  # it has no patches
    assert answer["annotation"] == "typing.Optional[typing.Literal['red', 'green']]"
    described = "colour: Colour of the patches: red or green. Use green on Sundays. Default: red; paper: green."
    assert described in answer["docstring"]
    row = "| `--colour` | Colour of the patches: red or green. | Use green on Sundays. | red | green |  |"
    assert row in answer["page"].splitlines()
    assert "unknown colour '…'; …choose from red, green" in answer["messages"]


@pytest.mark.parametrize("name", TRAINING)
def test_invariant_4_commands_that_train_have_every_option(name):
    spellings = {each.name: "/".join([each.opts[0], *each.secondary_opts]) for each in COMMANDS[f"l2g2g {name}"].params}
    assert {option.name: spellings.get(option.name) for option in OPTIONS.values()} == {
        option.name: option.flags for option in OPTIONS.values()
    }


@pytest.mark.parametrize("method", METHODS)
def test_invariant_4_estimators_have_every_option_of_their_method(method):
    parameters = ESTIMATORS[method]().get_params()
    expected = {name for name, option in OPTIONS.items() if option.is_for(METHODS[method])}
    assert set(parameters) == expected - {"method"} | set(FIT_OPTIONS)


@pytest.mark.parametrize("name", TRAINING)
def test_invariant_4_help_shows_the_defaults_of_the_table(name, capsys, monkeypatch):
    text = shown(capsys, monkeypatch, name, "--help-all")
    for option in OPTIONS.values():
        line = line_of(option.flag, text)
        with_baselines = f"{', '.join(METHODS)}, or a baseline: {', '.join(BASELINES)}; repeatable."
        assert (with_baselines if (name, option.name) == ("evaluate", "method") else option.help) in line
        assert f"[default: ({option.default_text()})]" in line


@pytest.mark.parametrize("method", METHODS)
def test_invariant_4_estimators_show_the_defaults_of_the_table(method):
    text = " ".join(inspect.getdoc(ESTIMATORS[method]).split())
    for name, option in OPTIONS.items():
        if option.is_for(METHODS[method]) and name != "method":
            default = option.default_text(METHODS[method])
            assert in_python(f" {name}: {option.help} {option.when} Default: {default}.", OPTIONS) in text


def test_invariant_4_docs_show_the_defaults_of_the_table():
    rows = [line.split(" | ") for line in (ROOT / "docs" / "options.md").read_text().splitlines() if "| `--" in line]
    assert len(rows) == len(OPTIONS)
    for row in rows:
        (option,) = (each for each in OPTIONS.values() if f"`{each.flag}`" in row[0])
        for preset, cell in zip(PRESET_NAMES, row[-3:], strict=True):
            assert (cell.strip(" |") or row[-3]) == option.value_text(option.defaults[preset])


@pytest.mark.parametrize("preset", PRESET_NAMES)
@pytest.mark.parametrize("method", METHODS)
def test_invariant_4_the_defaults_that_are_shown_are_those_that_are_used(method, preset):
    more = {"decoder": "inner"} if (method, preset) == ("fastgae", "accurate") else {}  # its own is refused
    config = make_config(method, preset, **more)
    for name, option in OPTIONS.items():
        if name not in ("method", "preset", *more):
            assert getattr(config, name) == option.default_of(preset, METHODS[method]), name
            parts = dict(part.split(": ") for part in option.default_text(METHODS[method]).split("; ")[1:])
            text = parts.get(preset, option.default_text(METHODS[method]).split("; ")[0])
            assert text == option.value_text(getattr(config, name))


def test_invariant_4_every_flag_in_a_string_of_the_code_exists():
    known = {
        flag for command in COMMANDS.values() for each in command.params for flag in (*each.opts, *each.secondary_opts)
    }
    missing = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                named = set(FLAG.findall(node.value)) - {"--no", "--share"}  # a prefix, and a colour of CSS
                missing += [
                    f"{path.relative_to(SOURCE)}:{node.lineno} {flag}"
                    for flag in named - known - OF_OTHERS - {"--help"}
                ]
    assert missing == []


def test_invariant_4_every_flag_in_a_document_exists():
    known = {
        flag for command in COMMANDS.values() for each in command.params for flag in (*each.opts, *each.secondary_opts)
    }
    scripts = [path for folder in ("benchmarks", "tests", "docs") for path in (ROOT / folder).rglob("*.py")]
    of_scripts = {flag for path in scripts for flag in re.findall(r'"(--[a-z][a-z0-9-]*)"', path.read_text())}
    assert len(of_scripts) > 10
    missing = []
    for path in [*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")]:
        for number, line in enumerate(path.read_text().splitlines(), 1):
            named = set(FLAG.findall(line)) - known - of_scripts - OF_OTHERS - {"--help"}
            missing += [f"{path.relative_to(ROOT)}:{number} {flag}" for flag in named]
    assert missing == []


@pytest.mark.parametrize("name", TRAINING)
def test_help_shows_what_is_common_and_help_all_the_rest(name, capsys, monkeypatch):
    common, everything = (shown(capsys, monkeypatch, name, flag) for flag in ("--help", "--help-all"))
    for option in OPTIONS.values():
        assert (f"\n{option.flag} " in common) != option.is_rare
        assert f"\n{option.flag} " in everything
        assert (f"{option.help} {option.when}" in everything) == option.is_rare
    panels = re.findall(r"^╭─ ([A-Z][a-z]+)", common, re.M)
    assert panels[:2] == ["Arguments", "Options"]
    assert panels[2:] == ["Input", "Model", "Patches", "Training", "Output", "Machine"]


@pytest.mark.parametrize("name", [name for name in COMMANDS if not hasattr(COMMANDS[name], "commands")])
def test_no_text_is_taken_for_markup(name, capsys, monkeypatch):
    command = COMMANDS[name]
    flag = "--help-all" if any("--help-all" in each.opts for each in command.params) else "--help"
    text = shown(capsys, monkeypatch, *name.split()[1:], flag)
    for each in command.params:
        assert " ".join((each.help or "").split()) in text
    for line in (command.help or "").splitlines():
        assert " ".join(line.split()) in " ".join(text.split())


def test_every_choice_is_explained_and_every_unset_value_has_words():
    for name, option in OPTIONS.items():
        assert all(word in f"{option.help} {option.when}" for word in option.choices), name
        assert bool(option.unset) == option.is_optional, name
        assert option.help.endswith((".", "…")), name
        assert option.when.endswith("."), name
        for default in option.defaults.values():
            assert not isinstance(default, str) or default in option.choices or name == "device"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": "a"}, "--dim is 'a'; give a whole number"),
        ({"dim": "16"}, "--dim is '16'; give a whole number"),
        ({"dim": 2.5}, "--dim is 2.5; give a whole number"),
        ({"dim": True}, "--dim is True; give a whole number"),
        ({"epochs": [3]}, "--epochs is [3]; give a whole number"),
        ({"lr": "fast"}, "--lr is 'fast'; give a number"),
        ({"lr": np.array([0.1])}, "--lr is array([0.1]); give a number"),
        ({"rotate": 1}, "--rotate is 1; give True or False"),
        ({"residual": "yes"}, "--residual is 'yes'; give True or False"),
        ({"partition": 3}, "unknown partition '3'; choose from metis, fennel, random"),
        ({"decoder": ["inner"]}, "unknown decoder '['inner']'; did you mean 'inner'?"),
        ({"device": 0}, "--device is 0; give text"),
        ({"memory": "lots"}, "--memory is 'lots'; give a size such as 4GB or 500MB"),
        ({"memory": 0}, "--memory is 0; it must be at least 1"),
        ({"sample_size": 0}, "--sample-size is 0; it must be at least 1"),
        ({"method": 4}, "unknown method '4'"),
        ({"preset": None}, "unknown preset 'None'"),
    ],
)
def test_a_value_of_another_type_is_refused_in_one_line(options, message):
    with pytest.raises(InputError) as error:
        make_config(**options)
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    "options", [{"dim": "a"}, {"validation_fraction": "half"}, {"resume": 2}, {"random_state": "a"}]
)
def test_estimators_refuse_what_cannot_be_used(noisy, options):
    with pytest.raises(InputError, match="give"):
        L2G2G(**options).fit(noisy)


def test_numbers_of_numpy_and_sizes_as_text_become_those_of_python():
    config = Config(dim=np.int64(8), lr=np.float32(0.5), rotate=np.True_, memory="4GB", sample_size="30")
    assert (config.dim, config.lr, config.rotate, config.memory, config.sample_size) == (8, 0.5, True, 4 * 10**9, 30)
    assert json.loads(json.dumps(config.to_dict())) == config.to_dict()
    assert type(make_config(lr=1).lr) is float


def test_flags_are_named_as_parameters_in_python():
    text = in_python("--separate-encoders with --mask-by nodes, --no-skip and tensorboard --logdir", OPTIONS)
    assert text == "`share_encoder=False` with `mask_by` nodes, `skip=False` and tensorboard --logdir"


def test_the_table_is_read_without_anything_heavy():
    code = "import sys, l2g2g.config; print({'torch', 'numpy', 'sklearn', 'scipy'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
