"""Recurrences as functions of an input and a matrix."""

from eigenrnn.ops.delta import delta
from eigenrnn.ops.dispatch import Backend, explain, use_backend
from eigenrnn.ops.elman import elman
from eigenrnn.ops.entry import BACKENDS
from eigenrnn.ops.gru import gru
from eigenrnn.ops.linear import linear
from eigenrnn.ops.lstm import lstm
from eigenrnn.ops.precision import products_now

__all__ = [  # noqa: RUF022, in the order of the reference
    "elman",
    "gru",
    "lstm",
    "linear",
    "delta",
    "explain",
    "products_now",
    "use_backend",
    "Backend",
    "BACKENDS",
]
