"""The claims of ENRNN's paper."""

from eigenrnn_experiments.training.run_key import Length
from reproduction.claim import (
    Check,
    Claim,
    Median,
    Runs,
    TrueIn,
    at_least,
    last,
    less,
    of_chance,
    steps_below,
    value,
)

__all__ = ["CLAIMS"]

THREE_SEEDS = (0, 1, 2)
TWO_EPOCHS = Length("epochs", 2)
LOSS = of_chance(last("test_loss"))
NEAR_ZERO = steps_below(0.1)


def adding(label: str, least: Length | None = TWO_EPOCHS) -> Runs:
    """Return the runs of a network on adding."""
    return Runs("enrnn/fig1", label, THREE_SEEDS, least=least)


def copying(label: str) -> Runs:
    """Return the runs of a network on copying."""
    return Runs("enrnn/fig2", label, THREE_SEEDS)


def split(units: str) -> Runs:
    """Return the runs of an ENRNN with these numbers of long and short units."""
    return Runs("enrnn/fig7", f"ENRNN {units}", THREE_SEEDS)


def first(rival: str) -> Check:
    """Return the comparison in which ENRNN is near zero before another network."""
    return less(adding("ENRNN 96/64"), adding(rival), NEAR_ZERO, margin=300)


FULL_ENRNN = adding("ENRNN 96/64", None)
FULL_SPECTRAL = adding("Spectral RNN 60", None)
SPECTRAL_ENDS_LOWER = less(FULL_SPECTRAL, FULL_ENRNN, LOSS)
SPEECH_ENRNN = Runs("enrnn/table2-free", "ENRNN 374/94")
SPEECH_LSTM = Runs("enrnn/table2-free", "LSTM 158")
CHARACTERS_ENRNN = Runs("enrnn/table3", "ENRNN 310/720")
CHARACTERS_LSTM = Runs("enrnn/table3", "LSTM 350")

