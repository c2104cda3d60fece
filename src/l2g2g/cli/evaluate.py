"""Command line of evaluations: `l2g2g evaluate`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from l2g2g.cli.common_options import (
    FeaturesOption,
    JsonOption,
    MethodsOption,
    OptionalGraphArgument,
    PresetOption,
    QuietOption,
    SeedOption,
    takes_settings,
    takes_tables,
)
from l2g2g.cli.help import complete_words, panel_name
from l2g2g.cli.messages import say_plan
from l2g2g.cli.profile import note_run, takes_profile
from l2g2g.cli.ranks import make_rank_config, takes_ranks
from l2g2g.cli.run_flags import check_tracking, takes_run, watch_training
from l2g2g.cli.split import EmbeddingOption, SplitOption, check_choices, read_pinned, score_embedding
from l2g2g.errors import InputError
from l2g2g.lazy import without_collection
from l2g2g.options import check_choice

if TYPE_CHECKING:
    from l2g2g.cli.run_flags import RunFlags
    from l2g2g.config import Config
    from l2g2g.graphs.graph_store import GraphStore


@takes_tables
@takes_run
@takes_ranks
@takes_profile
@takes_settings
def evaluate(
    context: typer.Context,
    graph: OptionalGraphArgument = None,
    features: FeaturesOption = None,
    method: MethodsOption = None,
    protocol: Annotated[
        str,
        typer.Option(
            help="How edges are held out and scored: heldout, or paper (the authors' evaluation).",
            rich_help_panel=panel_name("training"),
            autocompletion=complete_words(("heldout", "paper")),
        ),
    ] = "heldout",
    measures: Annotated[
        str,
        typer.Option(
            help="auc (with AP), or all: also MRR and Hits@k among degree-matched and among hard negatives, and with "
            "labels the accuracy of a linear classifier.",
            rich_help_panel=panel_name("output"),
            autocompletion=complete_words(("auc", "all")),
        ),
    ] = "auc",
    scorer: Annotated[
        str,
        typer.Option(
            help="How pairs are scored: vectors, combined (vectors and common neighbours, weighted by the validation "
            "pairs), or auto: whichever is better on the validation pairs.",
            rich_help_panel=panel_name("output"),
            autocompletion=complete_words(("vectors", "combined", "auto")),
        ),
    ] = "vectors",
    preset: PresetOption = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            help="Repeat with the seeds 0 to N-1 and report the mean.", rich_help_panel=panel_name("training")
        ),
    ] = None,
    seed: SeedOption = None,
    split: SplitOption = None,
    embedding: EmbeddingOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    communicator: Any = None,
    tables: Any = None,
    run: Any = None,
    **options: Any,
) -> None:
    """Measure how well methods predict held-out links: split the edges, train, score.

    With --split DIR --embedding FILE and without GRAPH, score vectors that were made elsewhere.
    """
    training = {
        "features": features,
        "method": method,
        "preset": preset,
        "seeds": seeds,
        "seed": seed,
        **run.given(),
        "measures": None if measures == "auc" else measures,
        "scorer": None if scorer == "vectors" else scorer,
        **options,
    }
    given = {name: value for name, value in training.items() if value is not None}
    check_choices(graph, split, embedding, protocol, given)
    if split is not None and embedding is not None:
        if communicator.is_first:  # scoring finished vectors is no work to share
            note_run(score_embedding(split, embedding, as_json=as_json))
        return
    assert graph is not None
    check_tracking(run.tensorboard)
    with without_collection():
        from l2g2g.evaluation.links import BASELINES
        from l2g2g.runs.evaluate import evaluate_baseline, training_name
        from l2g2g.runs.resources import Stopwatch

    given = {"preset": preset or "default", "communicator": communicator, **options}
    configs = _make_configs(method or ["l2g2g"], _seeds(seeds, seed), **given)
    trained = [config for name, config in configs if name not in BASELINES]
    _check_words(protocol, measures, scorer)
    rows = []
    silent, where = quiet or as_json, (graph, features, configs[0][1], communicator, tables, Stopwatch())
    trainings = [training_name(config) for config in trained]
    with run.open(*where, trainings=trainings, silent=silent) as (directory, loaded):
        pinned = read_pinned(split, loaded, configs[0][1])
        choices: dict[str, Any] = {"protocol": protocol, "measures": measures, "pinned": pinned}
        more = {"scorer": scorer, "directory": directory, "communicator": communicator}
        for name, config in configs:
            if name not in BASELINES:
                row = _train_and_score(loaded, config, run, context.obj, silent, **choices, **more)
            elif communicator.is_first:  # nothing is trained, so there is nothing to share or to keep
                row = evaluate_baseline(loaded, name, config, **choices)
            if communicator.is_first:
                note_run(row)
                rows.append(row)
                if as_json:
                    typer.echo(json.dumps(row))
    if not as_json and rows:
        _print_tables(rows, directed="directed" in options, measures=measures)


def _train_and_score(
    graph: GraphStore, config: Config, run: RunFlags, arguments: list[str], silent: bool, **choices: Any
) -> dict[str, Any]:
    """Evaluate one method and seed, and keep the run. Returns the JSON line. choices: of `evaluate_graph`."""
    from l2g2g.runs.evaluate import evaluate_graph, training_name
    from l2g2g.runs.finished import keep_run

    name, is_first = training_name(config), choices["communicator"].is_first
    if is_first:
        say_plan(graph, config, silent)
    num_epochs, label = config.num_epochs(graph.num_edges), f"{config.method} seed {config.seed}"
    curves = run.tensorboard / name if run.tensorboard and is_first else None
    with watch_training(num_epochs, label, silent=silent, tensorboard=curves) as on_epoch:
        row, done = evaluate_graph(graph, config, **choices, on_epoch=on_epoch, gather=False)
    if is_first:
        keep_run(choices["directory"], name, graph, done, row, arguments=arguments)
    return row


def _print_tables(rows: list[dict[str, Any]], *, directed: bool, measures: str) -> None:
    from l2g2g.evaluation.links import BASELINES
    from l2g2g.reports.tables import render_directions, render_hard_ranks, render_measures, render_scores, tell_best

    renderers = [render_scores, *([render_directions] if directed else [])]
    renderers += [render_measures, render_hard_ranks] if measures == "all" else []
    for render in renderers:
        Console().print(render(rows))
    if len({row["method"] for row in rows}) > 1:
        typer.echo(tell_best(rows, BASELINES))


def _check_words(protocol: str, measures: str, scorer: str) -> None:
    from l2g2g.runs.scoring import SCORERS

    check_choice("protocol", protocol, ("heldout", "paper"))
    check_choice("measures", measures, ("auc", "all"))
    check_choice("scorer", scorer, SCORERS)


def _make_configs(methods: list[str], seeds: list[int], **options: Any) -> list[tuple[str, Config]]:
    """(name, settings) of every method and seed; a baseline takes from the settings its dimension and its seed."""
    from l2g2g.evaluation.links import BASELINES
    from l2g2g.methods import METHODS

    known = [*METHODS, *BASELINES]
    for name in methods:
        check_choice("method", name, known)
    return [
        (name, make_rank_config("l2g2g" if name in BASELINES else name, seed=seed, **options))
        for seed in seeds
        for name in methods
    ]


def _seeds(seeds: int | None, seed: int | None) -> list[int]:
    if seeds is not None and seed is not None:
        raise InputError("give --seeds N for the seeds 0 … N-1, or --seed S for one, not both")
    if seeds is not None and seeds < 1:
        raise InputError(f"--seeds is {seeds}; at least 1 is needed")
    return [seed or 0] if seeds is None else list(range(seeds))
