"""The command `controlshap`: what goes wrong is told in one line."""

from __future__ import annotations

import sys

from controlshap._errors import ControlShapError


def main() -> None:
    """Run a command and leave with its exit code: 0 for done, 1 for something wrong, 2 for a wrong use."""
    try:
        import click

        from controlshap.commands import commands
    except ImportError:
        sys.exit("controlshap: the command line needs click and tqdm: pip install 'controlshap[cli]'")
    try:
        code = commands.main(prog_name="controlshap", standalone_mode=False)
    except click.ClickException as wrong:
        sys.stderr.write(f"controlshap: {wrong.format_message()}\n")
        code = wrong.exit_code
    except (click.Abort, KeyboardInterrupt):
        sys.stderr.write("controlshap: interrupted; what was finished is kept, and the same command goes on from it\n")
        code = 130
    except ControlShapError as wrong:
        sys.stderr.write(f"controlshap: {wrong}\n")
        code = 1
    sys.exit(code)


if __name__ == "__main__":
    main()
