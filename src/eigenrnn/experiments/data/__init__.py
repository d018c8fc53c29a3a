"""Readers of real files, each with its checksum and its download addresses."""

from eigenrnn.experiments.data.files import DATA_VARIABLE, DataFile, locate

__all__ = ["DATA_VARIABLE", "DataFile", "locate"]
