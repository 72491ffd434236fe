"""The command `controlshap`: what goes wrong is told in one line."""

from __future__ import annotations

import sys


def main() -> None:
    """Run a command and leave with its exit code.

    0 for done, 1 for something wrong, 2 for a wrong use, 3 for finished with failed parts, 130 for interrupted,
    143 for terminated.
    """
    try:
        import click

        from controlshap.cli.commands import commands
    except ImportError:
        sys.exit("controlshap: the command line needs click and tqdm: pip install 'controlshap[cli]'")
    try:
        code = commands.main(prog_name="controlshap", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as wrong:
        way_out = f" (see {wrong.ctx.command_path} --help)" if isinstance(wrong, click.UsageError) and wrong.ctx else ""
        sys.stderr.write(f"controlshap: {wrong.format_message()}{way_out}\n")
        code = wrong.exit_code
    except (click.Abort, KeyboardInterrupt):  # before a command began
        sys.stderr.write("controlshap: interrupted\n")
        code = 130
    except BrokenPipeError:
        sys.stderr.close()  # whoever read our output has gone; Python would complain about it once more
        code = 1
    except OSError as wrong:  # of stdout
        sys.stderr.write(f"controlshap: the output could not be written: {wrong.strerror}\n")
        sys.stderr.close()
        code = 1
    sys.exit(code)


if __name__ == "__main__":
    main()
