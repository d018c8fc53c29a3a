"""Files of a trained layer or model for programs without eigenrnn."""

from eigenrnn.export.c import to_c
from eigenrnn.export.programs import check_export, export_model

__all__ = ["check_export", "export_model", "to_c"]
