"""Options and arguments that several commands have, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from l2g2g.cli.completion import BASELINE_NAMES, complete_graph, complete_words
from l2g2g.cli.help import panel_name
from l2g2g.cli.training_options import table_option
from l2g2g.graphs.formats import WHOLE_GRAPHS
from l2g2g.methods import METHODS

_INPUT, _OUTPUT = panel_name("input"), panel_name("output")


def _graph() -> Any:
    return typer.Argument(
        metavar="GRAPH",
        help="An edge list (.csv/.tsv/.txt[.gz]/.parquet, or a folder of .csv or .parquet parts), "
        f"{', '.join(WHOLE_GRAPHS)}, the name of a data set, or a store (l2g2g prepare).",
        autocompletion=complete_graph,
    )


GraphArgument = Annotated[str, _graph()]
OptionalGraphArgument = Annotated[str | None, _graph()]
FeaturesOption = Annotated[
    Path | None,
    typer.Option(help="Node features: .csv/.parquet matched by id, .npy/.npz by row number.", rich_help_panel=_INPUT),
]
DataDirOption = Annotated[
    Path | None,
    typer.Option(help="Folder with the files of named data sets (cora-ml.npz or cora_ml.npz).", rich_help_panel=_INPUT),
]
MethodOption = Annotated[str | None, table_option("method", "-m")]
MethodsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--method",
        "-m",
        help=f"{', '.join(METHODS)}, or a baseline: {', '.join(BASELINE_NAMES)}; repeatable.",
        show_default="l2g2g",
        rich_help_panel=panel_name("model"),
        autocompletion=complete_words((*METHODS, *BASELINE_NAMES)),
    ),
]
PresetOption = Annotated[str | None, table_option("preset")]
SeedOption = Annotated[int | None, table_option("seed")]
OutputOption = Annotated[
    Path,
    typer.Option("--output", "-o", help="Output: .parquet, .arrow, .csv, .txt or .npy.", rich_help_panel=_OUTPUT),
]
OutputOrPartsOption = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="PATH",
        help="Output: .parquet, .arrow, .csv, .txt or .npy; with a / at the end a folder of Parquet parts, of which "
        "every rank writes its own.",
        rich_help_panel=_OUTPUT,
    ),
]
TrainingOption = Annotated[
    str | None,
    typer.Option(
        help="If the run has several trainings: which one, as METHOD-seed-S. Default: the first.",
        rich_help_panel=_INPUT,
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON lines only.", rich_help_panel=_OUTPUT)
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.", rich_help_panel=_OUTPUT)]
