"""`python -m controlshap`: the command line."""

from controlshap.cli import main

main()
