"""Command line: parse, call the library, print. Results on stdout, progress and messages on stderr."""

from __future__ import annotations

import json
import logging
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from l2g2g.cli.align import align, party
from l2g2g.cli.common_options import (
    CheckpointOption,
    DataDirOption,
    FeaturesOption,
    GraphArgument,
    JsonOption,
    MethodOption,
    MethodsOption,
    OptionalGraphArgument,
    OutputOption,
    PresetOption,
    QuietOption,
    ResumeOption,
    RunDirOption,
    SeedOption,
    TensorboardOption,
)
from l2g2g.cli.completion import complete_words
from l2g2g.cli.help import App, panel_name
from l2g2g.cli.model import (
    ModelOption,
    NewGraphOption,
    WarmStartOption,
    check_one_of,
    embed_with_model,
    read_finished,
)
from l2g2g.cli.neighbours import neighbours, predict
from l2g2g.cli.plan import look_ahead, plan
from l2g2g.cli.prepare import prepare
from l2g2g.cli.profile import note_run, takes_profile
from l2g2g.cli.ranks import is_first, is_later_rank, open_run_of, takes_ranks
from l2g2g.cli.report import explore, report
from l2g2g.cli.split import EmbeddingOption, SplitOption, check_choices, read_pinned, score_embedding, split
from l2g2g.cli.tracking import check_tracking, watch_training
from l2g2g.cli.training_options import takes_settings
from l2g2g.errors import InputError, Interrupted, L2G2GError, NumericalError, ResourceError, find_interruption

if TYPE_CHECKING:
    from l2g2g.config import Config
    from l2g2g.graphs.graph_store import GraphStore

