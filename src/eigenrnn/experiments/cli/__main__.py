"""Lets ``python -m eigenrnn.experiments.cli`` do what ``eigenrnn`` does."""

from eigenrnn.experiments.cli.main import main

raise SystemExit(main())
