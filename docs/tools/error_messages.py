"""Every message that an error of this package may carry, read from the source itself."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

from l2g2g.config import OPTIONS

SOURCE = Path(__file__).parents[2] / "src" / "l2g2g"
ERRORS = ("InputError", "ResourceError", "NumericalError", "WorkerError")
# What a reader was doing, by the folder or module that speaks; the first that fits.
TOPICS = {
    "graphs/write": "Writing and reading embeddings",
    "graphs/node_columns": "Writing and reading embeddings",
    "graphs/store": "Graphs on disk",
    "graphs/array": "Graphs on disk",
    "graphs/split": "Splits",
    "graphs/held_out": "Splits",
    "graphs/non_edges": "Splits",
    "graphs": "Reading a graph, features or labels",
    "patches": "Cutting into patches",
    "models": "Training",
    "training/checkpoint": "Checkpoints and resuming",
    "training/rank_checkpoints": "Checkpoints and resuming",
    "runs/run_directory": "Checkpoints and resuming",
    "training": "Training",
    "runs/memory": "Training",
    "alignment": "Aligning",
    "evaluation": "Scoring",
    "config": "Settings",
    "options": "Settings",
    "reports": "Reports",
    "paper": "Reproducing the paper",
    "": "Commands and estimators",
}


@dataclass(frozen=True, order=True)
class Message:
    """One message: its topic, the error that carries it, and its text with … for what is filled in."""

    topic: str
    error: str
    text: str


def read_messages(source: Path = SOURCE) -> list[Message]:
    """All messages of all modules, in the order of the topics."""
    found = set()
    for path in sorted(source.rglob("*.py")):
        module = path.relative_to(source).with_suffix("").as_posix()
        topic = next(name for start, name in TOPICS.items() if module.startswith(start))
        tree = ast.parse(path.read_text("utf-8"))
        known = _constants(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS and node.args:
                text = _template(node.args[0], known)
                if re.search(r"[a-z]{2}", text):  # a message that is passed on was listed where it was made
                    found.add(Message(topic, node.func.id, text))
    found |= {Message(TOPICS["config"], "InputError", text) for text in _messages_of_options()}
    order = list(dict.fromkeys(TOPICS.values()))
    return sorted(found, key=lambda each: (order.index(each.topic), each))


def _messages_of_options() -> list[str]:
    """What is said of a value that an option does not allow, by the table of options."""
    found = []
    for each in OPTIONS.values():
        if each.choices and not each.kinds:
            found.append(f"unknown {each.name.replace('_', '-')} '…'; …choose from {', '.join(each.choices)}")
        else:
            found.append(f"{each.flag} is …; give {each.type_text}")
        if each.bounds_text:
            found.append(f"{each.flag} is …; it must {each.bounds_text}")
    return found


def _template(node: ast.expr, known: dict[str, str]) -> str:
    """The text of a string or f-string, with … for every value that the module does not fix."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_template(part, known) for part in node.values)
    if isinstance(node, ast.FormattedValue) and isinstance(node.value, ast.Name):
        return known.get(node.value.id, "…")
    return "…"


def _constants(tree: ast.Module) -> dict[str, str]:
    """Texts that a module gives a name to, where the name stands for nothing else."""
    found: dict[str, set[str | None]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            text = node.value.value if isinstance(node.value, ast.Constant) else None
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, set()).add(text if isinstance(text, str) else None)
    return {
        name: text for name, texts in found.items() if len(texts) == 1 and (text := min(texts, key=str)) is not None
    }


def render_messages(messages: list[Message]) -> str:
    """A list as Markdown, a table for every topic."""
    lines: list[str] = []
    topic = ""
    for each in messages:
        if each.topic != topic:
            topic = each.topic
            lines += ["", f"### {topic}", "", "| message | error |", "|---|---|"]
        text = each.text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
        lines.append(f"| {text} | `{each.error}` |")
    return "\n".join(lines)
