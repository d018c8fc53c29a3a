"""The compiled kernels of csrc/."""

from collections.abc import Sequence
from typing import Any

_Pointer = tuple[int, int, int]  # address, stride of the first axis, of the second; in elements

isa: str
isas: list[str]
vector_bytes: int

def prefer_large_pages(data: int, bytes: int) -> None: ...
def evaluate(  # tanh, logistic or elu
    name: str, number: str, source: int, target: int, count: int
) -> None: ...
def elman_forward(
    number: str,  # float32 or float64
    threads: int,
    shape: tuple[int, int, int, int],
    outputs: tuple[int, int],
    sizes: Sequence[int] | None,
    reverse: bool,
    activation: int,
    slope: float,
    rate: float,
    views: Sequence[_Pointer],
) -> None: ...
def elman_backward(
    number: str,  # float32 or float64
    threads: int,
    shape: tuple[int, int, int, int],
    outputs: tuple[int, int],
    sizes: Sequence[int] | None,
    reverse: bool,
    activation: int,
    slope: float,
    rate: float,
    views: Sequence[_Pointer],
    gradients: Sequence[_Pointer],
) -> None: ...
def gru_forward(
    number: str,  # float32 or float64
    threads: int,
    shape: tuple[int, int, int, int],
    sizes: Sequence[int] | None,
    reverse: bool,
    activation: int,
    slope: float,
    reset_after: bool,
    update_keeps: bool,
    rate: float,
    views: Sequence[_Pointer],
) -> None: ...
def gru_backward(
    number: str,  # float32 or float64
    threads: int,
    shape: tuple[int, int, int, int],
    sizes: Sequence[int] | None,
    reverse: bool,
    activation: int,
    slope: float,
    reset_after: bool,
    update_keeps: bool,
    rate: float,
    views: Sequence[_Pointer],
    gradients: Sequence[_Pointer],
) -> None: ...
def lstm_forward(
    number: str,  # float32 or float64
    threads: int,
    shape: tuple[int, int, int, int],
    sizes: Sequence[int] | None,
    reverse: bool,
    views: Sequence[_Pointer],
) -> None: ...
def lstm_backward(
    number: str,  # float32 or float64
    threads: int,
    shape: tuple[int, int, int, int],
    sizes: Sequence[int] | None,
    reverse: bool,
    views: Sequence[_Pointer],
    gradients: Sequence[_Pointer],
) -> None: ...

class Stepper: ...

def elman_stepper(
    number: str,
    shape: tuple[int, int, int, int],
    activation: int,
    slope: float,
    views: Sequence[_Pointer],  # U, c, W, bias
) -> Stepper: ...
def gru_stepper(
    number: str,
    shape: tuple[int, int, int, int],
    activation: int,
    slope: float,
    reset_after: bool,
    update_keeps: bool,
    views: Sequence[_Pointer],  # U, c, W, bias, recurrent bias
) -> Stepper: ...
def lstm_stepper(
    number: str,
    shape: tuple[int, int, int, int],
    views: Sequence[_Pointer],  # U, c, W
) -> Stepper: ...
def linear_stepper(
    number: str,
    inputs: int,
    outputs: int,
    views: Sequence[_Pointer],  # V, d
) -> Stepper: ...

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

def linear_forward(
    number: str,  # float32 or float64
    threads: int,
    shape: tuple[int, int, int],
    sizes: Sequence[int] | None,
    reverse: bool,
    paired: bool,
    gated: bool,
    views: Sequence[_Pointer],
) -> None: ...
def linear_backward(
    number: str,  # float32 or float64
    threads: int,
    shape: tuple[int, int, int],
    sizes: Sequence[int] | None,
    reverse: bool,
    paired: bool,
    gated: bool,
    views: Sequence[_Pointer],
    gradients: Sequence[_Pointer],
) -> None: ...
