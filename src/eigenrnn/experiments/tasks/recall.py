"""How tasks are scored that name a symbol at every step, and recall some at the end."""

import torch.nn.functional as F
from torch import Tensor

__all__ = ["share_recalled", "symbol_loss"]


def symbol_loss(
    outputs: Tensor,  # (T, B, K)
    targets: Tensor,  # (T, B)
) -> Tensor:  # ()
    """Return the mean cross-entropy over all steps, in nats."""
    # classes before positions: torch goes through many positions side by side, through few
    # classes one by one, which takes six times as long
    logits = outputs.flatten(0, 1).T.contiguous()
    return F.cross_entropy(logits.unsqueeze(0), targets.flatten().unsqueeze(0))


def share_recalled(
    outputs: Tensor,  # (T, B, K)
    targets: Tensor,  # (T, B)
    symbols: int,
) -> Tensor:  # ()
    """Return the share of right answers among those to the last `symbols` steps."""
    recalled = outputs[-symbols:].argmax(-1)
    return (recalled == targets[-symbols:]).float().mean()
