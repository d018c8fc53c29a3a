"""The claims of scoRNN's paper."""

from eigenrnn_experiments.training.run_key import Length
from reproduction.claim import (
    Claim,
    Median,
    Runs,
    TrueIn,
    accuracy,
    at_least,
    at_most,
    last,
    less,
    of_chance,
    steps_below,
    steps_between,
)

__all__ = ["CLAIMS"]

THREE_SEEDS = (0, 1, 2)
SHORT = Length("steps", 2_500)
LOSS = of_chance(last("test_loss"))
LEAVES_CHANCE = steps_below(0.9)
FALLS = steps_between(0.9, 0.1)
HALVES = steps_below(0.5)


def copying(label: str, delay: int, least: Length | None = None) -> Runs:
    """Return the runs of a network on copying."""
    return Runs("scornn/fig1", f"{label} T={delay}", THREE_SEEDS, least=least)


def pixels(label: str, table: str) -> Runs:
    """Return the runs of a network on MNIST pixel by pixel."""
    return Runs(f"scornn/{table}", label, least=Length("epochs", 20))


SCORNN_1000 = copying("scoRNN 190", 1000, SHORT)
URNN_1000 = copying("full-capacity uRNN 128", 1000, SHORT)
LSTM_1000 = copying("LSTM 68", 1000, SHORT)
SCORNN_2000 = copying("scoRNN 190", 2000)
URNN_2000 = copying("full-capacity uRNN 128", 2000)
URNN_SOLVES_2000 = at_most(URNN_2000, 90, LOSS)


def adding(label: str, length: int) -> Runs:
    """Return the runs of a network on adding."""
    return Runs("scornn/fig2", f"{label} T={length}", least=Length("epochs", 3))


ADDING_ORDER = tuple(
    less(adding(first, length), adding(second, length), HALVES)
    for length in (200, 400, 750)
    for first, second in (
        ("LSTM 60", "full-capacity uRNN 120"),
        ("full-capacity uRNN 120", "scoRNN 170"),
    )
)

