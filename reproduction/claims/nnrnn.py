"""The claims of nnRNN's paper."""

from dataclasses import replace

from eigenrnn.experiments.training.run_key import Length
from reproduction.claim import (
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

__all__ = ["CLAIMS"]

SIX_SEEDS = (0, 1, 2, 3, 4, 5)
SOLVED = 0.02  # of a chance level of 0.095
LOSS = replace(value, verb="ends", what="at a training loss", preposition="of")
BITS = replace(value, after="bits a character")
MEMORY = replace(value, verb="has", what="a total memory", preposition="of")
STEPS_TO_SOLUTION = steps_below(0.2, "train_loss_mean")  # 0.02, as a share of 0.095
ARTICLES = {"LSTM": "the LSTM", "RNN": "the RNN"}


def copying(label: str) -> Runs:
    """Return the runs of a network on copying."""
    name = ARTICLES.get(label, label)
    return Runs("nnrnn/fig2", f"{label} 128 copying", SIX_SEEDS, name=name)


def pixels(label: str) -> Runs:
    """Return the runs of a network on permuted MNIST."""
    return Runs("nnrnn/fig2", f"{label} 512 psMNIST", least=Length("epochs", 20), name=label)


def characters(label: str) -> Runs:
    """Return the runs of a network on Penn Treebank."""
    least = Length("epochs", 30)
    return Runs("nnrnn/table1", f"{label} 1024 T=150", least=least, name=label)


def memory(alpha: str) -> Runs:
    """Return the total Fisher memory of a triangle with this diagonal above the main one."""
    name = f"the triangle with {alpha} next to its diagonal"
    return Runs("nnrnn/table6", f"alpha={alpha} beta=0 d=0", name=name)


COPYING_T = Runs("nnrnn/fig3", "nnRNN 128 copying", name="nnRNN on copying")
CHARACTERS_T = Runs("nnrnn/fig3", "nnRNN 1024 T=150", name="nnRNN on Penn Treebank")

CLAIMS = (
    Claim(
        id="nnrnn-copy",
        paper="nnRNN",
        sentence="Copying with a delay of 200: nnRNN is as fast as orthogonal networks; the LSTM "
        "and the RNN do not solve it.",
        place="section 5.1, figure 2",
        decisive=(
            *(
                AtMost(copying(label), SOLVED, LOSS)
                for label in ("nnRNN", "expRNN", "RNN-orth", "EURNN")
            ),
            Less(copying("nnRNN"), copying("expRNN"), factor=0.5, number=STEPS_TO_SOLUTION),
        ),
        further=tuple(
            AtLeast(copying(label), 0.9, of_baseline(value)) for label in ("LSTM", "RNN")
        ),
        changed="2026-11-24T00:09:34+00:00",
        seeds=6,
        note="As fast means at most twice the updates of expRNN. A network solves the problem if "
        "its last training loss is at most 0.02. The learning rates of EURNN and RNN-orth were "
        "changed after they had failed with the paper's.",
    ),
    Claim(
        id="nnrnn-ptb",
        paper="nnRNN",
        sentence="Penn Treebank by characters: nnRNN needs fewer bits than expRNN, and expRNN "
        "fewer than RNN-orth.",
        place="section 5.3, table 1",
        decisive=(Less(characters("nnRNN"), characters("expRNN"), number=BITS),),
        further=(Less(characters("expRNN"), characters("RNN-orth"), number=BITS),),
        changed="2026-11-24T00:09:34+00:00",
    ),
    Claim(
        id="nnrnn-psmnist",
        paper="nnRNN",
        sentence="Permuted MNIST: nnRNN is as accurate as orthogonal networks.",
        place="section 5.1, figure 2",
        decisive=tuple(
            Close(pixels("nnRNN"), pixels(other), within=0.03, number=accuracy)
            for other in ("expRNN", "RNN-orth")
        ),
        changed="2026-11-24T00:09:34+00:00",
        note="As accurate means within 3 percentage points.",
    ),
    Claim(
        id="nnrnn-theta",
        paper="nnRNN",
        sentence="The triangle T of the Schur form stays near zero on copying and becomes a delay "
        "line on Penn Treebank.",
        place="section 5.3, figure 3",
        decisive=(
            AtMost(COPYING_T, 0.1, score("share_below_blocks")),
            AtLeast(CHARACTERS_T, 2, score("delay_line_ratio")),
        ),
        changed="2026-11-24T00:09:34+00:00",
        note="The thresholds are ours. Near zero means that T has at most 0.1 of the Frobenius "
        "norm. In a delay line the entries next to the diagonal are on average at least twice as "
        "large as those below.",
    ),
    Claim(
        id="nnrnn-fisher",
        paper="nnRNN",
        sentence="The total Fisher memory grows with the entries next to the diagonal of the "
        "triangle.",
        place="section 3 and appendix B, table 6",
        decisive=(
            Less(memory("0.95"), memory("1"), number=MEMORY),
            Less(memory("1"), memory("1.05"), number=MEMORY),
        ),
        changed="2026-11-24T00:09:34+00:00",
        note="For matrices with a diagonal of zero. With 0.2 on the diagonal, double precision "
        "does not determine the totals of four of six matrices.",
    ),
)
"""In the order of the paper."""
