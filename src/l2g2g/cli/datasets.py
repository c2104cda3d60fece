"""Command line of data sets: `l2g2g datasets`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from l2g2g.cli.common_options import (
    DataDirOption,
    JsonOption,
)
from l2g2g.errors import InputError

if TYPE_CHECKING:
    pass

from l2g2g.cli.messages import say


def datasets(
    data_dir: DataDirOption = None,
    fetch: Annotated[str | None, typer.Option(help="Fetch this published graph into the cache first.")] = None,
    sha256: Annotated[
        str | None, typer.Option(help="SHA-256 of the file to be fetched; known for cora, amazon-photo, coauthor-cs.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the data sets that can be used by name."""
    from l2g2g.graphs.datasets import list_datasets
    from l2g2g.graphs.public_files import fetch_dataset
    from l2g2g.reports.tables import render_datasets

    if fetch is None and sha256 is not None:
        raise InputError("--sha256 SUM is the sum of a file that --fetch NAME fetches; add --fetch, or leave it out")
    if fetch is not None:
        say(f"{fetch}: {fetch_dataset(fetch, sha256)}")
    found = list_datasets(data_dir)
    if as_json:
        from dataclasses import asdict

        for item in found:
            typer.echo(json.dumps(asdict(item)))
    else:
        Console().print(render_datasets(found))
