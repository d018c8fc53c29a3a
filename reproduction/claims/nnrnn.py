"""The claims of nnRNN's paper."""

from eigenrnn_experiments.training.run_key import Length
from reproduction.claim import (
    Claim,
    Median,
    Runs,
    accuracy,
    at_least,
    at_most,
    close,
    less,
    of_chance,
    score,
    steps_below,
    value,
)

__all__ = ["CLAIMS"]

SIX_SEEDS = (0, 1, 2, 3, 4, 5)
SOLVED = 0.02  # of a chance level of 0.095
STEPS_TO_SOLUTION = steps_below(0.2, "train_loss_mean")  # 0.02, as a share of 0.095
LOSS = of_chance(value)
SHARE = score("share_below_blocks")
TRIANGLE = Runs("nnrnn/fig3", "nnRNN 128 copying")


def copying(label: str) -> Runs:
    """Return the runs of a network on copying."""
    return Runs("nnrnn/fig2", f"{label} 128 copying", SIX_SEEDS)


def pixels(label: str) -> Runs:
    """Return the runs of a network on permuted MNIST."""
    return Runs("nnrnn/fig2", f"{label} 512 psMNIST", least=Length("epochs", 20))


def characters(label: str) -> Runs:
    """Return the runs of a network on Penn Treebank."""
    return Runs("nnrnn/table1", f"{label} 1024 T=150", least=Length("epochs", 30))


def memory(alpha: str) -> Runs:
    """Return the total Fisher memory of a triangle with this diagonal above the main one."""
    return Runs("nnrnn/table6", f"alpha={alpha} beta=0 d=0")


