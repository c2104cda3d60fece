"""Print docs/commands.md: every command and option, from the command line itself.

    python docs/tools/command_page.py > docs/commands.md

Training options, which several commands take, have a page of their own (options_page.py). A test compares the page
with the code.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

from typer.main import get_command

from l2g2g.__main__ import app
from l2g2g.config import OPTIONS

HEAD = """# Commands

Printed by `python docs/tools/command_page.py > docs/commands.md` from the code; a test compares the two.
`l2g2g COMMAND --help` says the same in the terminal; of commands that train it shows the common options, and
`--help-all` all of them.

Results go to stdout, progress and messages to stderr. `--json` prints JSON lines only, `--quiet` only errors.

| exit code | what it means |
|---|---|
| 0 | done |
| 2 | bad input or usage; the message names the file, the row and the remedy ([errors](errors.md)) |
| 3 | not enough memory or disk, or no permission |
| 4 | numerical failure: a loss that is not finite, vectors that became all the same |
| 5 | a worker of a distributed run died or stopped answering |
| 130, 143 | interrupted; with `--run-dir` a checkpoint was written first |
"""
TABLE = "\n| option | what it does | default |\n|---|---|---|"


def main() -> None:
    """Print the page."""
    sys.stdout.write(render_page())


def render_page() -> str:
    """The whole page as Markdown."""
    root = get_command(app)
    lines = [HEAD, "## l2g2g", "", TABLE.strip(), *(row for item in root.params for row in _option_rows(item))]
    for name, command in _walk(root):
        options = [item for item in command.params if not item.hidden]
        shares = set(OPTIONS) <= {item.name for item in options}
        own = [item for item in options if not shares or item.name not in OPTIONS]
        lines += _command_lines(name, command, own, shares=shares)
    return "\n".join(lines) + "\n"


def _walk(group: Any, prefix: str = "l2g2g") -> list[tuple[str, Any]]:
    """(full name, command) of every command, those of groups after the group's name."""
    found = []
    for name, command in group.commands.items():
        full = f"{prefix} {name}"
        found += _walk(command, full) if getattr(command, "commands", None) else [(full, command)]
    return found


def _command_lines(name: str, command: Any, params: list[Any], *, shares: bool) -> list[str]:
    arguments = [item for item in params if not item.opts[0].startswith("-")]
    usage = " ".join([name, *(_usage(item) for item in arguments), "[OPTIONS]"])
    described = inspect.cleandoc(command.help or "").split("\n\n")
    lines = ["", f"## {name}", "", *"\n\n".join(described).splitlines(), "", "```text", usage, "```"]
    rows = [row for item in params for row in _option_rows(item)]
    lines += [TABLE, *rows] if rows else []
    return [*lines, "", "Also takes the [training options](options.md)."] if shares else lines


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