app = App(
    name="l2g2g",
    help="One vector per node for graphs of any size: patches, graph autoencoders, and their synchronisation.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
screen = Console(stderr=True)
_PARTS = ("epoch_median", "synchronise", "checkpoint")  # seconds of training, counted in it already
app.add_typer(party, name="party")


@app.callback(invoke_without_command=True)
def common(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and the environment.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """One vector per node for graphs of any size: patches, graph autoencoders, and their synchronisation."""
    if version:
        from l2g2g.runs.environment import describe_environment

        typer.echo(describe_environment())
        raise typer.Exit()
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
@takes_ranks
@takes_profile
@takes_settings
def embed(
    context: typer.Context,
    graph: GraphArgument,
    output: OutputOption,
    features: FeaturesOption = None,
    method: MethodOption = None,
    preset: PresetOption = None,
    model: ModelOption = None,
    new_graph: NewGraphOption = False,
    warm_start: WarmStartOption = None,
    data_dir: DataDirOption = None,
    validation: Annotated[
        bool,
        typer.Option(
            "--validation/--no-validation",
            help="Keep 5 % of the edges for validation, which ends training early.",
            rich_help_panel=panel_name("training"),
        ),
    ] = True,
    seed: SeedOption = None,
    run_dir: RunDirOption = None,
    resume: ResumeOption = False,
    checkpoint_every: CheckpointOption = None,
    tensorboard: TensorboardOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    communicator: Any = None,
    **options: Any,
) -> None:
    """Embed a graph: read, cut, train, align, write one vector per node."""
    from l2g2g.graphs.write import check_output, write_embedding

    first = is_first(communicator)
    if first:
        check_output(output)
        check_tracking(tensorboard)
    check_one_of(model, warm_start, new_graph)
    chosen = {"method": method, "preset": preset, "seed": seed}
    given = {**{name: value for name, value in chosen.items() if value is not None}, **options}
    if model is not None:
        if not first:  # reading a model and a graph once is no work to share
            return
        unused = {
            "run-dir": run_dir,
            "resume": resume,
            "checkpoint-every": checkpoint_every,
            "tensorboard": tensorboard,
        }
        given |= {name: value for name, value in unused.items() if value not in (None, False)}
        given |= {} if validation else {"no-validation": True}
        where = (model, graph, features, data_dir, output)
        note_run(embed_with_model(*where, new_graph=new_graph, given=given, as_json=as_json, quiet=quiet))
        return
    from l2g2g.graphs.stored_ids import node_ids_of
    from l2g2g.runs.embed import embed_graph
    from l2g2g.runs.finished import keep_run
    from l2g2g.runs.resources import peak_memory
    from l2g2g.runs.sources import open_source
    from l2g2g.runs.stopwatch import Stopwatch

    clock, before, movement = Stopwatch(), None, None
    if warm_start is None:
        config = _config(**{"method": "l2g2g", "preset": "default", "seed": 0, **given}, communicator=communicator)
    elif communicator.size > 1:
        raise InputError("--warm-start goes on with all patches in one process; leave torchrun out")
    else:
        before, config = read_finished(warm_start, given)
    with (
        open_run_of(communicator, run_dir, resume=resume, interval=checkpoint_every) as directory,
        ExitStack() as stack,
    ):
        with clock.measure("read"):
            source = open_source(
                graph, features, config, data_dir=data_dir, directory=directory, communicator=communicator
            )
            loaded = stack.enter_context(source)
            _describe(loaded, quiet or as_json)
        if first:
            check_output(output, node_ids_of(loaded))
            _look_ahead(loaded, config, quiet or as_json)
        length, silent = config.num_epochs(loaded.num_edges), quiet or as_json
        with watch_training(
            length, config.method, silent=silent, tensorboard=tensorboard if first else None
        ) as on_epoch:
            fraction = 0.05 if validation else 0.0
            how: dict[str, Any] = {"validation_fraction": fraction, "on_epoch": on_epoch, "directory": directory}
            if before is None:
                run = embed_graph(loaded, config, keep=run_dir is not None, communicator=communicator, **how)
            else:
                from l2g2g.runs.record import read_ids, read_training_history, read_vectors
                from l2g2g.runs.saved_model import read_fitted
                from l2g2g.runs.storage import place_graph
                from l2g2g.runs.warm_start import continue_training

                placed = place_graph(loaded, config, communicator)
                if not placed.resident:
                    raise InputError("--warm-start needs the graph in memory; raise --memory, or leave it out")
                finished = (read_fitted(before), read_vectors(before), read_ids(before))
                best_epoch = read_training_history(before).best_epoch
                how |= {"best_epoch": best_epoch, "small_steps": "lr" not in given}
                run, movement = continue_training(*finished, placed.to_graph(), config, **how)
        if not first:
            return
        with clock.measure("write"):
            write_embedding(output, run.embedding, node_ids_of(loaded))
        seconds = {**clock.seconds, **run.seconds}
        seconds["total"] = sum(value for stage, value in seconds.items() if stage not in _PARTS)
        row = {
            **run.describe(),
            "num_nodes": loaded.num_nodes,
            "num_edges": loaded.num_edges,
            "seconds": seconds,
            "peak_memory_bytes": peak_memory(),
            "output": str(output),
            **({} if movement is None else {"warm_start": str(warm_start), **movement.describe()}),
        }
        keep_run(directory, "embed", loaded, run, row, arguments=context.obj)
    note_run(row)
    if as_json:
        typer.echo(json.dumps(row))
    elif not quiet:
        typer.echo(
            f"{output}: {loaded.num_nodes:,} vectors of {config.dim} numbers, {config.method}, "
            f"{run.trained.history.num_epochs} epochs, {seconds['total']:.1f} s"
        )
        if movement is not None:
            typer.echo(movement.summary())


@app.command()
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
            help="heldout, or paper (the authors' evaluation).",
            rich_help_panel=panel_name("training"),
            autocompletion=complete_words(("heldout", "paper")),
        ),
    ] = "heldout",
    measures: Annotated[
        str,
        typer.Option(
            help="auc (and AP), or all: also MRR and Hits@k against degree-matched and against hard negatives and, "
            "with labels, a linear probe.",
            rich_help_panel=panel_name("output"),
            autocompletion=complete_words(("auc", "all")),
        ),
    ] = "auc",
    scorer: Annotated[
        str,
        typer.Option(
            help="Score of a pair: vectors, combined (with pair features, weighted on validation pairs), or auto: "
            "what validation pairs prefer.",
            rich_help_panel=panel_name("output"),
            autocompletion=complete_words(("vectors", "combined", "auto")),
        ),
    ] = "vectors",
    preset: PresetOption = None,
    seeds: Annotated[
        int | None, typer.Option(help="Run the seeds 0 … N-1.", rich_help_panel=panel_name("training"))
    ] = None,
    seed: SeedOption = None,
    split: SplitOption = None,
    embedding: EmbeddingOption = None,
    data_dir: DataDirOption = None,
    run_dir: RunDirOption = None,
    resume: ResumeOption = False,
    checkpoint_every: CheckpointOption = None,
    tensorboard: TensorboardOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    communicator: Any = None,
    **options: Any,
) -> None:
    """Split, train and score one or several methods on held-out links.

    With --split DIR --embedding FILE and without GRAPH, score vectors that were made elsewhere.
    """
    training = {
        "features": features,
        "method": method,
        "preset": preset,
        "seeds": seeds,
        "seed": seed,
        "data_dir": data_dir,
        "run_dir": run_dir,
        "resume": resume or None,
        "checkpoint_every": checkpoint_every,
        "tensorboard": tensorboard,
        "measures": None if measures == "auc" else measures,
        "scorer": None if scorer == "vectors" else scorer,
        **options,
    }
    given = {name: value for name, value in training.items() if value is not None}
    check_choices(graph, split, embedding, protocol, given)
    if split is not None and embedding is not None:
        if is_first(communicator):  # scoring finished vectors is no work to share
            note_run(score_embedding(split, embedding, as_json=as_json))
        return
    assert graph is not None
    check_tracking(tensorboard)
    from l2g2g.evaluation.baselines import BASELINES

    methods = method or ["l2g2g"]
    _check_methods(methods, BASELINES)
    # A baseline takes from the settings its dimension and its seed.
    configs = [
        (
            name,
            _config(
                "l2g2g" if name in BASELINES else name,
                preset or "default",
                seed=number,
                communicator=communicator,
                **options,
            ),
        )
        for number in _seeds(seeds, seed)
        for name in methods
    ]
    trained = [config for name, config in configs if name not in BASELINES]
    if protocol not in ("heldout", "paper"):
        raise InputError(f"unknown protocol '{protocol}'; choose heldout or paper")
    if measures not in ("auc", "all"):
        raise InputError(f"unknown measures '{measures}'; choose auc or all")
    from l2g2g.reports.tables import render_directions, render_hard_ranks, render_measures, render_scores
    from l2g2g.runs.baselines import evaluate_baseline
    from l2g2g.runs.evaluate import evaluate_graph, training_name
    from l2g2g.runs.finished import keep_run
    from l2g2g.runs.scoring import SCORERS
    from l2g2g.runs.sources import open_source

    if scorer not in SCORERS:
        raise InputError(f"unknown scorer '{scorer}'; choose from {', '.join(SCORERS)}")
    rows = []
    with (
        open_run_of(communicator, run_dir, resume=resume, interval=checkpoint_every) as directory,
        ExitStack() as stack,
    ):
        if directory is not None:
            directory.expect(training_name(config) for config in trained)
        source = open_source(
            graph, features, configs[0][1], data_dir=data_dir, directory=directory, communicator=communicator
        )
        loaded = stack.enter_context(source)
        _describe(loaded, quiet or as_json)
        pinned = read_pinned(split, loaded, configs[0][1])
        choices: dict[str, Any] = {"protocol": protocol, "measures": measures, "pinned": pinned}
        for name, config in configs:
            if name in BASELINES:
                if is_first(communicator):  # nothing is trained, so there is nothing to share or to keep
                    rows.append(_told(evaluate_baseline(loaded, name, config, **choices), as_json))
                continue
            if is_first(communicator):
                _look_ahead(loaded, config, quiet or as_json)
            length, label = config.num_epochs(loaded.num_edges), f"{config.method} seed {config.seed}"
            curves = None if tensorboard is None or not is_first(communicator) else tensorboard / training_name(config)
            with watch_training(length, label, silent=quiet or as_json, tensorboard=curves) as on_epoch:
                how: dict[str, Any] = {"directory": directory, "communicator": communicator, "scorer": scorer}
                row, run = evaluate_graph(loaded, config, **choices, **how, on_epoch=on_epoch)
            if not is_first(communicator):
                continue
            keep_run(directory, training_name(config), loaded, run, row, arguments=context.obj)
            rows.append(_told(row, as_json))
    if not as_json and rows:
        Console().print(render_scores(rows))
        if "directed" in options:
            Console().print(render_directions(rows))
        if measures == "all":
            Console().print(render_measures(rows))
            Console().print(render_hard_ranks(rows))


