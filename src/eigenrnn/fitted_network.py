"""A trained network with what stands around it: unscaled inputs in, answers out."""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from eigenrnn.models import SequenceModel

__all__ = ["FittedNetwork", "Missing", "fitted_network"]

Missing = Literal["error", "mask", "forward"]


class FittedNetwork(nn.Module):
    r"""Maps unscaled sequences to the answers of an estimator.

    .. math:: y = g(V h_T + d), \qquad x_t = (u_t - \mu) / \sigma

    with the softmax as g, or the scale of a regressor's targets. With `missing` other than
    ``"error"`` the network reads a mask of each channel too, and a missing value is the mean of
    its channel, or with ``"forward"`` the value before it.

    Args:
        model: The network of scaled inputs.
        mean: The mean of each channel.
        scale: The deviation of each channel.
        missing: What happens to NaN.
        classes: The names of the classes; None for a regressor.
        targets: The mean and the deviation of each target of a regressor.
    Shape:
        inputs: :math:`(T, B, M)` in double precision.
        lengths: :math:`(B,)`, or None if all sequences have T time steps.
        answers: :math:`(B, K)` in double precision.
    """

    mean: Tensor
    scale: Tensor

    def __init__(
        self,
        model: SequenceModel,
        mean: Tensor,
        scale: Tensor,
        *,
        missing: Missing = "error",
        classes: Sequence[str] | None = None,
        targets: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.missing: Missing = missing
        self.classes = classes
        self.targets = targets
        self.register_buffer("mean", mean)
        self.register_buffer("scale", scale)
        self.training = model.training

    def forward(self, inputs: Tensor, lengths: Tensor | None = None) -> Tensor:
        x = self.prepared(inputs).to(self.model.head.weight.device)
        return self.answers(self.model(x, lengths))

    def prepared(
        self,
        inputs: Tensor,  # (T, ..., M)
    ) -> Tensor:  # (T, ..., M), or (T, ..., 2 M) with masks
        """Scale sequences in double precision, and only then round them."""
        scaled = (inputs - self.mean) / self.scale
        if self.missing != "error":
            is_missing = scaled.isnan()
            scaled = scaled.nan_to_num()
            if self.missing == "forward":
                # without a loop: the k-th known value lies at place k of a table, zero at 0
                count = (~is_missing).long().cumsum(0)
                places = torch.where(is_missing, 0, count)
                table = torch.cat([torch.zeros_like(scaled[:1]), torch.zeros_like(scaled)])
                scaled = table.scatter(0, places, scaled).gather(0, count)
            scaled = torch.cat([scaled, is_missing.to(scaled.dtype)], -1)
        return scaled.to(self.model.head.weight.dtype)

    def step(
        self,
        x_t: Tensor,  # (..., M)
        last: Tensor,  # (..., M), zeros at first
    ) -> tuple[Tensor, Tensor]:
        """Prepare one time step; return it with the last known values, which are scaled."""
        scaled = (x_t - self.mean) / self.scale
        if self.missing == "error":
            return scaled.to(self.model.head.weight.dtype), last
        is_missing = scaled.isnan()
        scaled = torch.where(is_missing, last, scaled)
        if self.missing == "forward":
            last = scaled
        x = torch.cat([scaled, is_missing.to(scaled.dtype)], -1)
        return x.to(self.model.head.weight.dtype), last

    def answers(
        self,
        outputs: Tensor,  # (..., K)
    ) -> Tensor:
        """Return probabilities, or numbers in the units of a regressor's targets."""
        if self.targets is None:
            return outputs.cpu().double().softmax(-1)
        mean, deviation = self.targets
        return outputs.cpu().double() * deviation + mean


def fitted_network(estimator: Any) -> FittedNetwork:
    """Return the network of a fitted classifier or regressor, for a program without it.

    Raises:
        TypeError: If it is another estimator.
        ValueError: If its network is on another device than the CPU.
    """
    make = getattr(estimator, "fitted_network", None)
    if make is None:
        raise TypeError(
            "expected a fitted classifier or regressor, got "
            f"{type(estimator).__name__}: a forecaster feeds its network by itself, so pass its "
            "model_, a network of scaled inputs"
        )
    network = make()
    device = network.model.head.weight.device
    if device.type != "cpu":
        raise ValueError(
            f"expected an estimator on the CPU, got one on {device}: estimator.save(path), then "
            "eigenrnn.estimators.load(path)"
        )
    return network
