"""Files of a trained layer or model for programs without eigenrnn."""

from eigenrnn.export.c import to_c
from eigenrnn.export.programs import check_export, export_model
from eigenrnn.export.rounding import RoundedMatrix, nearest, round_recurrent, rounded

__all__ = [
    "RoundedMatrix",
    "check_export",
    "export_model",
    "nearest",
    "round_recurrent",
    "rounded",
    "to_c",
]
