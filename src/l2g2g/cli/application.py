"""Command line: parse, call the library, print. Results on stdout, progress and messages on stderr."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from l2g2g.cli.align import align, party
from l2g2g.cli.analyse import classify, cluster
from l2g2g.cli.embed import embed
from l2g2g.cli.evaluate import evaluate
from l2g2g.cli.help import App
from l2g2g.cli.messages import say
from l2g2g.cli.neighbours import neighbours, predict
from l2g2g.cli.plan import plan
from l2g2g.cli.prepare import datasets, prepare
from l2g2g.cli.ranks import is_later_rank
from l2g2g.cli.report import explore, report
from l2g2g.cli.split import split
from l2g2g.errors import Interrupted, L2G2GError, NumericalError, ResourceError, find_interruption

app = App(
    name="l2g2g",
    help="Compute one vector per node for a graph of any size, and measure how good the vectors are.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(party, name="party")


@app.callback(invoke_without_command=True)
def common(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and the environment.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Compute one vector per node for a graph of any size, and measure how good the vectors are."""
    if version:
        from l2g2g.runs.environment import describe_environment

        typer.echo(describe_environment())
        raise typer.Exit()
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.command()(embed)
app.command()(evaluate)
app.command()(align)
app.command()(plan)
app.command()(report)
app.command()(explore)
app.command()(neighbours)
app.command()(cluster)
app.command()(classify)
app.command()(predict)
app.command()(prepare)
app.command()(split)
app.command()(datasets)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with the documented exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"]
    silent = bool({"--quiet", "-q", "--json"} & set(arguments))
    quiet = bool({"--quiet", "-q"} & set(arguments))
    try:
        with warnings.catch_warnings(), _interrupt_on_sigterm(), _showing_log(silent=silent or is_later_rank()):
            # A warning is a message for the user like any other, not a line of our source. That a checkpoint
            # could not be used must also reach those who read JSON.
            warnings.showwarning = lambda message, kind, *_, **__: (
                None if quiet or (silent and kind.__name__ != "CheckpointWarning") else say(f"l2g2g: {message}")
            )
            code = app(arguments, prog_name="l2g2g", standalone_mode=False, obj=arguments)
        if code == 130:  # typer turns the interrupt into this code, without a word
            _fail(None, "interrupted", 130, debug)
        sys.exit(code if isinstance(code, int) else 0)
    except L2G2GError as error:
        _fail(error, str(error), error.exit_code, debug)
    except Interrupted as error:  # the first rank reports a job that torchrun ends
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


# What typer's parser says, and what people type for options of another name.
_PLAIN_WORDS = {
    "Input should be a valid integer, unable to parse string as an integer": "it must be a whole number",
    "Input should be a valid number, unable to parse string as a number": "it must be a number",
}
_MEANT = {"--labels": "--features FILE --label-column NAME"}


class _LogLines(logging.Handler):
    """Shows every record of the log as a line on stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


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
def _interrupt_on_sigterm() -> Iterator[None]:
    """Turn SIGTERM into an exception, so that nothing stays half written."""

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
    for said, meant in _PLAIN_WORDS.items():
        message = message.replace(said, meant)
    near = getattr(error, "possibilities", None)
    if getattr(error, "option_name", None) in _MEANT:
        message = f"{error.message.rstrip('.')}; use {_MEANT[error.option_name]}"
    elif near:
        message = f"{error.message.rstrip('.')}; did you mean {near[0]}?"
    context = getattr(error, "ctx", None)
    return message if context is None else f"{message} (options: {context.command_path} --help)"


def _fail(error: BaseException | None, message: str, code: int, debug: bool) -> None:
    if debug and error is not None:
        raise error
    if message:  # without arguments the help has been printed and there is nothing to add
        print(f"l2g2g: {message}", file=sys.stderr)
    sys.exit(code)
