"""The claims of nnRNN's paper."""

from eigenrnn.experiments.claims.claim import (
    AtLeast,
    AtMost,
    Claim,
    Close,
    Less,
    Runs,
    accuracy,
    of_baseline,
    score,
    steps_below,
    value,
)
from eigenrnn.experiments.training.run_key import Length

__all__ = ["CLAIMS"]

_SIX_SEEDS = (0, 1, 2, 3, 4, 5)
_MORE_SEEDS = {"nnRNN": (*_SIX_SEEDS, 6, 7)}
_ONE_EPOCH = Length("epochs", 1)


def _copying(label: str) -> Runs:
    return Runs("nnrnn/fig2", f"{label} 128 copying", _MORE_SEEDS.get(label, _SIX_SEEDS))


def _pixels(label: str) -> Runs:
    return Runs("nnrnn/fig2", f"{label} 512 psMNIST", reduced=_ONE_EPOCH)


def _characters(label: str) -> Runs:
    return Runs("nnrnn/table1", f"{label} 1024 T=150", reduced=_ONE_EPOCH)


def _memory(alpha: str) -> Runs:
    return Runs("nnrnn/table6", f"alpha={alpha} beta=0 d=0")


_STEPS_TO_SOLUTION = steps_below(0.2, "train_loss_mean")  # 0.02, as a share of 0.095

CLAIMS = (
    Claim(
        id="nnrnn-copy",
        paper="nnRNN",
        sentence="Copying with a delay of 200: nnRNN is as fast as orthogonal networks; the LSTM "
        "and the RNN do not solve it.",
        place="section 5.1, figure 2",
        test=(
            *(AtMost(_copying(label), 0.02) for label in ("nnRNN", "expRNN", "RNN-orth", "EURNN")),
            *(AtLeast(_copying(label), 0.9, of_baseline(value)) for label in ("LSTM", "RNN")),
            Less(_copying("nnRNN"), _copying("expRNN"), factor=0.5, number=_STEPS_TO_SOLUTION),
        ),
        note="As fast means at most twice the updates of expRNN. A network solves the problem if "
        "its last training loss is at most 0.02.",
    ),
    Claim(
        id="nnrnn-ptb",
        paper="nnRNN",
        sentence="Penn Treebank by characters: nnRNN needs fewer bits than expRNN, and expRNN "
        "fewer than RNN-orth.",
        place="section 5.3, table 1",
        test=(
            Less(_characters("nnRNN"), _characters("expRNN")),
            Less(_characters("expRNN"), _characters("RNN-orth")),
        ),
    ),
    Claim(
        id="nnrnn-psmnist",
        paper="nnRNN",
        sentence="Permuted MNIST: nnRNN is as accurate as orthogonal networks.",
        place="section 5.1, figure 2",
        test=tuple(
            Close(_pixels("nnRNN"), _pixels(other), within=0.03, number=accuracy)
            for other in ("expRNN", "RNN-orth")
        ),
        note="As accurate means within 0.03.",
    ),
    Claim(
        id="nnrnn-theta",
        paper="nnRNN",
        sentence="The triangle T of the Schur form stays near zero on copying and becomes a delay "
        "line on Penn Treebank.",
        place="section 5.3, figure 3",
        test=(
            AtMost(Runs("nnrnn/fig3", "nnRNN 128 copying"), 0.1, score("share_below_blocks")),
            AtLeast(
                Runs("nnrnn/fig3", "nnRNN 1024 T=150", reduced=Length("epochs", 2)),
                2,
                score("delay_line_ratio"),
            ),
        ),
        note="Near zero means that T has at most 0.1 of the Frobenius norm. In a delay line the "
        "entries next to the diagonal are on average at least twice as large as those below.",
    ),
    Claim(
        id="nnrnn-fisher",
        paper="nnRNN",
        sentence="The total Fisher memory grows with the entries next to the diagonal of the "
        "triangle.",
        place="section 3 and appendix B, table 6",
        test=(Less(_memory("0.95"), _memory("1")), Less(_memory("1"), _memory("1.05"))),
        note="For matrices with a diagonal of zero. With 0.2 on the diagonal, double precision "
        "does not determine the totals of four of six matrices.",
    ),
)
"""In the order of the paper."""
