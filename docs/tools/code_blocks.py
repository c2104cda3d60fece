"""The code blocks of README and docs: which are run, which say that they are not, and what their commands ask for.

A page's `python` and `bash` blocks are run in order, in one folder and one namespace. A block with `title="NAME"` is
that file, and is written before the blocks that follow. `<!-- not run: reason -->` before a block leaves it out; the
options and files it names are checked all the same. Other languages (text, json, …) show something.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RUNNABLE = ("python", "bash")
SHOWN = ("text", "json", "csv", "html", "toml", "yaml")
_FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)```[ ]*$", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"<!-- not run: (?P<reason>[^>]+?) -->\s*$")


@dataclass(frozen=True)
class Block:
    """One fenced block: its page, line, language, text, the file it is, and why it is not run."""

    page: str
    line: int
    language: str
    text: str
    file: str = ""
    not_run: str = ""

    @property
    def place(self) -> str:
        """page:line, for messages."""
        return f"{self.page}:{self.line}"


def list_pages() -> list[Path]:
    """README, the pages beside it and all of docs/."""
    return [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
        *(path for path in sorted((ROOT / "docs").rglob("*.md")) if "results" not in path.parts),
    ]


def read_blocks(path: Path) -> list[Block]:
    """All fenced blocks of a page, in order."""
    text = path.read_text("utf-8")
    page = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    blocks = []
    for found in _FENCE.finditer(text):
        info = found["info"].strip()
        title = re.search(r'title="([^"]+)"', info)
        mark = _MARK.search(text[: found.start()])
        indent = len(found["indent"])
        blocks.append(
            Block(
                page,
                text.count("\n", 0, found.start()) + 1,
                info.split()[0] if info else "",
                "".join(line[indent:] for line in found["body"].splitlines(keepends=True)),
                title[1] if title else "",
                mark["reason"] if mark else "",
            )
        )
    return blocks


def read_commands(block: Block) -> list[list[str]]:
    """The commands of a `bash` block as words; comments are gone, continued lines joined."""
    lines = block.text.replace("\\\n", " ").splitlines()
    return [words for line in lines if (words := shlex.split(line.removeprefix("$ "), comments=True))]


def find_mistakes(words: list[str]) -> list[str]:
    """What a command names that is not there: options and commands of l2g2g, targets of make, scripts."""
    while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):  # settings of the environment
        words = words[1:]
    if words[0] in ("python", "torchrun", "srun") and "l2g2g" in words:  # -m l2g2g
        words = words[words.index("l2g2g") :]
    program = Path(words[0]).name
    if program == "l2g2g":
        return _wrong_options(words[1:])
    if program == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        return [f"no target '{word}' in the Makefile" for word in words[1:] if "=" not in word and word not in targets]
    if program == "python" and len(words) > 1 and words[1].endswith(".py"):
        return [] if (ROOT / words[1]).is_file() else [f"no script {words[1]}"]
    return []


def _wrong_options(words: list[str]) -> list[str]:
    from typer.main import get_command

    from l2g2g.__main__ import app

    command: Any = get_command(app)
    while words and hasattr(command, "commands") and words[0] in command.commands:
        command, words = command.commands[words[0]], words[1:]
    if hasattr(command, "commands") and words and not words[0].startswith("-"):
        return [f"no command '{words[0]}'"]
    known = {option for item in command.params for option in (*item.opts, *item.secondary_opts)} | {"--help", "-h"}
    given = [word.split("=")[0] for word in words if re.fullmatch(r"--?[a-z][a-z0-9-]*(=.*)?", word)]
    return [f"no option {option}" for option in given if option not in known | {"--debug"}]
