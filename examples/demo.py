"""What `make run` shows: SBM-Small embedded and evaluated by every method of the paper.

Leaves embedding.parquet, results.jsonl and training.png in the folder given (default: runs/demo).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rich.console import Console

from l2g2g.config import make_config
from l2g2g.graphs.read import read_graph
from l2g2g.graphs.write import write_embedding
from l2g2g.reports.charts import plot_training
from l2g2g.reports.tables import render_scores
from l2g2g.runs.embed import embed_graph
from l2g2g.runs.evaluate import evaluate_graph

METHODS = ("gae", "fastgae", "gae+l2g", "l2g2g")


def run(folder: Path = Path("runs/demo"), epochs: int | None = None) -> list[dict]:
    """Evaluate every method, print one table, write the files, return the rows."""
    screen = Console(stderr=True)
    folder.mkdir(parents=True, exist_ok=True)
    graph = read_graph("sbm-small")
    rows, histories = [], {}
    for method in METHODS:
        screen.print(f"training {method} …", style="dim")
        row, done = evaluate_graph(graph, make_config(method, epochs=epochs))
        rows.append(row)
        histories[method] = done.trained.history
    screen.print("embedding the whole graph with l2g2g …", style="dim")
    final = embed_graph(graph, make_config("l2g2g", epochs=epochs))
    write_embedding(folder / "embedding.parquet", final.embedding, graph.node_ids)
    (folder / "results.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    plot_training(histories, folder / "training.png", title="SBM-Small, held-out links")
    console = Console()
    console.print(render_scores(rows))
    for name in ("embedding.parquet", "results.jsonl", "training.png"):
        console.print(f"wrote {folder / name}")
    console.print("next: source .venv/bin/activate")
    console.print("      l2g2g embed edges.csv -o vectors.parquet    # your own graph: two columns of ids")
    return rows


if __name__ == "__main__":
    run(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("runs/demo"))
