"""Lets ``python -m eigenrnn.cli`` do what ``eigenrnn`` does."""

from eigenrnn.cli.main import main

raise SystemExit(main())
