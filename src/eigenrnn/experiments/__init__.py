"""The laboratory: data, tasks, training, published experiments and the command line."""

from eigenrnn.experiments import extras as extras  # the first import checks what is installed