CLAIMS = (
    Claim(
        id="scornn-copy-1000",
        paper="scoRNN",
        place="section 5.1, figure 1",
        sentence="Copying with a delay of 1000: scoRNN and the full-capacity uRNN solve it; the "
        "LSTM never leaves the chance level.",
        decides="scoRNN ends below 5 % of the chance level and the LSTM within 5 % of it; "
        "further, the full-capacity uRNN ends below 5 %. The paper says the same of the "
        "restricted-capacity uRNN as of the LSTM; we have not trained that network.",
        decisive=(at_most(SCORNN_1000, 5, LOSS), at_least(LSTM_1000, 95, LOSS)),
        further=(at_most(URNN_1000, 5, LOSS),),
        changed="2026-11-24T00:09:34+00:00",
        seeds=3,
        verdict="holds",
        seen="scoRNN ends at {scornn} % of the chance level, the full-capacity uRNN at {urnn} %, "
        "and the LSTM stays at {lstm} %.",
        numbers={
            "scornn": Median("2.2", SCORNN_1000, LOSS),
            "urnn": Median("0.0001", URNN_1000, LOSS),
            "lstm": Median("100.1", LSTM_1000, LOSS),
        },
    ),
    Claim(
        id="scornn-copy-2000",
        paper="scoRNN",
        place="section 5.1, figure 1",
        sentence="Copying with a delay of 2000: scoRNN leaves the chance level gradually; the "
        "full-capacity uRNN stays there for thousands of updates, then falls.",
        decides="scoRNN falls below 90 % of the chance level first, the uRNN after 2,000 updates "
        "or more, and the uRNN ends below 90 %. Further, scoRNN takes more updates than the uRNN "
        "to fall from 90 to 10 %. The test first asked for the fall of the uRNN without making it "
        "decisive, so that a network that learns nothing earned a *partly*.",
        decisive=(
            less(SCORNN_2000, URNN_2000, LEAVES_CHANCE),
            at_least(URNN_2000, 2_000, LEAVES_CHANCE),
            URNN_SOLVES_2000,
        ),
        further=(less(URNN_2000, SCORNN_2000, FALLS),),
        changed="2026-11-26T05:25:40+00:00",
        seeds=3,
        verdict="fails",
        seen="scoRNN falls below 90 % of the chance level after {scornn} updates, and from there "
        "to 10 % in {falls}. The full-capacity uRNN {never} falls: it ends at {urnn} %, below 90 "
        "% in {solved} runs.",
        numbers={
            "scornn": Median("300", SCORNN_2000, LEAVES_CHANCE),
            "falls": Median("3,850", SCORNN_2000, FALLS),
            "never": Median("never", URNN_2000, LEAVES_CHANCE),
            "urnn": Median("100.0", URNN_2000, LOSS),
            "solved": TrueIn("0 of 3", URNN_SOLVES_2000),
        },
        tried="Our full-capacity uRNN solves a delay of 1000, and stays at the chance level with "
        "2000 for all 10,000 updates. We also trained it in a training loop written separately, "
        "with RMSprop as in the authors' code, whose accumulator starts at 1e-3 and which has no "
        "epsilon. It stayed at the chance level there too (one seed, not archived).",
    ),
    Claim(
        id="scornn-adding",
        paper="scoRNN",
        place="section 5.2, figure 2",
        sentence="Adding: the LSTM, the full-capacity uRNN and scoRNN fall below the chance "
        "level, in this order.",
        decides="The order of the first updates with a test loss below half of the chance level, "
        "over 200, 400 and 750 steps. Before its runs the test asked for all 10 epochs; it now "
        "counts trainings of at least 3, as they say what falls first.",
        decisive=ADDING_ORDER,
        changed="2026-11-27T20:30:00+00:00",
        verdict="fails",
        seen="scoRNN falls first. Over 200 steps it is below half of the chance level after "
        "{scornn_200} updates, the LSTM after {lstm_200} and the full-capacity uRNN {urnn_200} in "
        "all 20,000. Over 400 steps it takes {scornn_400} updates and the LSTM {lstm_400}; the "
        "uRNN {urnn_400} falls so far in 10,000. That scoRNN is ahead of the uRNN decides. One "
        "seed; over 750 steps the uRNN was not trained.",
        numbers={
            "scornn_200": Median("2,600", adding("scoRNN 170", 200), HALVES),
            "lstm_200": Median("4,300", adding("LSTM 60", 200), HALVES),
            "urnn_200": Median("never", adding("full-capacity uRNN 120", 200), HALVES),
            "scornn_400": Median("5,800", adding("scoRNN 170", 400), HALVES),
            "lstm_400": Median("8,600", adding("LSTM 60", 400), HALVES),
            "urnn_400": Median("never", adding("full-capacity uRNN 120", 400), HALVES),
        },
        tried="The lowest test losses of the uRNN are 52 and 92 % of the chance level, between "
        "spikes. It is a network that the paper compares with. Over 750 steps scoRNN falls below "
        "half of the chance level after 9,300 updates, and the LSTM stays above it in 10,000. "
        "From seed 11, trained after the verdict was written, scoRNN takes 2,700 updates over 200 "
        "steps and the LSTM 5,000.",
    ),
    Claim(
        id="scornn-psmnist",
        paper="scoRNN",
        place="section 5.3, table 2",
        sentence="Permuted MNIST: scoRNN with 360 units is more accurate than an LSTM with 128 "
        "units, which has about as many parameters.",
        decides="The accuracy on the test set after equally many epochs, at least 20 of 70.",
        decisive=(less(pixels("LSTM 128", "table2"), pixels("scoRNN 360", "table2"), accuracy),),
        changed="2026-11-24T00:09:34+00:00",
        verdict="holds",
        seen="After 20 epochs, from one seed, scoRNN reaches {scornn} on the test set and the "
        "LSTM {lstm}. The paper trains for 70 epochs.",
        numbers={
            "scornn": Median("0.950", pixels("scoRNN 360", "table2"), accuracy),
            "lstm": Median("0.901", pixels("LSTM 128", "table2"), accuracy),
        },
    ),
    Claim(
        id="scornn-smnist",
        paper="scoRNN",
        place="section 5.3, table 1",
        sentence="MNIST pixel by pixel, in order: the LSTM is the most accurate network.",
        decides="The accuracy on the test set of the LSTM with 128 units and of scoRNN with 360, "
        "after equally many epochs, at least 20 of 70.",
        decisive=(less(pixels("scoRNN 360", "table1"), pixels("LSTM 128", "table1"), accuracy),),
        changed="2026-11-24T00:09:34+00:00",
        verdict="fails",
        seen="After 20 epochs, from one seed, scoRNN reaches {scornn} on the test set. Our LSTM "
        "hardly learns with the authors' settings: {lstm}, where the paper prints 0.987 after 70 "
        "epochs.",
        numbers={
            "scornn": Median("0.977", pixels("scoRNN 360", "table1"), accuracy),
            "lstm": Median("0.348", pixels("LSTM 128", "table1"), accuracy),
        },
        tried="The LSTM has the settings of the paper's authors: their RMSprop with a rate of "
        "1e-3, a forget bias of 1, no clipping. It hardly learns: between 0.04 and 0.36 of the "
        "validation set, up and down, until the end; the paper prints 0.987 after 70 epochs. We "
        "have tried no other rate. The same network reaches 0.901 on permuted MNIST.",
    ),
)
"""In the order of the paper."""
