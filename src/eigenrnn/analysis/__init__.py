"""What the dynamics of a recurrent network are like, in pure functions of a matrix or a layer."""

from eigenrnn.analysis.fisher_memory import FisherMemory, fisher_memory

__all__ = ["FisherMemory", "fisher_memory"]
