"""Errors and warnings of the command line: one line on stderr, and an exit code."""

from __future__ import annotations

import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import click

from controlshap._errors import ControlShapError, ControlShapWarning

#: Key of the context under which `--traceback` is kept.
TRACEBACK = "controlshap.traceback"
#: Exit code of a run that finished but for some parts that failed.
EXIT_FAILED_PARTS = 3


class Failure(click.ClickException):
    """An error that is shown to the user in one line."""

    exit_code = 1

    def show(self, file: IO[Any] | None = None) -> None:
        """Write the line."""
        click.echo(f"controlshap: {self.format_message()}", file=file or sys.stderr)


class Interrupted(Failure):
    """Interrupt from the keyboard."""

    exit_code = 130
    what = "interrupted"

    def __init__(self) -> None:
        super().__init__(f"{self.what}; what was finished is kept, and the same command goes on from it")


class Terminated(Interrupted):
    """SIGTERM, with which batch systems end a job."""

    exit_code = 143
    what = "terminated"


class _TerminatedError(KeyboardInterrupt):
    """SIGTERM as an exception that is handled like any interrupt."""


@contextmanager
def terminate_in_order() -> Iterator[None]:
    """Handle SIGTERM like an interrupt."""

    def raise_it(*_: Any) -> None:
        raise _TerminatedError

    if threading.current_thread() is not threading.main_thread():  # which alone may handle signals
        yield
        return
    before = signal.signal(signal.SIGTERM, raise_it)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class OneLineGroup(click.Group):
    """Commands whose errors and warnings are lines, not tracebacks."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, and turn its errors into `Failure`."""
        try:
            with one_line_warnings(), terminate_in_order():
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except KeyboardInterrupt as error:
            raise (Terminated if isinstance(error, _TerminatedError) else Interrupted) from error
        except SystemExit as error:  # of a model: the program would end as if all had gone well
            raise Failure(f"the model ended the program by sys.exit({error.code!r}); it must return values") from error
        except Exception as error:
            if ctx.meta.get(TRACEBACK):
                traceback.print_exc()
            raise Failure(describe_error(error)) from error


def describe_error(error: Exception) -> str:
    """Return an error as one line."""
    text = " ".join(str(error).split())
    if isinstance(error, ControlShapError):
        return text
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    if isinstance(error, MemoryError):
        return "out of memory; give fewer rows, a smaller --max-background or fewer --jobs"
    kind = type(error).__name__
    notes = [note for note in getattr(error, "__notes__", ()) if note.startswith("controlshap: ")]
    if notes:
        where = notes[0].removeprefix("controlshap: the model raised this on ").rstrip(".")
        hint = "; it gets pandas frames, --arrays gives it arrays" if kind == "InvalidIndexError" else ""
        return f"the model failed on {where}: {kind}: {text}{hint} (--traceback shows it all)"
    return f"unexpected {kind}: {text} (--traceback shows it all)"


@contextmanager
def one_line_warnings() -> Iterator[None]:
    """Show warnings as lines on stderr, above a progress bar if there is one."""

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text = " ".join(str(message).split())
        origin = "" if issubclass(category, ControlShapWarning) else f" ({category.__name__})"
        say(f"controlshap: warning{origin}: {text}")

    with warnings.catch_warnings():
        if not sys.warnoptions:
            warnings.simplefilter("default", ControlShapWarning)
        warnings.showwarning = show
        yield


def say(line: str) -> None:
    """Write a line to stderr without breaking a progress bar."""
    tqdm = sys.modules.get("tqdm")
    if tqdm is None:
        sys.stderr.write(line + "\n")
    else:
        tqdm.tqdm.write(line, file=sys.stderr)


def traceback_option(command: Any) -> Any:
    """Add the option `--traceback` to a command."""

    def remember(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            ctx.meta[TRACEBACK] = True

    return click.option(
        "--traceback", is_flag=True, expose_value=False, callback=remember, help="Show all of an unexpected error."
    )(command)
