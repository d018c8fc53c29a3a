"""Networks in plain C."""

from eigenrnn.export.c.file import to_c

__all__ = ["to_c"]
