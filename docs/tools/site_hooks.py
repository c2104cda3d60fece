"""Hooks of mkdocs: pages that live elsewhere in the repository, and lists that are read from the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from error_messages import read_messages, render_messages  # mkdocs finds modules beside a hook
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
ROOT_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
MESSAGES_HERE = "<!-- messages -->"


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that lie beside the README, so that they are read on the site too."""
    for name in ROOT_PAGES:
        content = link_from_docs((ROOT / name).read_text("utf-8"))
        files.append(File.generated(config, name.lower(), content=content))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put the list of all messages where the page of errors asks for it."""
    if MESSAGES_HERE in markdown:
        markdown = markdown.replace(MESSAGES_HERE, render_messages(read_messages()))
    return markdown


def link_from_docs(text: str) -> str:
    """Links as they are right in docs/ instead of beside it; paths of the repository that no page holds become code."""
    text = re.sub(r"\]\(docs/", "](", text)
    return re.sub(r"\]\((CHANGELOG|CONTRIBUTING|SECURITY)\.md", lambda found: f"]({found[1].lower()}.md", text)
