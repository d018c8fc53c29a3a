"""The delta rule as published models use it: each is `DeltaNet` with other defaults."""

from typing import ClassVar, Unpack

from eigenrnn.layers.delta import DeltaNet
from eigenrnn.layers.options import DeltaNetOptions

__all__ = ["DeltaProduct", "GatedDeltaNet"]

_PUBLISHED: DeltaNetOptions = {
    "gated": True,
    "convolution": 4,
    "output_gate": True,
    "bias": False,
}
"""What the published layers have in common."""


class GatedDeltaNet(DeltaNet):
    r"""Gated DeltaNet: the delta rule with a decay, a short convolution and an output gate.

    .. math::
        S_t = a_t (I - \beta_t k_t k_t^\top) S_{t-1} + \beta_t k_t v_t^\top, \qquad
        y_t = W_o (\operatorname{RMSNorm}(S_t^\top q_t) \odot \operatorname{SiLU}(W_g x_t))

    Queries, keys and values pass a causal convolution of width 4 and SiLU. The free eigenvalue
    :math:`1 - \beta` lies in (0, 1). See `DeltaNet` for the rest.

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of outputs; a multiple of `heads`.
        num_layers: The number of stacked layers.
        heads: The number of heads.
        eigenvalues: The ends of the segment of the free eigenvalues.
        options: Further keyword arguments of `DeltaNet`.
    Source:
        Yang et al., ICLR 2025, section 3. https://arxiv.org/abs/2412.06464 (departures: keys and
        values have the same size N / H; keys are divided by their norm, with no epsilon under the
        root).
    Example:
        >>> layer = GatedDeltaNet(2, 8, heads=2)
        >>> layer.convolution, layer.eigenvalues
        (4, (0.0, 1.0))
    """

    published_options: ClassVar[DeltaNetOptions] = _PUBLISHED

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        heads: int = 1,
        eigenvalues: tuple[float, float] = (0.0, 1.0),
        **options: Unpack[DeltaNetOptions],
    ) -> None:
        options = GatedDeltaNet.published_options | options
        super().__init__(
            input_size, hidden_size, num_layers, heads=heads, eigenvalues=eigenvalues, **options
        )


class DeltaProduct(DeltaNet):
    r"""Gated DeltaProduct: several generalised reflections in a step.

    .. math::
        S_t = a_t (I - \beta_{t,R} k_{t,R} k_{t,R}^\top) \cdots
        (I - \beta_{t,1} k_{t,1} k_{t,1}^\top) S_{t-1} + \dots

    The same as `GatedDeltaNet` with R reflections a step and eigenvalues in (-1, 1), so that the
    transition may be close to a rotation. See `DeltaNet` for the terms that are left out.

    Args:
        input_size: The number M of input features.
        hidden_size: The number N of outputs; a multiple of `heads`.
        num_layers: The number of stacked layers.
        heads: The number of heads.
        reflections: The number R of reflections in a step.
        eigenvalues: The ends of the segment of the free eigenvalues.
        options: Further keyword arguments of `DeltaNet`; ``gated=False`` removes the decay.
    Source:
        Siems et al., NeurIPS 2025, section 4. https://arxiv.org/abs/2502.10297 (departures: keys
        and values have the same size N / H; keys are divided by their norm, with no epsilon under
        the root).
    Example:
        >>> layer = DeltaProduct(2, 8, heads=2, reflections=3)
        >>> layer.gated, layer.initial_state(5).shape  # two matrices, then inputs
        (True, torch.Size([1, 5, 256]))
    """

    published_options: ClassVar[DeltaNetOptions] = _PUBLISHED

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        *,
        heads: int = 1,
        reflections: int = 2,
        eigenvalues: tuple[float, float] = (-1.0, 1.0),
        **options: Unpack[DeltaNetOptions],
    ) -> None:
        options = DeltaProduct.published_options | options
        super().__init__(
            input_size,
            hidden_size,
            num_layers,
            heads=heads,
            reflections=reflections,
            eigenvalues=eigenvalues,
            **options,
        )
