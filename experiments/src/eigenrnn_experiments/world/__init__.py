"""Creates the data of `CarRacing`: records drives, and encodes their frames."""

from eigenrnn_experiments.world.autoencoder import VAE, autoencoder_settings, encode
from eigenrnn_experiments.world.collection import Collection

__all__ = ["VAE", "Collection", "autoencoder_settings", "encode"]
