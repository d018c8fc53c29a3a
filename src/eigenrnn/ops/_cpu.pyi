"""The compiled recurrences of csrc/."""

from collections.abc import Sequence

_Pointer = tuple[int, int, int]  # address, stride of the first axis, of the second; in elements

isa: str
isas: list[str]
vector_bytes: int

def prefer_large_pages(data: int, bytes: int) -> None: ...
def evaluate(  # of float32 or, if twice, float64 numbers: tanh, logistic or elu
    name: str, twice: bool, source: int, target: int, count: int
) -> None: ...
def elman_forward(
    twice: bool,
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
    twice: bool,
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
    twice: bool,
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
    twice: bool,
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
