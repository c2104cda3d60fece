"""The notebooks of examples/: their cells, run in order in one namespace, and their printed output kept in the file.

`python docs/tools/notebooks.py DATA` runs all of them in a temporary folder, with DATA/cora_ml.npz beside them, and
writes what they print into the notebooks. The tests run the same cells.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "examples" / "notebooks"


def list_notebooks() -> list[Path]:
    """All notebooks, in order of their names."""
    return sorted(FOLDER.glob("*.ipynb"))


def run_notebook(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Run the code cells in the current folder: the names they leave, and what each of them prints."""
    names: dict[str, Any] = {"__name__": "notebook"}
    printed = []
    for number, cell in enumerate(code_cells(json.loads(path.read_text("utf-8")))):
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            exec(compile("".join(cell["source"]), f"{path.name}, cell {number + 1}", "exec"), names)
        printed.append(shown.getvalue())
    return names, printed


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """The cells with code."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def write_outputs(path: Path, printed: list[str]) -> None:
    """Keep in a notebook what its cells have printed."""
    notebook = json.loads(path.read_text("utf-8"))
    for number, (cell, text) in enumerate(zip(code_cells(notebook), printed, strict=True)):
        cell["execution_count"] = number + 1
        lines = text.splitlines(keepends=True)
        cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


def main(data: str) -> None:
    """Run all notebooks and keep their output. data: the folder of cora_ml.npz."""
    archive = (Path(data) / "cora_ml.npz").resolve()
    for path in list_notebooks():
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(archive, folder)
            os.chdir(folder)
            write_outputs(path, run_notebook(path)[1])
            os.chdir(FOLDER)


if __name__ == "__main__":
    main(sys.argv[1])
