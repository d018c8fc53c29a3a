"""The claims of ENRNN's paper."""

from eigenrnn.experiments.claims.claim import (
    AtLeast,
    Claim,
    Less,
    Runs,
    last,
    of_baseline,
    steps_below,
)
from eigenrnn.experiments.training.run_key import Length

__all__ = ["CLAIMS"]

_ADDING = "enrnn/fig1"
_TWO_EPOCHS = Length("epochs", 2)
_LOSS = last("test_loss")
_NEAR_ZERO = steps_below(0.1)


def _copying(label: str) -> Runs:
    return Runs("enrnn/fig2", label, reduced=Length("steps", 1_500))


def _split(units: str) -> Runs:
    return Runs("enrnn/fig7", f"ENRNN {units}", reduced=_TWO_EPOCHS)


def _speech(label: str) -> Runs:
    return Runs("enrnn/table2-free", label, reduced=Length("epochs", 30))


def _characters(label: str) -> Runs:
    return Runs("enrnn/table3", label, reduced=Length("epochs", 1))


CLAIMS = (
    Claim(
        id="enrnn-adding",
        paper="ENRNN",
        sentence="Adding with 750 steps: ENRNN is the first network whose error is near zero; "
        "only Spectral RNN ends at a lower one.",
        place="section 5.1, figure 1",
        test=(
            *(
                Less(
                    Runs(_ADDING, "ENRNN 96/64"),
                    Runs(_ADDING, rival, reduced=_TWO_EPOCHS),
                    number=_NEAR_ZERO,
                )
                for rival in (
                    "LSTM 60",
                    "Spectral RNN 60",
                    "scoRNN 170",
                    "oRNN 128",
                    "full-capacity uRNN 120",
                )
            ),
            Less(Runs(_ADDING, "Spectral RNN 60"), Runs(_ADDING, "ENRNN 96/64"), number=_LOSS),
        ),
        note="The error is near zero where it is first below a tenth of the chance level.",
    ),
    Claim(
        id="enrnn-copy",
        paper="ENRNN",
        sentence="Copying with a delay of 2000: ENRNN ends lowest, and LSTMs stay at the chance "
        "level.",
        place="section 5.2, figure 2",
        test=(
            *(
                Less(_copying("ENRNN 192"), _copying(rival), number=_LOSS)
                for rival in ("scoRNN 190", "full-capacity uRNN 128", "LSTM 68")
            ),
            AtLeast(_copying("LSTM 68"), 0.9, of_baseline(_LOSS)),
        ),
        note="The LSTM with 192 units is not part of the test.",
    ),
    Claim(
        id="enrnn-both",
        paper="ENRNN",
        sentence="Adding with 750 steps: a network with both memories ends lower than one with "
        "the long or the short memory alone.",
        place="section 6, figure 7",
        test=tuple(
            Less(_split(both), _split(alone), number=_LOSS)
            for both in ("96/64", "64/96")
            for alone in ("160/0", "0/160")
        ),
    ),
    Claim(
        id="enrnn-speech",
        paper="ENRNN",
        sentence="Speech: the error of ENRNN is far below that of LSTMs of equal size.",
        place="section 5.3, table 2",
        test=tuple(
            Less(_speech("ENRNN 374/94"), _speech(rival), factor=2)
            for rival in ("LSTM 158", "LSTM 468")
        ),
        note="On the Free Spoken Digit Dataset instead of TIMIT; far below is a factor of 2.",
    ),
    Claim(
        id="enrnn-ptb",
        paper="ENRNN",
        sentence="Penn Treebank by characters: ENRNN needs fewer bits than an LSTM.",
        place="section 5.4, table 3",
        test=(Less(_characters("ENRNN 310/720"), _characters("LSTM 350")),),
    ),
)
"""In the order of the paper."""
