"""`python -m nighthawk_async`: the command line. Floor 5."""

from .cli import main

if __name__ == "__main__":
    main()