CLAIMS = (
    Claim(
        id="enrnn-adding",
        paper="ENRNN",
        place="section 5.1, figure 1",
        sentence="Adding with 750 steps: ENRNN is the first network whose error is near zero; "
        "only Spectral RNN ends at a lower one.",
        decides="The first update with a test loss below a tenth of the chance level. Two "
        "networks within 300 updates of each other are a tie: so much the same seed differs "
        "between two machines. First updates are compared up to the end of the shorter of two "
        "trainings, and a pair in which neither network gets there does not count; this was added "
        "after the runs and changes no verdict. Further, Spectral RNN ends lower than ENRNN. Our "
        "Spectral RNN has 1,981 parameters, the paper's about 15,000.",
        decisive=(
            first("LSTM 60"),
            first("Spectral RNN 60"),
            first("scoRNN 170"),
            first("oRNN 128"),
            first("full-capacity uRNN 120"),
        ),
        further=(SPECTRAL_ENDS_LOWER,),
        changed="2026-11-26T05:30:02+00:00",
        seeds=3,
        verdict="fails",
        seen="ENRNN falls below 10 % of the chance level after {enrnn} updates, oRNN after {ornn} "
        "and Spectral RNN after {spectral}. In 4,000 updates the LSTM {lstm} gets there, scoRNN "
        "{scornn} and the full-capacity uRNN {urnn}. But ENRNN is ahead of oRNN in only {ahead} "
        "pairs. Spectral RNN ends at {spectral_end} % and ENRNN at {enrnn_end} %; Spectral RNN is "
        "lower in only {lower} pairs.",
        numbers={
            "enrnn": Median("3,100", adding("ENRNN 96/64"), NEAR_ZERO),
            "ornn": Median("3,200", adding("oRNN 128"), NEAR_ZERO),
            "spectral": Median("7,800", adding("Spectral RNN 60"), NEAR_ZERO),
            "lstm": Median("never", adding("LSTM 60"), NEAR_ZERO),
            "scornn": Median("never", adding("scoRNN 170"), NEAR_ZERO),
            "urnn": Median("never", adding("full-capacity uRNN 120"), NEAR_ZERO),
            "ahead": TrueIn("4 of 8", first("oRNN 128")),
            "spectral_end": Median("2.6", FULL_SPECTRAL, LOSS),
            "enrnn_end": Median("2.2", FULL_ENRNN, LOSS),
            "lower": TrueIn("5 of 9", SPECTRAL_ENDS_LOWER),
        },
        tried="ENRNN comes below a tenth of the chance level with every seed, after 3,100, 2,400 "
        "and 4,100 updates. oRNN does so with two of three in 4,000 updates, after 3,000 and "
        "3,200: of six pairs with these, ENRNN is earlier in two, later in two, and within 300 "
        "updates in two. The LSTM, scoRNN and the full-capacity uRNN stay at the chance level in "
        "4,000 updates, of 12,000. With the printed rate of 1e-2, Spectral RNN ends at it after "
        "all 12,000 updates, with each of three seeds, which the archive no longer has. So it "
        "trains at 1e-3 here, where it comes below a tenth of the chance level after 11,200, "
        "7,800 and 5,900 updates and ends at 0.0009 to 0.0049, about as low as ENRNN (0.0036 in "
        "the median). In the paper it ends lower. The paper states about 15,000 parameters for "
        "it, which no number of reflections gives; the 16 reflections of its text give 1,981. So "
        "its network is not known.",
    ),
    Claim(
        id="enrnn-copy",
        paper="ENRNN",
        place="section 5.2, figure 2",
        sentence="Copying with a delay of 2000: ENRNN ends lowest, and LSTMs stay at the chance "
        "level.",
        decides="The last test loss. Further, the LSTM ends within 5 % of the chance level. The "
        "LSTM with 192 units is not part of the test.",
        decisive=(
            less(copying("ENRNN 192"), copying("scoRNN 190"), LOSS),
            less(copying("ENRNN 192"), copying("full-capacity uRNN 128"), LOSS),
            less(copying("ENRNN 192"), copying("LSTM 68"), LOSS),
        ),
        further=(at_least(copying("LSTM 68"), 95, LOSS),),
        changed="2026-11-24T00:09:34+00:00",
        seeds=3,
        verdict="holds",
        seen="ENRNN ends at {enrnn} % of the chance level, scoRNN at {scornn} %, the "
        "full-capacity uRNN at {urnn} % and the LSTM at {lstm} %.",
        numbers={
            "enrnn": Median("0.73", copying("ENRNN 192"), LOSS),
            "scornn": Median("12.2", copying("scoRNN 190"), LOSS),
            "urnn": Median("100.1", copying("full-capacity uRNN 128"), LOSS),
            "lstm": Median("100.1", copying("LSTM 68"), LOSS),
        },
    ),
    Claim(
        id="enrnn-both",
        paper="ENRNN",
        place="section 6, figure 7",
        sentence="Adding with 750 steps: a network with both memories ends lower than one with "
        "the long or the short memory alone.",
        decides="The last test loss of ENRNN with 96 long and 64 short units against that with "
        "160 long or 160 short ones; further, the same of ENRNN with 64 long and 96 short units.",
        decisive=(
            less(FULL_ENRNN, split("160/0"), LOSS),
            less(FULL_ENRNN, split("0/160"), LOSS),
        ),
        further=(
            less(split("64/96"), split("160/0"), LOSS),
            less(split("64/96"), split("0/160"), LOSS),
        ),
        changed="2026-11-24T00:09:34+00:00",
        seeds=3,
        verdict="holds",
        seen="ENRNN ends at {both} % of the chance level with 96 long and 64 short units, and at "
        "{other} % with 64 long and 96 short ones. With 160 short units alone it ends at {short} "
        "%, and with 160 long ones at {long} %.",
        numbers={
            "both": Median("2.2", FULL_ENRNN, LOSS),
            "other": Median("2.9", split("64/96"), LOSS),
            "short": Median("47.6", split("0/160"), LOSS),
            "long": Median("98.8", split("160/0"), LOSS),
        },
    ),
    Claim(
        id="enrnn-speech",
        paper="ENRNN",
        place="section 5.3, table 2",
        sentence="Speech: the error of ENRNN is far below that of an LSTM of equal size.",
        decides="The squared error on the test set of the Free Spoken Digit Dataset, not of "
        "TIMIT. Far below is a factor of 2. The LSTM with 468 units is not part of the test.",
        decisive=(less(SPEECH_ENRNN, SPEECH_LSTM, factor=2),),
        changed="2026-11-24T00:09:34+00:00",
        verdict="fails",
        seen="On free spoken digits, in place of TIMIT, ENRNN ends at a squared error of {enrnn}, "
        "above the LSTM's {lstm}.",
        numbers={
            "enrnn": Median("15.9", SPEECH_ENRNN, value),
            "lstm": Median("14.8", SPEECH_LSTM, value),
        },
        tried="After all 300 epochs on spoken digits, from one seed, ENRNN is at 15.9 and the "
        "LSTM with as many parameters at 14.8 on the test set. ENRNN learns first: after 660 of "
        "the 25,800 updates its training loss is 60, and after 688 that of the LSTM 83. From "
        "10,000 updates on its validation error stays between 13.9 and 14.7. The paper's "
        "recordings, TIMIT, are not free. Ours are single digits, 0.4 s long in the median, "
        "spoken by six people: the claim fails on these, and the paper's table was not repeated. "
        "Only the settings of the paper were tried.",
    ),
    Claim(
        id="enrnn-ptb",
        paper="ENRNN",
        place="section 5.4, table 3",
        sentence="Penn Treebank by characters: ENRNN needs fewer bits than an LSTM of equal size.",
        decides="The bits a character at the paper's full length: its numbers are 0.03 bits "
        "apart, which only full runs can show.",
        decisive=(less(CHARACTERS_ENRNN, CHARACTERS_LSTM),),
        changed="2026-11-24T00:09:34+00:00",
        hours=22,
    ),
)
"""In the order of the paper."""
