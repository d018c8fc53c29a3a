"""The compiled kernels of csrc/. A number is `float32` or `float64`."""

from collections.abc import Mapping, Sequence
from typing import Any

Arguments = Mapping[str, Any]
"""Members of a struct of csrc/arguments.hpp by name; a tensor is an address and two strides."""

isa: str
isas: list[str]
vector_bytes: int
members: dict[str, list[str]]

def prefer_large_pages(data: int, bytes: int) -> None: ...
def evaluate(name: str, number: str, source: int, target: int, count: int) -> None: ...
def elman_forward(number: str, threads: int, call: Arguments) -> None: ...
def elman_backward(number: str, threads: int, call: Arguments, gradients: Arguments) -> None: ...
def gru_forward(number: str, threads: int, call: Arguments) -> None: ...
def gru_backward(number: str, threads: int, call: Arguments, gradients: Arguments) -> None: ...
def lstm_forward(number: str, threads: int, call: Arguments) -> None: ...
def lstm_backward(number: str, threads: int, call: Arguments, gradients: Arguments) -> None: ...
def linear_forward(number: str, threads: int, call: Arguments) -> None: ...
def linear_backward(number: str, threads: int, call: Arguments, gradients: Arguments) -> None: ...
def delta_forward(number: str, threads: int, call: Arguments) -> None: ...
def delta_backward(number: str, threads: int, call: Arguments, gradients: Arguments) -> None: ...

class Planned:
    requires_grad: bool
    def run(self, results: dict[str, Any], threads: int) -> None: ...
    def run_backward(  # False if a tensor is not as the kernels take it
        self,
        kept: dict[str, Any],
        grads: dict[str, Any],
        gradients: dict[str, Any],
        threads: int,
    ) -> bool: ...

class ElmanPlan:
    def __init__(
        self,
        options: Arguments,
        fields: Sequence[tuple[int, str, Sequence[str], bool]],  # place, name, axes, any strides
        dtypes: tuple[Any, Any],
    ) -> None: ...
    def read(self, operands: tuple[Any, ...]) -> Planned | None: ...

class GruPlan(ElmanPlan): ...
class LstmPlan(ElmanPlan): ...

def delta_step(  # addresses of contiguous tensors; S is replaced
    wide: bool,  # float64
    threads: int,
    B: int,
    H: int,
    R: int,
    K: int,
    V: int,
    q: int,
    k: int,
    v: int,
    beta: int,
    log_decay: int,  # 0: no decay
    S: int,
    o: int,
) -> None: ...

class Stepper:
    state_size: int
    cell_size: int

def elman_stepper(number: str, call: Arguments) -> Stepper: ...
def gru_stepper(number: str, call: Arguments) -> Stepper: ...
def lstm_stepper(number: str, call: Arguments) -> Stepper: ...
def projected_lstm_stepper(number: str, call: Arguments) -> Stepper: ...
def lru_stepper(number: str, call: Arguments) -> Stepper: ...
def min_gru_stepper(number: str, call: Arguments) -> Stepper: ...
def feature_stepper(number: str, call: Arguments) -> Stepper: ...
def block_stepper(number: str, call: Arguments, inner: Stepper) -> Stepper: ...
def head_stepper(number: str, call: Arguments) -> Stepper: ...

class StepperStack:
    def __init__(
        self,
        layers: Sequence[Stepper],
        head: Stepper | None,
        wide: bool,  # float64
        weights: Sequence[tuple[dict[str, Any], str, Any, int]],  # holder, key, tensor, version
        empty: Sequence[dict[Any, Any]],  # hooks, which the step would not call
    ) -> None: ...
    @property
    def products(self) -> int: ...  # multiply-adds of a step of one sequence
    def unchanged(self) -> bool: ...
    def step(  # addresses of contiguous rows; False if a weight changed
        self,
        batch: int,
        x: int,
        stride: int,
        h: int,
        cell: int,
        next: int,
        next_cell: int,
        y: int,
        threads: int,
    ) -> bool: ...