CLAIMS = (
    Claim(
        id="nnrnn-copy",
        paper="nnRNN",
        place="section 5.1, figure 2",
        sentence="Copying with a delay of 200: nnRNN is as fast as orthogonal networks; the LSTM "
        "and the RNN do not solve it.",
        decides="nnRNN, expRNN, RNN-orth and EURNN end at a training loss of at most 0.02, and "
        "nnRNN gets there in at most twice the updates of expRNN. Further, the LSTM and the RNN "
        "end above 90 % of the chance level. The learning rates of EURNN and RNN-orth were "
        "changed after they had failed with the paper's.",
        decisive=(
            at_most(copying("nnRNN"), SOLVED),
            at_most(copying("expRNN"), SOLVED),
            at_most(copying("RNN-orth"), SOLVED),
            at_most(copying("EURNN"), SOLVED),
            less(copying("nnRNN"), copying("expRNN"), STEPS_TO_SOLUTION, factor=0.5),
        ),
        further=(at_least(copying("LSTM"), 90, LOSS), at_least(copying("RNN"), 90, LOSS)),
        changed="2026-11-24T00:09:34+00:00",
        seeds=6,
        verdict="holds",
        seen="The training loss ends at {nnrnn} for nnRNN, {exprnn} for expRNN, {orth} for "
        "RNN-orth and {eurnn} for EURNN. nnRNN falls below 20 % of the chance level after "
        "{nnrnn_steps} updates, expRNN after {exprnn_steps}. The LSTM ends at {lstm} % of the "
        "chance level and the RNN at {rnn} %.",
        numbers={
            "nnrnn": Median("0.00139", copying("nnRNN"), value),
            "exprnn": Median("0.000154", copying("expRNN"), value),
            "orth": Median("0.00476", copying("RNN-orth"), value),
            "eurnn": Median("0.0000131", copying("EURNN"), value),
            "nnrnn_steps": Median("215", copying("nnRNN"), STEPS_TO_SOLUTION),
            "exprnn_steps": Median("180", copying("expRNN"), STEPS_TO_SOLUTION),
            "lstm": Median("100.8", copying("LSTM"), LOSS),
            "rnn": Median("105.2", copying("RNN"), LOSS),
        },
        tried="The RNN stays at the chance level, as in the figure: the median run ends at 0.099. "
        "Two of the six runs end at 0.121 and 0.126, soon after spikes of 2.9 and 4.3 in the mean "
        "of ten updates. The first updates have losses of up to 4e11, which the axis of the "
        "figure would not show. The validation set selects by accuracy, which is the same for all "
        "models at the chance level. The model that it selects for seed 1 has a loss of 27, which "
        "dominates the mean. RNN-orth and EURNN solve the task, as in the figure, if their "
        "recurrent parameters have a learning rate of their own. We take it from 1e-5 to 1e-4, "
        "the range that the appendix searches for orthogonal parameters. With the rate that the "
        "appendix prints for the whole network they do not. RNN-orth at 2e-4 is chaotic: six "
        "seeds end at 0.05 in the median and at 0.83 at worst, and the same seed ends at 0.053 on "
        "one processor and at 1.26 on another. EURNN at 1e-3 stays at the chance level (0.0947) "
        "in all six seeds. The number of layers of rotations, 43, is not the cause.",
    ),
    Claim(
        id="nnrnn-ptb",
        paper="nnRNN",
        place="section 5.3, table 1",
        sentence="Penn Treebank by characters: nnRNN needs fewer bits than expRNN, and expRNN "
        "fewer than RNN-orth.",
        decides="The bits a character after equally many epochs, at least 30 of 100: nnRNN "
        "against expRNN, and further expRNN against RNN-orth.",
        decisive=(less(characters("nnRNN"), characters("expRNN")),),
        further=(less(characters("expRNN"), characters("RNN-orth")),),
        changed="2026-11-24T00:09:34+00:00",
        hours=10,
    ),
    Claim(
        id="nnrnn-psmnist",
        paper="nnRNN",
        place="section 5.1, figure 2",
        sentence="Permuted MNIST: nnRNN is as accurate as orthogonal networks.",
        decides="The accuracy after equally many epochs, at least 20 of 70, against expRNN and "
        "RNN-orth. As accurate means within 3 percentage points.",
        decisive=(
            close(pixels("nnRNN"), pixels("expRNN"), 0.03, accuracy),
            close(pixels("nnRNN"), pixels("RNN-orth"), 0.03, accuracy),
        ),
        changed="2026-11-24T00:09:34+00:00",
        verdict="fails",
        seen="After 20 of 70 epochs, from one seed, nnRNN reaches {nnrnn} and expRNN {exprnn} on "
        "the validation set. The difference is 3.15 points, just above the 3 that we allow. "
        "RNN-orth is not trained for as long.",
        numbers={
            "nnrnn": Median("0.917", pixels("nnRNN"), accuracy),
            "exprnn": Median("0.948", pixels("expRNN"), accuracy),
        },
        tried="The verdict is a close one. On the test set the last difference is 3.4 points, and "
        "2.6 points lie between the best epochs of both on the validation set. The paper's "
        "figure ends at 70 epochs; whether nnRNN catches up there is not known here.",
    ),
    Claim(
        id="nnrnn-theta",
        paper="nnRNN",
        place="section 5.3, figure 3",
        sentence="The triangle T of the Schur form stays near zero on copying and becomes a delay "
        "line on Penn Treebank.",
        decides="Near zero means that T has at most 0.1 of the Frobenius norm. In a delay line "
        "the entries next to the diagonal are on average at least twice as large as those below. "
        "The thresholds are ours.",
        decisive=(
            at_most(TRIANGLE, 0.1, SHARE),
            at_least(Runs("nnrnn/table1", "nnRNN 1024 T=150"), 2, score("delay_line_ratio")),
        ),
        changed="2026-11-24T00:09:34+00:00",
        verdict="fails",
        seen="On copying, where training solves the task, the Frobenius norm of T ends at {share} "
        "of that of the whole Schur form, in the median of three seeds. Its entries are then "
        "about 0.03 in the root mean square, which a picture shows as nearly zero. With a "
        "threshold of 0.3 this half of the claim would hold. The network on Penn Treebank is not "
        "trained for long enough to say anything of a delay line.",
        numbers={"share": Median("0.251", TRIANGLE, SHARE)},
        tried="The three shares are 0.250, 0.251 and 0.267. At the start T is zero, and "
        "nothing keeps it there: the paper's penalty is on the moduli alone.",
    ),
    Claim(
        id="nnrnn-fisher",
        paper="nnRNN",
        place="section 3 and appendix B, table 6",
        sentence="The total Fisher memory grows with the entries next to the diagonal of the "
        "triangle.",
        decides="The order of the totals for matrices with a diagonal of zero. With 0.2 on the "
        "diagonal, double precision does not determine the totals of four of six matrices.",
        decisive=(less(memory("0.95"), memory("1")), less(memory("1"), memory("1.05"))),
        changed="2026-11-24T00:09:34+00:00",
        verdict="holds",
        seen="The total memory is {low} with entries of 0.95 next to the diagonal, {one} with 1 "
        "and {high} with 1.05.",
        numbers={
            "low": Median("3.03", memory("0.95"), value),
            "one": Median("5.19", memory("1"), value),
            "high": Median("12.1", memory("1.05"), value),
        },
    ),
)
"""In the order of the paper."""
