"""``python -m eigenrnn_experiments`` is the command `eigenrnn`."""

import sys

from eigenrnn_experiments.cli import main

if __name__ == "__main__":
    sys.exit(main())
