"""Readers of data files, with their checksums and download addresses."""

from eigenrnn_experiments.data.files import DATA_VARIABLE, DataFile, locate

__all__ = ["DATA_VARIABLE", "DataFile", "locate"]
