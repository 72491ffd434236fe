"""`python -m controlshap`: the command line."""

from controlshap.cli.main import main

if __name__ == "__main__":
    main()
