"""Data, tasks, training, published experiments and the command line."""

from eigenrnn.experiments import extras as extras  # checks the extra on first import
