"""Plan on the command line: `l2g2g plan`, and the line that long runs print before they start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from l2g2g.cli.common_options import (
    DataDirOption,
    FeaturesOption,
    GraphArgument,
    JsonOption,
    MethodOption,
    PresetOption,
    takes_settings,
    takes_tables,
)
from l2g2g.cli.help import panel_name

if TYPE_CHECKING:
    from l2g2g.config import Config
    from l2g2g.graphs.formats import TableOptions
    from l2g2g.graphs.graph_store import GraphStore
    from l2g2g.runs.plan import GraphSizes

_LONG = 60.0
# A run that computes fewer numbers takes less than half a minute, of which a plan would be a large part.
_LITTLE_WORK = 40_000_000_000


@takes_tables
@takes_settings
def plan(
    graph: GraphArgument,
    features: FeaturesOption = None,
    method: MethodOption = None,
    preset: PresetOption = None,
    data_dir: DataDirOption = None,
    ranks: Annotated[
        int, typer.Option(help="Processes that share the work.", min=1, rich_help_panel=panel_name("machine"))
    ] = 1,
    hosts: Annotated[
        int,
        typer.Option(
            help="Number of machines like this one that share the processes.",
            min=1,
            rich_help_panel=panel_name("machine"),
        ),
    ] = 1,
    network: Annotated[
        str,
        typer.Option(help="Network speed between hosts, in bytes per second.", rich_help_panel=panel_name("machine")),
    ] = "1.25GB",
    as_json: JsonOption = False,
    tables: Any = None,
    **options: Any,
) -> None:
    """Estimate patches, memory, disk and time of a run; takes a few seconds."""
    from l2g2g.config import make_config, parse_size
    from l2g2g.errors import InputError
    from l2g2g.runs.plan import make_plan

    if hosts > ranks:
        raise InputError(f"--hosts {hosts} is more than --ranks {ranks}; give at least one rank for each host")
    config = make_config(method or "l2g2g", preset or "default", **options)
    sizes = find_sizes(graph, features, data_dir, tables, directed=config.directed)
    found = make_plan(sizes, config, ranks=ranks, hosts=hosts, network=parse_size(network, "--network"))
    if as_json:
        typer.echo(json.dumps(found.to_dict()))
        return
    typer.echo(found.describe())
    for stage, seconds in found.seconds.items():
        typer.echo(f"  {stage:<12}{seconds:12.2f} s")


def find_sizes(
    graph: str, features: Path | None, data_dir: Path | None, tables: TableOptions, *, directed: bool = False
) -> GraphSizes:
    """The sizes of a graph; a data set or a store need not be read for them."""
    from l2g2g.graphs.read import find_graph_file, read_graph
    from l2g2g.graphs.stand_ins import find_stand_in
    from l2g2g.graphs.store import is_store, open_graph
    from l2g2g.runs.plan import GraphSizes
    from l2g2g.runs.sources import check_directions

    if is_store(graph):
        return GraphSizes.of(check_directions(open_graph(graph), directed=directed))
    stand_in = find_stand_in(graph)
    if find_graph_file(graph) is None and stand_in is not None and features is None and not directed:
        return GraphSizes(
            graph, stand_in.num_nodes, stand_in.num_edges, stand_in.num_features, float(stand_in.num_features)
        )
    return GraphSizes.of(read_graph(graph, features, data_dir=data_dir, tables=tables, directed=directed))


def look_ahead(graph: GraphStore, config: Config) -> str | None:
    """The plan of a run in one line, where it is expected to take more than a minute; None otherwise."""
    from l2g2g.runs.plan import GraphSizes, make_plan

    sizes = GraphSizes.of(graph)
    numbers = sizes.num_edges * (config.hidden + config.dim) + sizes.num_nodes * sizes.entries_per_row
    if numbers * config.num_epochs(sizes.num_edges) < _LITTLE_WORK:
        return None
    found = make_plan(sizes, config)
    return found.describe() if found.seconds["total"] > _LONG else None