app.command()(align)
app.command()(plan)
app.command()(report)
app.command()(explore)
app.command()(neighbours)
app.command()(predict)
app.command()(prepare)
app.command()(split)


@app.command()
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
        _say(f"{fetch}: {fetch_dataset(fetch, sha256)}")
    found = list_datasets(data_dir)
    if as_json:
        from dataclasses import asdict

        for item in found:
            typer.echo(json.dumps(asdict(item)))
    else:
        Console().print(render_datasets(found))


def _config(method: str, preset: str, *, communicator: Any = None, **options: Any) -> Any:
    from l2g2g.config import make_config

    if communicator.size > 1 and options.get("device") == "cuda":
        options["device"] = f"cuda:{communicator.local_rank}"
    return make_config(method, preset, **options)


def _check_methods(methods: list[str], baselines: tuple[str, ...]) -> None:
    """Refuse a name that is neither a method nor a baseline."""
    from l2g2g.config import suggest
    from l2g2g.methods import METHODS

    known = [*METHODS, *baselines]
    for name in methods:
        if name not in known:
            raise InputError(f"unknown method '{name}'; {suggest(name, known)}")


def _told(row: dict[str, Any], as_json: bool) -> dict[str, Any]:
    """The JSON line of an evaluation, noted for a profile and printed where JSON is wanted."""
    note_run(row)
    if as_json:
        typer.echo(json.dumps(row))
    return row


