"""How the data of `car_racing` come about: drives are recorded, and their frames encoded."""

from eigenrnn.world.collection import Collection
from eigenrnn.world.encode import autoencoder_settings, encode
from eigenrnn.world.vae import VAE

__all__ = ["VAE", "Collection", "autoencoder_settings", "encode"]
