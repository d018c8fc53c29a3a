"""The backends of all recurrences."""

from collections.abc import Mapping

from eigenrnn.ops.delta import BACKENDS as DELTA
from eigenrnn.ops.dispatch import Backend
from eigenrnn.ops.elman import BACKENDS as ELMAN
from eigenrnn.ops.gru import BACKENDS as GRU
from eigenrnn.ops.linear import BACKENDS as LINEAR
from eigenrnn.ops.lstm import BACKENDS as LSTM

__all__ = ["BACKENDS"]

BACKENDS: Mapping[str, Mapping[str, Backend]] = {
    "delta": DELTA,
    "elman": ELMAN,
    "gru": GRU,
    "linear": LINEAR,
    "lstm": LSTM,
}
"""The backends of each recurrence, by their names."""
