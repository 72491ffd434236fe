"""The command `controlshap`, whose errors are one line each."""

from __future__ import annotations

import sys


def main() -> None:
    """Run a command and leave with its exit code.

    The codes are 0 for success, 1 for an error, 2 for wrong usage, 3 if some parts failed, 130 if the run was
    interrupted and 143 if it was terminated.
    """
    try:
        import click

        from controlshap.cli.commands import commands
    except KeyboardInterrupt:  # importing takes a second or two
        sys.stderr.write("controlshap: interrupted\n")
        sys.exit(130)
    except ImportError:
        sys.exit("controlshap: the command line needs click and tqdm: pip install 'controlshap[cli]'")
    try:
        code = commands.main(prog_name="controlshap", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:  # the help itself, and no error line
        sys.stderr.write(f"{error.format_message()}\n")
        code = error.exit_code
    except click.ClickException as error:
        way_out = f" (see {error.ctx.command_path} --help)" if isinstance(error, click.UsageError) and error.ctx else ""
        sys.stderr.write(f"controlshap: {error.format_message()}{way_out}\n")
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):  # before a command began
        sys.stderr.write("controlshap: interrupted\n")
        code = 130
    except BrokenPipeError:
        sys.stderr.close()  # the reader of the output is gone, and Python would complain about it again
        code = 1
    except OSError as error:  # of stdout
        sys.stderr.write(f"controlshap: the output could not be written: {error.strerror}\n")
        sys.stderr.close()
        code = 1
    sys.exit(code)


if __name__ == "__main__":
    main()
