"""`python -m controlshap`: the command line."""

from controlshap.cli import main

if __name__ == "__main__":
    main()
