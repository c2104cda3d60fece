"""Print docs/dependencies.md: what the installed package needs to run, with versions and licences.

    python docs/dependencies.py > docs/dependencies.md

Walks the requirements of l2g2g, without extras, as far as they apply to this machine; then what each extra asks for.
"""

from __future__ import annotations

import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

HEAD = """# Dependencies

What `pip install l2g2g` brings along, without extras, on Linux with Python 3.11, a build of torch for the CPU and the
versions of `constraints.txt`. Licences are what the packages say about themselves. Printed by `python
docs/dependencies.py`; a test compares the names with what is installed.

| package | version | licence | needed by |
|---|---|---|---|"""
EXTRAS = """
## Extras

What is asked for by name; `l2g2g[all]` brings all but `docs`, which only `make docs` needs, and `spark`,
which only `examples/prepare_with_spark.py` needs. Versions are in `constraints.txt`.
"""
# Written out where a package puts its whole text there, or several names for one.
LONG = 60
# Of extras that the tests do without: the site is made by `make docs`, Spark is only for an example.
OTHERS = {"mkdocs-material": "MIT", "mkdocstrings": "ISC", "mike": "BSD-3-Clause", "pyspark": "Apache-2.0"}


def runtime_needs(root: str = "l2g2g") -> dict[str, set[str]]:
    """Names of all packages that root needs, directly or not, with the packages that ask for each."""
    asked: dict[str, set[str]] = {}
    waiting = [(root, frozenset[str]())]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        for text in metadata.requires(name) or []:
            need = Requirement(text)
            if need.marker and not any(need.marker.evaluate({"extra": extra}) for extra in extras | {""}):
                continue
            wanted = re.sub(r"[-_.]+", "-", need.name).lower()
            asked.setdefault(wanted, set()).add(name)
            waiting.append((wanted, frozenset(need.extras)))
    return asked


def licence(name: str) -> str:
    """The licence of an installed package, by its expression, its classifiers or its own words, in this order."""
    try:
        facts = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return OTHERS[name]
    classifiers = [text.split(" :: ")[-1] for text in facts.get_all("Classifier", []) if text.startswith("License ::")]
    own = (facts.get("License") or "").strip()
    found = facts.get("License-Expression") or ", ".join(text for text in classifiers if text != "OSI Approved")
    if not found and own:
        found = own.splitlines()[0][:LONG]
    return found or "not stated"


def extra_lines() -> list[str]:
    """What each extra asks for by name, from pyproject.toml; those that are made of other extras are left out."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    lines = []
    for extra, wanted in project["optional-dependencies"].items():
        names = [Requirement(text).name for text in wanted]
        if "l2g2g" not in names:
            lines.append(f"- `{extra}`: " + ", ".join(f"{name} ({licence(name)})" for name in names))
    return lines


def main() -> None:
    """Print the page."""
    rows = []
    for name, users in sorted(runtime_needs().items()):
        needed = "l2g2g" if "l2g2g" in users else ", ".join(sorted(users))
        rows.append(f"| {name} | {metadata.version(name)} | {licence(name)} | {needed} |")
    sys.stdout.write("\n".join([HEAD, *rows, EXTRAS, *extra_lines()]) + "\n")


if __name__ == "__main__":
    main()
