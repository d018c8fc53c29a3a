"""The claims of scoRNN's paper."""

from eigenrnn.experiments.claims.claim import (
    AtLeast,
    AtMost,
    Claim,
    Less,
    Runs,
    accuracy,
    last,
    of_baseline,
    steps_below,
)
from eigenrnn.experiments.training.run_key import Length

__all__ = ["CLAIMS"]

_SOLVED, _UNSOLVED = 0.1, 0.9  # of the chance-level loss
_SHORT = Length("steps", 2_500)
_LOSS = of_baseline(last("test_loss"))


def _copying(label: str, delay: int, reduced: Length | None = None) -> Runs:
    return Runs("scornn/fig1", f"{label} T={delay}", reduced=reduced)


def _adding(label: str, length: int) -> Runs:
    return Runs("scornn/fig2", f"{label} T={length}")


def _pixels(label: str, table: str, epochs: int) -> Runs:
    return Runs(f"scornn/{table}", label, reduced=Length("epochs", epochs))


_HALF = steps_below(0.5)

CLAIMS = (
    Claim(
        id="scornn-copy-1000",
        paper="scoRNN",
        sentence="Copying with a delay of 1000: scoRNN and the full-capacity uRNN solve it; the "
        "LSTM and the restricted-capacity uRNN never leave the chance level.",
        place="section 5.1, figure 1",
        test=(
            AtMost(_copying("scoRNN 190", 1000), _SOLVED, _LOSS),
            AtMost(_copying("full-capacity uRNN 128", 1000, _SHORT), _SOLVED, _LOSS),
            AtLeast(_copying("LSTM 68", 1000), _UNSOLVED, _LOSS),
        ),
        note="The restricted-capacity uRNN is not part of the test.",
    ),
    Claim(
        id="scornn-copy-2000",
        paper="scoRNN",
        sentence="Copying with a delay of 2000: scoRNN leaves the chance level gradually; the "
        "full-capacity uRNN stays there for thousands of updates.",
        place="section 5.1, figure 1",
        test=(
            AtMost(_copying("scoRNN 190", 2000), _UNSOLVED, _LOSS),
            AtLeast(
                _copying("full-capacity uRNN 128", 2000, _SHORT), 2_000, steps_below(_UNSOLVED)
            ),
        ),
    ),
    Claim(
        id="scornn-adding",
        paper="scoRNN",
        sentence="Adding: the LSTM, the full-capacity uRNN and scoRNN fall below the chance "
        "level, in this order.",
        place="section 5.2, figure 2",
        test=tuple(
            Less(_adding(first, length), _adding(second, length), number=_HALF)
            for length in (200, 400, 750)
            for first, second in (
                ("LSTM 60", "full-capacity uRNN 120"),
                ("full-capacity uRNN 120", "scoRNN 170"),
            )
        ),
        note="A network falls below the chance level where its test loss is first below half "
        "of it.",
    ),
    Claim(
        id="scornn-psmnist",
        paper="scoRNN",
        sentence="Permuted MNIST: scoRNN with 360 units is more accurate than an LSTM with 128 "
        "units, which has about as many parameters.",
        place="section 5.3, table 2",
        test=(
            Less(
                _pixels("LSTM 128", "table2", 1),
                _pixels("scoRNN 360", "table2", 1),
                number=accuracy,
            ),
        ),
    ),
    Claim(
        id="scornn-smnist",
        paper="scoRNN",
        sentence="MNIST pixel by pixel, in order: the LSTM is the most accurate network.",
        place="section 5.3, table 1",
        test=(
            Less(
                _pixels("scoRNN 360", "table1", 5),
                _pixels("LSTM 128", "table1", 5),
                number=accuracy,
            ),
        ),
    ),
)
"""In the order of the paper."""
