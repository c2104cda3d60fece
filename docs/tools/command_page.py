"""Print docs/commands.md: every command and option, from the command line itself.

    python docs/tools/command_page.py > docs/commands.md

Training options, which several commands take, stand in one table at the end. A test compares the page with the code.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

from typer.main import get_command

from l2g2g.cli import app
from l2g2g.config import PRESETS, make_config
from l2g2g.training_options import settings

HEAD = """# Commands

Printed by `python docs/tools/command_page.py > docs/commands.md` from the code; a test compares the two.
`l2g2g COMMAND --help` says the same in the terminal.

Results go to stdout, progress and messages to stderr. `--json` prints JSON lines only, `--quiet` only errors.

| exit code | what it means |
|---|---|
| 0 | done |
| 2 | bad input or usage; the message names the file, the row and the remedy ([errors](errors.md)) |
| 3 | not enough memory or disk, or no permission |
| 4 | the numbers failed: a loss that is not finite, vectors that became all the same |
| 5 | a worker of a distributed run died or stopped answering |
| 130, 143 | interrupted; with `--run-dir` a checkpoint was written first |
"""
SHARED = """
## Training options

What is not given comes from the preset; the columns show what that is for L2G2G ("–": decided from method and graph).
[Which settings for my graph?](choosing.md) says when to change what.
"""
TABLE = "\n| option | what it does | default |\n|---|---|---|"


def main() -> None:
    """Print the page."""
    sys.stdout.write(render_page())


def render_page() -> str:
    """The whole page as Markdown."""
    shared = set(inspect.signature(settings).parameters)
    root = get_command(app)
    lines = [HEAD, "## l2g2g", "", TABLE.strip(), *(row for item in root.params for row in _option_rows(item))]
    taken: dict[str, Any] = {}
    for name, command in _walk(root):
        options = [item for item in command.params if not item.hidden]
        own = [item for item in options if item.name not in shared or not _takes_settings(command, shared)]
        if len(own) < len(options):
            taken |= {item.name: item for item in options if item.name in shared}
        lines += _command_lines(name, command, own, shares=len(own) < len(options))
    lines += [SHARED.rstrip(), *_preset_rows(list(taken.values()))]
    return "\n".join(lines) + "\n"


def _preset_rows(items: list[Any]) -> list[str]:
    """The training options with their values in every preset."""
    configs = [make_config("l2g2g", preset) for preset in PRESETS]
    rows = ["", f"| option | what it does | {' | '.join(PRESETS)} |", "|---" * (2 + len(PRESETS)) + "|"]
    for item in items:
        start = "|".join(_option_rows(item)[0].split("|")[:-2])  # its own default is the preset's
        rows.append(f"{start}| {' | '.join(_setting(getattr(config, item.name)) for config in configs)} |")
    return rows


def _setting(value: Any) -> str:
    if value is None:
        return "–"
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def _walk(group: Any, prefix: str = "l2g2g") -> list[tuple[str, Any]]:
    """(full name, command) of every command, those of groups after the group's name."""
    found = []
    for name, command in group.commands.items():
        full = f"{prefix} {name}"
        found += _walk(command, full) if getattr(command, "commands", None) else [(full, command)]
    return found


def _takes_settings(command: Any, shared: set[str]) -> bool:
    """Whether a command takes all training options, not only one that has the same name."""
    return shared <= {item.name for item in command.params}


def _command_lines(name: str, command: Any, params: list[Any], *, shares: bool) -> list[str]:
    arguments = [item for item in params if not item.opts[0].startswith("-")]
    usage = " ".join([name, *(_usage(item) for item in arguments), "[OPTIONS]"])
    described = inspect.cleandoc(command.help or "").split("\n\n")
    lines = ["", f"## {name}", "", *"\n\n".join(described).splitlines(), "", "```text", usage, "```"]
    rows = [row for item in params for row in _option_rows(item)]
    lines += [TABLE, *rows] if rows else []
    return [*lines, "", "Also takes the [training options](#training-options)."] if shares else lines


def _usage(item: Any) -> str:
    text = item.name.upper() + ("..." if item.nargs == -1 else "")
    return text if item.required else f"[{text}]"


def _option_rows(item: Any) -> list[str]:
    if item.hidden:
        return []
    if item.opts[0].startswith("-"):
        name = ", ".join(f"`{option}`" for option in [*item.opts, *item.secondary_opts])
    else:
        name = f"`{_usage(item)}`"
    text = " ".join((item.help or "").split()).replace("|", "\\|")
    return [f"| {name} | {text} | {_default(item)} |"]


def _default(item: Any) -> str:
    if item.required:
        return "needed"
    if isinstance(item.show_default, str):
        return item.show_default
    value = item.default
    if value is None or value is False or value == () or value == []:
        return ""
    if value is True:
        return item.opts[0].lstrip("-") if item.secondary_opts else "yes"
    return f"`{value}`"


if __name__ == "__main__":
    main()
