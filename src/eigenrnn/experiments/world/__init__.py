"""How the data of `car_racing` come about: drives are recorded, and their frames encoded."""

from eigenrnn.experiments.world.collection import Collection
from eigenrnn.experiments.world.encode import autoencoder_settings, encode
from eigenrnn.experiments.world.vae import VAE

__all__ = ["VAE", "Collection", "autoencoder_settings", "encode"]
