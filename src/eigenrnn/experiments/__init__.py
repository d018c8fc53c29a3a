"""The laboratory: data, tasks, training, published experiments and the command line."""
