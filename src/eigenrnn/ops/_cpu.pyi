"""The compiled kernels of csrc/."""

from collections.abc import Sequence

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
