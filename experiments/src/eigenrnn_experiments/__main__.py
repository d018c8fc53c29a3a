"""Entry point of the command `eigenrnn` and of ``python -m eigenrnn``."""

import sys

__all__ = ["main"]


def main() -> int:
    """Run the command line of `eigenrnn.experiments`; return the exit status."""
    try:
        from eigenrnn.experiments.cli import main as run_command
    except ImportError as error:  # the extra `experiments` is not installed
        sys.stderr.write(f"error: {error}\n")
        return 2
    return run_command()


if __name__ == "__main__":
    sys.exit(main())
