"""The two orthogonal matrices of NC-GRU as its released code trains them, which is by mistake."""

from typing import Any

import torch
from torch import Tensor

from eigenrnn.constraints.neumann_cayley import NeumannCayley

__all__ = ["BorrowingCayley", "LendingCayley"]


class LendingCayley(NeumannCayley):
    r"""A `NeumannCayley` that another one trains: its own W passes no gradient on.

    Args:
        options: What `NeumannCayley` takes.
    Source:
        As `BorrowingCayley`.
    """

    moves = False  # the borrower calls `advance`, so that its own comes after

    def _matrix(self) -> Tensor:
        return super()._matrix().detach()


class BorrowingCayley(NeumannCayley):
    r"""A `NeumannCayley` that trains a second one along, and takes over its inverse.

    .. math:: V_c = \tilde A_c^\top G_r (D + W_c^\top), \qquad
        V_r = \tilde A_r^\top G_r (D + W_r^\top), \qquad
        \tilde A_r \leftarrow \sum_{i=0}^{q} (\tilde A_c\, \delta A_r)^i \tilde A_c

    The index r is this one's and c that of the lender, which is updated first. Both get the
    gradient :math:`G_r` of this one's W, and both are made exact in the same steps. In between
    W_r is far from orthogonal, and `max_error` is looked at for the lender alone.

    Args:
        size: The number N of rows and columns.
        options: What else `NeumannCayley` takes.
    Source:
        The code of Mucllari, Zadorozhnyy, Pospisil, Nguyen and Ye, 2022, for two orthogonal
        matrices; the paper has nothing of it. https://arxiv.org/abs/2208.06496 (departures:
        those of `NeumannCayley`).
    """

    def __init__(self, size: int, **options: Any) -> None:
        self._lenders: tuple[LendingCayley, ...] = ()  # no submodule: another gate owns it
        super().__init__(size, **options)

    def borrow_from(self, lender: LendingCayley) -> None:
        """Train `lender` along, and start from its inverse in each step."""
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
