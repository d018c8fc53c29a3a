"""The reference of the paper."""

__all__ = ["SOURCE"]

SOURCE = "Helfrich and Ye, AAAI 2020. https://arxiv.org/abs/1911.07964"
