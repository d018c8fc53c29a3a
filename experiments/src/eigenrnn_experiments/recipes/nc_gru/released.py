"""NC-GRU as its released code computes it, which differs from the paper."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, cast

import torch
from torch import Tensor

from eigenrnn.constraints import Constraint, NeumannCayley, Unconstrained
from eigenrnn.init import fan_uniform_, glorot_uniform_, kaiming_uniform_, uniform_, zeros_
from eigenrnn.layers import GRU
from eigenrnn_experiments.recipes.setup import Network

__all__ = [
    "AS_RELEASED",
    "RELEASED_INIT",
    "BorrowingCayley",
    "LendingCayley",
    "ReleasedNCGRU",
    "released",
]

AS_RELEASED = "the printed number stands beside the row of the paper's formulas"
RELEASED_INIT = (
    "the code initialises the gates of its second cell with other random numbers than those of "
    "its first cell; here both are initialised alike"
)


class LendingCayley(NeumannCayley):
    r"""A `NeumannCayley` that a `BorrowingCayley` trains: its own W has no gradient.

    Args:
        options: The arguments of `NeumannCayley`.
    Source:
        As `BorrowingCayley`.
    """

    needs_advance = False  # the borrower calls `advance` of the lender before its own

    def _matrix(self) -> Tensor:
        return super()._matrix().detach()


class BorrowingCayley(NeumannCayley):
    r"""A `NeumannCayley` that trains a second one, a mistake in the released code of NC-GRU.

    .. math:: V_c = \tilde A_c^\top G_r (D + W_c^\top), \qquad
        V_r = \tilde A_r^\top G_r (D + W_r^\top), \qquad
        \tilde A_r \leftarrow \sum_{i=0}^{q} (\tilde A_c\, \delta A_r)^i \tilde A_c

    The index r marks this constraint and c the lender, which is updated first. Both receive the
    gradient :math:`G_r` of this constraint's W, and both are inverted exactly in the same steps.
    In between W_r is far from orthogonal, and `max_error` applies to the lender alone.

    Args:
        size: The number N of rows and columns.
        options: The other arguments of `NeumannCayley`.
    Source:
        The code of Mucllari, Zadorozhnyy, Pospisil, Nguyen and Ye, 2022, for two orthogonal
        matrices; the paper does not mention it. https://arxiv.org/abs/2208.06496 (departures:
        those of `NeumannCayley`).
    """

    def __init__(self, size: int, **options: Any) -> None:
        self._lenders: tuple[LendingCayley, ...] = ()  # not a submodule: another gate owns it
        super().__init__(size, **options)

    def borrow_from(self, lender: LendingCayley) -> None:
        """Train `lender` too, and begin each step from its inverse."""
        self._lenders = (lender,)

    @torch.no_grad()
    def advance(self) -> None:
        for lender in self._lenders:
            lender.advance()
            self._steps_here = lender._steps_here  # noqa: SLF001, another of its kind
            if self._steps_here == 0:
                self._invert()
            else:
                self.inverse.copy_(lender.inverse)
                self._expand(self._change())

    def _matrix(self) -> Tensor:
        matrix = super()._matrix()
        for lender in self._lenders:
            other = NeumannCayley._matrix(lender)  # noqa: SLF001, with its gradient
            matrix = matrix + (other - other.detach())  # a zero that passes the gradient on
        return matrix


_WEIGHTS: dict[str, dict[str, Any]] = {
    "tensorflow": {
        "weight_ih": (glorot_uniform_, glorot_uniform_, kaiming_uniform_),
        "gate_bias": zeros_,
        "bias": partial(uniform_, bound=0.1),
    },
    "torch": {"weight_ih": (fan_uniform_, fan_uniform_, uniform_)},
}


class ReleasedNCGRU(GRU):
    r"""NC-GRU as one of its two released programs computes it.

    .. math:: h_t = u_t \odot h_{t-1} + (1 - u_t) \odot c_t

    The PyTorch program also applies the reset gate after :math:`W_c`. With two orthogonal
    matrices, the gradient of :math:`W_r` trains both, and :math:`W_r` is computed with the stored
    inverse of :math:`W_c`. It is then far from orthogonal between two exact inversions.

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of hidden units.
        num_layers: The number of stacked layers.
        code: ``"tensorflow"`` (parenthesis and denoise) or ``"torch"`` (characters).
        orthogonal: The gates with an orthogonal matrix: ``("candidate",)``, or the two of
            ``("reset", "candidate")``.
        negative: The number of entries -1 in D.
        order: The order of the Neumann series; see `NeumannCayley`.
        reset_every: The number of optimiser steps between two exact inversions.
        max_error: As in `NeumannCayley`; the published code has no such bound.
        gradient_rate: The learning rate, from which the code computes the change of A; None uses
            the actual change.
        options: Further keyword arguments of `GRU`.
    Source:
        The code of Mucllari, Zadorozhnyy, Pospisil, Nguyen and Ye, 2022.
        https://arxiv.org/abs/2208.06496 (departures: one bias per gate instead of the two of the
        PyTorch cell. In the PyTorch code the main optimiser also updates W itself before A
        receives its gradient; this class does not).
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        code: Literal["tensorflow", "torch"],
        orthogonal: Sequence[str] = ("candidate",),
        negative: int | None = None,
        order: int | None = 2,
        reset_every: int = 50,
        max_error: float = math.inf,
        gradient_rate: float | None = None,
        **options: Any,
    ) -> None:
        series: dict[str, Any] = {
            "negative": negative,
            "order": order,
            "reset_every": reset_every,
            "max_error": max_error,
            "gradient_rate": gradient_rate,
        }
        kernel_init = partial(uniform_, bound=math.sqrt(6 / (input_size + hidden_size)))
        free_set = partial(Unconstrained, init=fan_uniform_ if code == "torch" else kernel_init)
        reset: Callable[[int], Constraint] = free_set
        candidate: Callable[[int], Constraint] = partial(NeumannCayley, **series)
        if "reset" in orthogonal:
            reset = partial(BorrowingCayley, **series)
            candidate = partial(LendingCayley, **series)
        self.published = _WEIGHTS[code]
        formula: dict[str, Any] = {"nonlinearity": "modrelu", "reset_after": code == "torch"}
        options = formula | options
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            reset=reset,
            update=free_set,
            candidate=candidate,
            **options,
        )
        for direction in self.all_directions():
            if isinstance(direction.reset_gate, BorrowingCayley):
                direction.reset_gate.borrow_from(cast("LendingCayley", direction.candidate))


def released(
    network: Network, code: Literal["tensorflow", "torch"], lr: float, **options: Any
) -> Network:
    """Return an NC-GRU as the released code computes it.

    Args:
        network: The network as the paper defines it.
        code: The framework of the released code.
        lr: The learning rate, with which the code updates the inverse.
        options: Further arguments of the layer that differ in the code.
    """
    departures = network.departures
    if len(network.options["orthogonal"]) > 1:
        departures = (*departures, RELEASED_INIT)
    return replace(
        network,
        label=f"{network.label} as released",
        layer=ReleasedNCGRU,
        options={**network.options, "code": code, "gradient_rate": lr, **options},
        departures=departures,
    )
