"""Readers of real files, each with its checksum and its download addresses."""

from eigenrnn.data.files import DATA_VARIABLE, DataFile, locate

__all__ = ["DATA_VARIABLE", "DataFile", "locate"]
