"""Measures how far AdamW's default weight decay alone moves each recurrent matrix.

The gradients are zero, so nothing else moves W. Run with ``python -m benchmarks.weight_decay``.
"""

import torch

import eigenrnn
from eigenrnn.layers.stacked import Stacked

LAYERS = ("EURNN", "NnRNN", "ExpRNN", "ScoRNN", "DtrivRNN", "ORNN", "SpectralRNN")
N = 64
STEPS = 20_000


def movement(layer: Stacked, *, whole: bool) -> float:
    """Return |W - W_0| / |W_0| after all steps of AdamW with learning rate 0.001 and decay 0.01.

    Args:
        layer: The layer with the recurrent matrix.
        whole: Whether all parameters decay, as in torch's own loop; else the groups decide.
    """
    constraint = layer.directions[0].constraint
    before = constraint().detach()
    groups = eigenrnn.parameter_groups(layer, lr=1e-3, weight_decay=0.01)
    optimiser = torch.optim.AdamW(layer.parameters() if whole else groups, lr=1e-3)
    for parameter in layer.parameters():
        parameter.grad = torch.zeros_like(parameter)
    for _ in range(STEPS):
        optimiser.step()
    return float(torch.linalg.norm(constraint().detach() - before) / torch.linalg.norm(before))


def main() -> None:
    """Print a Markdown table."""
    print("| layer | all parameters decay | with `parameter_groups` |\n|---|---:|---:|")
    for name in LAYERS:
        numbers = []
        for whole in (True, False):
            layer = getattr(eigenrnn, name)(1, N, generator=torch.Generator().manual_seed(0))
            numbers.append(f"{100 * movement(layer, whole=whole):.0f} %")
        print(f"| `{name}` | {' | '.join(numbers)} |", flush=True)


if __name__ == "__main__":
    main()
