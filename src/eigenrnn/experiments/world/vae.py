"""The convolutional variational autoencoder of World Models."""

import torch
from torch import Generator, Tensor, nn

from eigenrnn.experiments.data.car_racing import FRAME, Z_SIZE

__all__ = ["VAE"]


class VAE(nn.Module):
    r"""Encodes a frame as a Gaussian over 32 numbers, and decodes a sample of it.

    .. math:: z = \mu + e^{\ell / 2} \epsilon, \qquad \epsilon \sim \mathcal{N}(0, I)

    While it is trained z is drawn, from torch's global stream; in evaluation it is :math:`\mu`.
    Four convolutions of width 4 and stride 2 lead to 32, 64, 128 and 256 channels, and four
    transposed ones of widths 5, 5, 6 and 6 back.

    Args:
        generator: The source of the start; torch's global stream by default.

    Shape:
        frames: :math:`(1, B, 12288)`, bytes, as `Frames` gives them.
        outputs: :math:`(B, 12352)`: the decoded pixels in [0, 1], :math:`\mu` and :math:`\ell`.

    Source:
        Ha and Schmidhuber, NeurIPS 2018, appendix A.1. https://arxiv.org/abs/1803.10122
        (departures: none).

    Example:
        >>> VAE()(torch.zeros(1, 5, 12_288, dtype=torch.uint8)).shape
        torch.Size([5, 12352])
    """

    def __init__(self, *, generator: Generator | None = None) -> None:
        super().__init__()
        with torch.device("meta"):
            self.encoder = nn.Sequential(
                nn.Conv2d(3, 32, 4, 2),
                nn.ReLU(),
                nn.Conv2d(32, 64, 4, 2),
                nn.ReLU(),
                nn.Conv2d(64, 128, 4, 2),
                nn.ReLU(),
                nn.Conv2d(128, 256, 4, 2),
                nn.ReLU(),
                nn.Flatten(),
            )
            self.mu = nn.Linear(1024, Z_SIZE)
            self.logvar = nn.Linear(1024, Z_SIZE)
            self.decoder = nn.Sequential(
                nn.Linear(Z_SIZE, 1024),
                nn.Unflatten(1, (1024, 1, 1)),
                nn.ConvTranspose2d(1024, 128, 5, 2),
                nn.ReLU(),
                nn.ConvTranspose2d(128, 64, 5, 2),
                nn.ReLU(),
                nn.ConvTranspose2d(64, 32, 6, 2),
                nn.ReLU(),
                nn.ConvTranspose2d(32, 3, 6, 2),
                nn.Sigmoid(),
            )
        self.to_empty(device=torch.get_default_device())
        # TensorFlow's defaults, which the authors keep
        for name, parameter in self.named_parameters():
            if name.endswith("weight"):
                nn.init.xavier_uniform_(parameter, generator=generator)
            else:
                nn.init.zeros_(parameter)

    def forward(self, frames: Tensor) -> Tensor:
        mu, logvar = self.encode(frames)
        z = mu + (logvar / 2).exp() * torch.randn_like(mu) if self.training else mu
        pixels = self.decoder(z).permute(0, 2, 3, 1).flatten(1)
        return torch.cat([pixels, mu, logvar], -1)

    def encode(
        self,
        frames: Tensor,  # (1, B, 12288)
    ) -> tuple[Tensor, Tensor]:  # (B, 32), (B, 32)
        """Return the mean and the logarithm of the variance of each latent number."""
        pixels = frames.squeeze(0).unflatten(-1, FRAME).permute(0, 3, 1, 2)
        features = self.encoder(pixels.to(self.mu.weight) / 255)
        return self.mu(features), self.logvar(features)
