"""The MNIST images of handwritten digits, in the four idx files of the original publication."""

import math
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from eigenrnn_experiments.data.archives import read_gzip
from eigenrnn_experiments.data.files import DataFile, locate

__all__ = ["FILES", "read_idx", "read_mnist"]

_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist",
    "https://storage.googleapis.com/cvdf-datasets/mnist",
)


def _file(name: str, sha256: str) -> DataFile:
    return DataFile(f"mnist/{name}", sha256, tuple(f"{mirror}/{name}" for mirror in _MIRRORS))


FILES = {
    ("train", "images"): _file(
        "train-images-idx3-ubyte.gz",
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    ),
    ("train", "labels"): _file(
        "train-labels-idx1-ubyte.gz",
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    ),
    ("test", "images"): _file(
        "t10k-images-idx3-ubyte.gz",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    ),
    ("test", "labels"): _file(
        "t10k-labels-idx1-ubyte.gz",
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
}


def read_mnist(
    part: Literal["train", "test"], data_root: str | Path | None = None
) -> tuple[Tensor, Tensor]:
    """Read the images and labels of one part of MNIST.

    Args:
        part: `train` (60,000 images) or `test` (10,000).
        data_root: The only folder to search; see `eigenrnn_experiments.data.locate`.

    Shape:
        images: :math:`(count, 28, 28)`, unsigned bytes, row by row.
        labels: :math:`(count)`, unsigned bytes 0 to 9.

    Raises:
        MissingDataError: If a file is not found and cannot be downloaded.
        ChecksumError: If a file has another checksum.

    Source:
        LeCun, Bottou, Bengio and Haffner, Proceedings of the IEEE 86(11), 1998.
    """
    images = read_idx(locate(FILES[part, "images"], data_root), rank=3)
    labels = read_idx(locate(FILES[part, "labels"], data_root), rank=1)
    return images, labels


def read_idx(path: Path, rank: int) -> Tensor:
    """Read a gzipped idx file of unsigned bytes.

    The format is a magic number, 2048 + rank for unsigned bytes, the `rank` sizes, all big-endian
    32-bit integers, and then the bytes in row-major order.

    Args:
        path: The file.
        rank: The required number of dimensions.

    Raises:
        ValueError: If the file is damaged.
    """
    content = read_gzip(path)
    if len(content) < 4 * (1 + rank):
        raise ValueError(f"{path} is damaged: it ends within the sizes")
    magic, *shape = np.frombuffer(content, ">u4", count=1 + rank).tolist()
    if magic != 2048 + rank:
        raise ValueError(
            f"{path} is damaged: expected {2048 + rank}, the number of unsigned bytes in {rank} "
            f"dimensions, at its start, got {magic}"
        )
    pixels = np.frombuffer(content, np.uint8, offset=4 * (1 + rank))
    if len(pixels) != math.prod(shape):
        raise ValueError(
            f"{path} is damaged: expected {math.prod(shape)} bytes, got {len(pixels)}"
        )
    return torch.from_numpy(pixels.copy()).view(shape)  # a copy, because tensors are writable
