"""The claims of NC-GRU's paper."""

from eigenrnn.experiments.claims.claim import Claim, Less, Runs
from eigenrnn.experiments.training.run_key import Length

__all__ = ["CLAIMS"]

_THREE_SEEDS = (0, 1, 2)
_FIVE_SEEDS = (0, 1, 2, 3, 4)
_PTB_SEED = (1111,)


def _parenthesis(label: str, *seeds: int) -> Runs:
    return Runs("nc_gru/table1", f"{label} T=100", seeds or _THREE_SEEDS)


def _denoise(label: str) -> Runs:
    return Runs("nc_gru/table2", f"{label} T=200")


def _adding(label: str) -> Runs:
    return Runs("nc_gru/table3", f"{label} T=200", reduced=Length("epochs", 2))


def _copying(label: str) -> Runs:
    return Runs("nc_gru/table4", f"{label} T=1000", reduced=Length("steps", 3_000))


def _characters(label: str) -> Runs:
    return Runs("nc_gru/table5", label, _PTB_SEED, reduced=Length("epochs", 1))


def _series(label: str) -> Runs:
    return Runs("nc_gru/fig5", f"NC-GRU(U_c) 56 {label} T=100")


def _epoch(label: str) -> Runs:
    return Runs("nc_gru/fig6", f"NC-GRU(U_c) 435 {label}", _PTB_SEED)


CLAIMS = (
    Claim(
        id="ncgru-parenthesis",
        paper="NC-GRU",
        sentence="Counting brackets over 100 steps: NC-GRU reaches the lowest loss.",
        place="section 4.1, table 1",
        test=(
            *(
                Less(_parenthesis("NC-GRU(U_c) 56", *_FIVE_SEEDS), _parenthesis(rival))
                for rival in ("LSTM 42", "GRU 50", "scoRNN 110")
            ),
            Less(_parenthesis("NC-GRU(U_c) 56", *_FIVE_SEEDS), _parenthesis("GORU 64", 0)),
        ),
        note="GORU has one seed, NC-GRU five, the other networks three.",
    ),
    Claim(
        id="ncgru-denoise",
        paper="NC-GRU",
        sentence="Denoising over 200 steps: the loss of NC-GRU is 2.7 to 6 times lower than that "
        "of the other networks.",
        place="section 4.2, table 2",
        test=tuple(
            Less(_denoise("NC-GRU(U_c) 118"), _denoise(rival), factor=2)
            for rival in ("LSTM 90", "GRU 100", "scoRNN 200", "GORU 128")
        ),
        note="The test asks for a factor of 2.",
    ),
    Claim(
        id="ncgru-adding",
        paper="NC-GRU",
        sentence="Adding with 200 steps: NC-GRU with one orthogonal matrix has the lowest error.",
        place="section 4.3, table 3",
        test=tuple(
            Less(_adding("NC-GRU(U_c) 80"), _adding(rival))
            for rival in ("LSTM 68", "GRU 70", "scoRNN 190", "GORU 128", "NC-GRU(U_c,U_r) 80")
        ),
    ),
    Claim(
        id="ncgru-copy",
        paper="NC-GRU",
        sentence="Copying with a delay of 1000: NC-GRU ends between scoRNN and the GRU.",
        place="section 4.4, table 4",
        test=(
            Less(_copying("scoRNN 190"), _copying("NC-GRU(U_c) 96")),
            Less(_copying("NC-GRU(U_c) 96"), _copying("GRU 78")),
        ),
    ),
    Claim(
        id="ncgru-ptb",
        paper="NC-GRU",
        sentence="Penn Treebank by characters: NC-GRU needs fewer bits than a GRU and an LSTM.",
        place="section 4.5, table 5",
        test=tuple(
            Less(_characters("NC-GRU(U_c) 435"), _characters(rival))
            for rival in ("GRU 416", "LSTM 361")
        ),
        note="One layer each, with equal numbers of parameters.",
    ),
    Claim(
        id="ncgru-neumann",
        paper="NC-GRU",
        sentence="A Neumann series of order 2 is as good as the exact inverse, and an epoch takes "
        "less time.",
        place="section 5.1, figures 5 and 6",
        test=(
            Less(_parenthesis("NC-GRU(U_c) 56", 0), _series("inverse"), factor=0.5),
            Less(_epoch("Neumann 2"), _epoch("inverse")),
        ),
        note="The networks of table 1 use the series of order 2. As good means "
        "at most twice the loss of the exact inverse. We solve for the inverse "
        "by LU decomposition on a CPU, the paper by least squares on a GPU.",
    ),
)
"""In the order of the paper."""