def _seeds(seeds: int | None, seed: int | None) -> list[int]:
    if seeds is not None and seed is not None:
        raise InputError("give --seeds N for the seeds 0 … N-1, or --seed S for one, not both")
    if seeds is not None and seeds < 1:
        raise InputError(f"--seeds is {seeds}; at least 1 is needed")
    return [seed or 0] if seeds is None else list(range(seeds))


def _describe(loaded: GraphStore, silent: bool) -> None:
    """Say what was read."""
    if not silent:
        cleaned = loaded.cleaning.describe()
        _say(
            f"{loaded.name}: {loaded.num_nodes:,} nodes, {loaded.num_edges:,} edges, "
            f"{loaded.num_features:,} features" + (f" ({cleaned})" if cleaned else "")
        )


def _look_ahead(loaded: GraphStore, config: Config, silent: bool) -> None:
    """Say what a long run will take before it starts."""
    expected = None if silent else look_ahead(loaded, config)
    if expected is not None:
        _say(expected)


def _say(text: str) -> None:
    """One line on stderr as it is: names may hold brackets, and long lines are cut by nobody."""
    screen.print(text, markup=False, highlight=False, soft_wrap=True)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with the documented exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    silent = bool({"--quiet", "-q", "--json"} & set(arguments))
    quiet = bool({"--quiet", "-q"} & set(arguments))
    try:
        with warnings.catch_warnings(), _ending_politely(), _showing_log(silent=silent or is_later_rank()):
            # A warning is a message for the user like any other, not a line of our source. That a checkpoint
            # could not be used must also reach those who read JSON.
            warnings.showwarning = lambda message, kind, *_, **__: (
                None if quiet or (silent and kind.__name__ != "CheckpointWarning") else _say(f"l2g2g: {message}")
            )
            code = app(arguments, prog_name="l2g2g", standalone_mode=False, obj=arguments)
        if code == 130:  # typer turns the interrupt into this code, without a word
            _fail(None, "interrupted", 130, debug)
        sys.exit(code if isinstance(code, int) else 0)
    except L2G2GError as error:
        _fail(error, str(error), error.exit_code, debug)
    except Interrupted as error:  # a job that torchrun ends is told of by its first rank
        _fail(error, "" if is_later_rank() else str(error), error.exit_code, debug)
    except typer.Abort:
        _fail(None, "interrupted", 130, debug)
    except KeyboardInterrupt:
        _fail(None, "interrupted", 130, debug)
    except MemoryError as error:
        _fail(error, "not enough memory; use more patches or a smaller graph", ResourceError.exit_code, debug)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        reason = "no permission" if isinstance(error, PermissionError) else error.strerror or type(error).__name__
        _fail(error, f"{place}{reason}", ResourceError.exit_code, debug)
    except Exception as error:
        interruption = find_interruption(error)
        if interruption is not None:
            _fail(error, "interrupted", getattr(interruption, "exit_code", 130), debug)
        if type(error).__name__.endswith("LinAlgError"):  # of torch or of NumPy, neither of which is imported here
            reason = str(error).splitlines()[0]
            _fail(
                error,
                f"a matrix could not be factorised ({reason}); check the features",
                NumericalError.exit_code,
                debug,
            )
        if not hasattr(error, "format_message"):
            raise
        if not error.format_message():  # a group without a command has shown its help
            sys.exit(2)
        _fail(error, _usage(error), 2, debug)


class _LogLines(logging.Handler):
    """Shows every record of the log as a line on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        _say(record.getMessage())


@contextmanager
def _showing_log(*, silent: bool) -> Iterator[None]:
    """Show what the library logs, such as how it read a file; from Python it stays silent unless logging is set up."""
    if silent:
        yield
        return
    log, lines = logging.getLogger("l2g2g"), _LogLines()
    level = log.level
    log.setLevel(logging.INFO)
    log.addHandler(lines)
    try:
        yield
    finally:
        log.removeHandler(lines)
        log.setLevel(level)


@contextmanager
def _ending_politely() -> Iterator[None]:
    """Leave by an exception when asked to end, so that nothing stays half written."""

    def end(number: int, _: Any) -> None:
        raise Interrupted(number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _usage(error: Any) -> str:
    """What typer's parser could not make sense of, what may be meant, and where it is written down."""
    message = error.format_message().rstrip(".")
    near = getattr(error, "possibilities", None)
    if near:
        message = f"{error.message.rstrip('.')}; did you mean {near[0]}?"
    context = getattr(error, "ctx", None)
    return message if context is None else f"{message} (options: {context.command_path} --help)"


def _fail(error: BaseException | None, message: str, code: int, debug: bool) -> None:
    if debug and error is not None:
        raise error
    if message:  # without arguments the help has been printed and there is nothing to add
        print(f"l2g2g: {message}", file=sys.stderr)
    sys.exit(code)
