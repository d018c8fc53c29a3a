"""The claims of NC-GRU's paper."""

from dataclasses import replace
from itertools import product

from eigenrnn.experiments.training.run_key import Length
from reproduction.claim import AGREEING_SHARE, AtLeast, Claim, Less, Runs, value

__all__ = ["CLAIMS"]

THREE_SEEDS = (0, 1, 2)
LOSS = replace(value, amount="a loss of {}")
FIVE_SEEDS = (0, 1, 2, 3, 4)
PTB_SEED = (1111,)
BITS = replace(value, amount="{} bits a character")
SECONDS = replace(value, name="processor seconds per update", verb="takes", amount="{} s")
FASTER_PAIRS = replace(
    value,
    name="share of pairs of updates",
    verb="takes less time",
    amount="in {} of 200 pairs of updates",
    unit="percent",
)
RIVALS = ("LSTM 42", "GRU 50", "scoRNN 110", "GORU 64")
ONE_MATRIX = "NC-GRU(U_c) 56"
TWO_MATRICES = "NC-GRU(U_c,U_r) 56"


def parenthesis(label: str, length: int) -> Runs:
    """Return the runs of a network that counts brackets."""
    return Runs("nc_gru/table1", f"{label} T={length}", THREE_SEEDS)


def denoise(label: str) -> Runs:
    """Return the runs of a network on denoising."""
    return Runs("nc_gru/table2", f"{label} T=200")


def adding(label: str) -> Runs:
    """Return the runs of a network on adding."""
    return Runs("nc_gru/table3", f"{label} T=200", THREE_SEEDS)


def copying(label: str) -> Runs:
    """Return the runs of a network on copying."""
    return Runs("nc_gru/table4", f"{label} T=1000", THREE_SEEDS)


def characters(label: str) -> Runs:
    """Return the runs of a network on Penn Treebank."""
    return Runs("nc_gru/table5", label, PTB_SEED, least=Length("epochs", 20))


SERIES = Runs("nc_gru/table1", f"{ONE_MATRIX} T=100", FIVE_SEEDS)
INVERSE = Runs("nc_gru/fig5", f"{ONE_MATRIX} inverse T=100", FIVE_SEEDS)
SERIES_TIME = Runs("nc_gru/fig6", "NC-GRU(U_c) 435, time of a step with Neumann 2")
INVERSE_TIME = Runs("nc_gru/fig6", "NC-GRU(U_c) 435, time of a step with the inverse")
PAIRS = Runs("nc_gru/fig6", "NC-GRU(U_c) 435, Neumann 2 beside the inverse")

CLAIMS = (
    Claim(
        id="ncgru-parenthesis",
        paper="NC-GRU",
        sentence="Counting brackets over 100 and 200 steps: NC-GRUs with one and with two "
        "orthogonal matrices reach lower losses than all other networks.",
        place="section 4.1, table 1",
        decisive=tuple(
            Less(parenthesis(ONE_MATRIX, length), parenthesis(rival, length), number=LOSS)
            for length, rival in product((100, 200), RIVALS)
        ),
        further=tuple(
            Less(parenthesis(TWO_MATRICES, length), parenthesis(rival, length), number=LOSS)
            for length, rival in product((100, 200), RIVALS)
        ),
        changed="2026-11-23T23:45:00+00:00",
        seeds=3,
    ),
    Claim(
        id="ncgru-denoise",
        paper="NC-GRU",
        sentence="Denoising over 200 steps: the loss of NC-GRU is 2.7 to 6 times lower than that "
        "of the other networks.",
        place="section 4.2, table 2",
        decisive=tuple(
            Less(denoise("NC-GRU(U_c) 118"), denoise(rival), factor=2, number=LOSS)
            for rival in ("LSTM 90", "GRU 100", "scoRNN 200", "GORU 128")
        ),
        changed="2026-11-22T11:25:21+00:00",
        note="The test asks for a factor of 2.",
    ),
    Claim(
        id="ncgru-adding",
        paper="NC-GRU",
        sentence="Adding with 200 steps: NC-GRU with one orthogonal matrix has the lowest error.",
        place="section 4.3, table 3",
        decisive=tuple(
            Less(adding("NC-GRU(U_c) 80"), adding(rival), number=LOSS)
            for rival in ("LSTM 68", "GRU 70", "scoRNN 190", "GORU 128", "NC-GRU(U_c,U_r) 80")
        ),
        changed="2026-11-22T11:25:21+00:00",
        seeds=3,
    ),
    Claim(
        id="ncgru-copy",
        paper="NC-GRU",
        sentence="Copying with a delay of 1000: NC-GRU ends between scoRNN and the GRU.",
        place="section 4.4, table 4",
        decisive=(
            Less(copying("scoRNN 190"), copying("NC-GRU(U_c) 96"), number=LOSS),
            Less(copying("NC-GRU(U_c) 96"), copying("GRU 78"), number=LOSS),
        ),
        changed="2026-11-22T11:25:21+00:00",
        seeds=3,
    ),
    Claim(
        id="ncgru-ptb",
        paper="NC-GRU",
        sentence="Penn Treebank by characters: NC-GRU needs fewer bits than a GRU and an LSTM.",
        place="section 4.5, table 5",
        decisive=tuple(
            Less(characters("NC-GRU(U_c) 435"), characters(rival), number=BITS)
            for rival in ("GRU 416", "LSTM 361")
        ),
        changed="2026-11-22T11:25:21+00:00",
        note="One layer each, with equal numbers of parameters.",
    ),
    Claim(
        id="ncgru-neumann",
        paper="NC-GRU",
        sentence="A Neumann series of order 2 is as good as the exact inverse, and an update "
        "takes less time.",
        place="section 5.1, figures 5 and 6",
        decisive=(
            Less(SERIES, INVERSE, factor=0.5, number=LOSS),
            AtLeast(PAIRS, AGREEING_SHARE, number=FASTER_PAIRS),
            Less(SERIES_TIME, INVERSE_TIME, number=SECONDS),
        ),
        changed="2026-11-26T05:10:18+00:00",
        seeds=5,
        note="As good means at most twice the loss of the exact inverse. The times are processor "
        "times, medians of 200 pairs of updates in turn. Less time means less in three quarters "
        "of these pairs, as for pairs of runs. The two times of an epoch in the table below are "
        "of single runs beside other programs. We solve for the inverse by LU decomposition on a "
        "CPU, the paper by least squares on a GPU.",
    ),
)
"""In the order of the paper."""
