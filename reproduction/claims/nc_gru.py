"""The claims of NC-GRU's paper."""

from dataclasses import replace

from eigenrnn_experiments.training.run import Length, Run
from reproduction.claim import Check, Claim, Median, Number, Runs, at_least, less, of_chance, value

__all__ = ["CLAIMS"]

THREE_SEEDS = (0, 1, 2)
LOSS = of_chance(value)


def brackets(network: str, length: int) -> Runs:
    """Return the runs of a network that counts brackets."""
    return Runs("nc_gru/table1", f"{network} T={length}", THREE_SEEDS)


def denoise(network: str) -> Runs:
    """Return the runs of a network on denoising."""
    return Runs("nc_gru/table2", f"{network} T=200", THREE_SEEDS)


def adding(network: str) -> Runs:
    """Return the runs of a network on adding."""
    return Runs("nc_gru/table3", f"{network} T=200", THREE_SEEDS)


def copying(network: str) -> Runs:
    """Return the runs of a network on copying."""
    return Runs("nc_gru/table4", f"{network} T=1000", THREE_SEEDS)


def characters(network: str) -> Runs:
    """Return the runs of a network on Penn Treebank."""
    return Runs("nc_gru/table5", network, (1111, 1112, 1113), least=Length("epochs", 20))


def two_matrices(rival: str, length: int) -> Check:
    """Return the comparison of NC-GRU with two matrices on brackets."""
    return less(brackets("NC-GRU(U_c,U_r) 56", length), brackets(rival, length), LOSS)


def lowest(rival: str) -> Check:
    """Return the comparison of NC-GRU with one matrix on adding."""
    return less(adding("NC-GRU(U_c) 80"), adding(rival), LOSS)


def _faster_pairs(run: Run) -> float | None:
    if run.value is None:
        return None
    return 200 * run.value


FASTER_PAIRS = Number("pairs of 200 in which the series is faster", _faster_pairs, is_ratio=False)
PAIRS = Runs("nc_gru/fig6", "NC-GRU(U_c) 435, Neumann 2 beside the inverse")
SERIES = replace(brackets("NC-GRU(U_c) 56", 100), seeds=(0, 1, 2, 3, 4))
INVERSE = Runs("nc_gru/fig5", "NC-GRU(U_c) 56 inverse T=100", (0, 1, 2, 3, 4))
RIVALS = ("LSTM 42", "GRU 50", "scoRNN 110", "GORU 64")

CLAIMS = (
    Claim(
        id="ncgru-parenthesis",
        paper="NC-GRU",
        place="section 4.1, table 1",
        sentence="Counting brackets over 100 and 200 steps: NC-GRUs with one and with two "
        "orthogonal matrices reach lower losses than all other networks.",
        decides="The lowest training loss of NC-GRU with one matrix against the LSTM, the GRU of "
        "the paper's text, scoRNN and GORU; further, that of NC-GRU with two matrices, and the "
        "GRU of 100 units that the authors' script trains over 200 steps, which was added on 28 "
        "November.",
        decisive=tuple(
            less(brackets("NC-GRU(U_c) 56", length), brackets(rival, length), LOSS)
            for length in (100, 200)
            for rival in RIVALS
        ),
        further=(
            *(two_matrices(rival, length) for length in (100, 200) for rival in RIVALS),
            less(brackets("NC-GRU(U_c) 56", 200), brackets("GRU 100", 200), LOSS),
        ),
        changed="2026-11-28T14:10:00+00:00",
        verdict="partly",
        seen="Over 100 steps NC-GRU with one matrix reaches {one_100} % of the chance level, with "
        "two {two_100} %, the LSTM {lstm_100} %, GORU {goru_100} %, the GRU {gru_100} % and "
        "scoRNN {scornn_100} %. Over 200 steps, in this order, they reach {one_200}, {two_200}, "
        "{lstm_200}, {goru_200}, {gru_200} and {scornn_200} %.",
        numbers={
            "one_100": Median("0.24", brackets("NC-GRU(U_c) 56", 100), LOSS),
            "two_100": Median("0.51", brackets("NC-GRU(U_c,U_r) 56", 100), LOSS),
            "lstm_100": Median("0.64", brackets("LSTM 42", 100), LOSS),
            "goru_100": Median("0.64", brackets("GORU 64", 100), LOSS),
            "gru_100": Median("1.6", brackets("GRU 50", 100), LOSS),
            "scornn_100": Median("11.6", brackets("scoRNN 110", 100), LOSS),
            "one_200": Median("0.20", brackets("NC-GRU(U_c) 56", 200), LOSS),
            "two_200": Median("0.49", brackets("NC-GRU(U_c,U_r) 56", 200), LOSS),
            "lstm_200": Median("0.96", brackets("LSTM 42", 200), LOSS),
            "goru_200": Median("0.81", brackets("GORU 64", 200), LOSS),
            "gru_200": Median("9.1", brackets("GRU 50", 200), LOSS),
            "scornn_200": Median("12.7", brackets("scoRNN 110", 200), LOSS),
        },
        why="over 100 steps two matrices, the LSTM and GORU differ by less than their seeds",
        tried="Only the settings of the paper were tried for NC-GRU with two matrices; its rows "
        '"as released" have no runs.',
        hours=0.2,
    ),
    Claim(
        id="ncgru-denoise",
        paper="NC-GRU",
        place="section 4.2, table 2",
        sentence="Denoising over 200 steps: the loss of NC-GRU is 2.7 to 6 times lower than that "
        "of the other networks.",
        decides="Twice the loss of NC-GRU with one matrix is below that of the LSTM, the GRU, "
        "scoRNN and GORU. Until 28 November one seed was enough; by that test the claim fails.",
        decisive=tuple(
            less(denoise("NC-GRU(U_c) 118"), denoise(rival), LOSS, factor=2)
            for rival in ("LSTM 90", "GRU 100", "scoRNN 200", "GORU 128")
        ),
        changed="2026-11-28T14:10:00+00:00",
        verdict="refuted at our settings",
        before="fails",
        why="GORU ends above NC-GRU by a factor of 1.16, where the test asks for 2 and the paper "
        "prints 2.7; seeds differ by 1.17 (three each). scoRNN, the GRU and the LSTM, with three "
        "seeds each, end at more than twice the loss of NC-GRU",
        seen="NC-GRU with one matrix reaches {ncgru} % of the chance level, GORU {goru} %, scoRNN "
        "{scornn} %, the GRU {gru} % and the LSTM {lstm} %.",
        numbers={
            "ncgru": Median("27.7", denoise("NC-GRU(U_c) 118"), LOSS),
            "goru": Median("32.3", denoise("GORU 128"), LOSS),
            "scornn": Median("75.0", denoise("scoRNN 200"), LOSS),
            "gru": Median("99.8", denoise("GRU 100"), LOSS),
            "lstm": Median("100.1", denoise("LSTM 90"), LOSS),
        },
        tried="We also trained NC-GRU as the released code computes it, which departs from the "
        "paper's formulas: it ends as high (33.5 %, one seed).",
    ),
    Claim(
        id="ncgru-adding",
        paper="NC-GRU",
        place="section 4.3, table 3",
        sentence="Adding with 200 steps: NC-GRU with one orthogonal matrix has the lowest error.",
        decides="The lowest test loss against the LSTM, the GRU, scoRNN, GORU and NC-GRU with two "
        "matrices.",
        decisive=(
            lowest("LSTM 68"),
            lowest("GRU 70"),
            lowest("scoRNN 190"),
            lowest("GORU 128"),
            lowest("NC-GRU(U_c,U_r) 80"),
        ),
        changed="2026-11-24T00:09:34+00:00",
        verdict="refuted at our settings",
        before="fails",
        why="GORU, with twice as many parameters, ends below NC-GRU by a factor of 1.5, where the "
        "seeds spread by 1.1; both are at a ten-thousandth of the chance level",
        seen="NC-GRU with one matrix reaches {one} % of the chance level, with two {two} %, GORU "
        "{goru} %, the GRU {gru} %, the LSTM {lstm} % and scoRNN {scornn} %. Each seed of GORU "
        "is below each of NC-GRU.",
        numbers={
            "one": Median("0.015", adding("NC-GRU(U_c) 80"), LOSS),
            "two": Median("0.016", adding("NC-GRU(U_c,U_r) 80"), LOSS),
            "goru": Median("0.010", adding("GORU 128"), LOSS),
            "gru": Median("0.010", adding("GRU 70"), LOSS),
            "lstm": Median("0.014", adding("LSTM 68"), LOSS),
            "scornn": Median("0.55", adding("scoRNN 190"), LOSS),
        },
        tried="The medians of all networks but scoRNN are within a factor of two of each other, "
        "at a ten-thousandth of the chance level, where a loss still jumps by a factor of two "
        "between evaluations. The code of this task was never released. The GRU and the LSTM are "
        "level with NC-GRU. Only the settings of the paper were tried: no other rate, and not the "
        "formulas of the released code.",
    ),
    Claim(
        id="ncgru-copy",
        paper="NC-GRU",
        place="section 4.4, table 4",
        sentence="Copying with a delay of 1000: NC-GRU ends between scoRNN and the GRU.",
        decides="The lowest test loss of scoRNN, of NC-GRU with one matrix and of the GRU.",
        decisive=(
            less(copying("scoRNN 190"), copying("NC-GRU(U_c) 96"), LOSS),
            less(copying("NC-GRU(U_c) 96"), copying("GRU 78"), LOSS),
        ),
        changed="2026-11-24T00:09:34+00:00",
        verdict="holds",
        seen="scoRNN reaches {scornn} % of the chance level, NC-GRU with one matrix {ncgru} % and "
        "the GRU {gru} %.",
        numbers={
            "scornn": Median("0.10", copying("scoRNN 190"), LOSS),
            "ncgru": Median("40.6", copying("NC-GRU(U_c) 96"), LOSS),
            "gru": Median("74.1", copying("GRU 78"), LOSS),
        },
    ),
    Claim(
        id="ncgru-ptb",
        paper="NC-GRU",
        place="section 4.5, table 5",
        sentence="Penn Treebank by characters: NC-GRU needs fewer bits than a GRU and an LSTM.",
        decides="The bits a character of one layer each, with equal numbers of parameters, after "
        "equally many epochs, at least 20 of 100.",
        decisive=(
            less(characters("NC-GRU(U_c) 435"), characters("GRU 416")),
            less(characters("NC-GRU(U_c) 435"), characters("LSTM 361")),
        ),
        changed="2026-11-28T14:10:00+00:00",
        hours=16,
    ),
    Claim(
        id="ncgru-neumann",
        paper="NC-GRU",
        place="section 5.1, figures 5 and 6",
        sentence="A Neumann series of order 2 is as good as the exact inverse, and an update "
        "takes less time.",
        decides="The paper even says better; no test here asks for that. As good means at most "
        "twice the loss of the exact inverse on brackets. Further, the series takes less "
        "processor time in three quarters of 200 pairs of updates in turn. A first measurement "
        "had 139 pairs and failed. Then the test became a sign test, which asks for 117, a second "
        "measurement had 143, and the claim held. A difference of 1 % is no shorter update, so "
        "the first test stands again since 28 November. We solve for the inverse by LU "
        "decomposition on a CPU, the paper by least squares on a GPU.",
        decisive=(less(SERIES, INVERSE, LOSS, factor=0.5),),
        further=(at_least(PAIRS, 150, FASTER_PAIRS),),
        changed="2026-11-28T14:10:00+00:00",
        verdict="partly",
        before="holds",
        why="as good, but not faster: 139 and 143 of 200 pairs, where the first test asks for 150",
        seen="The series reaches {series} % of the chance level and the inverse {inverse} %. The "
        "series takes less time in {pairs} of 200 pairs of updates.",
        numbers={
            "series": Median("0.24", SERIES, LOSS),
            "inverse": Median("0.31", INVERSE, LOSS),
            "pairs": Median("143", PAIRS, FASTER_PAIRS),
        },
        tried="The mean update takes 1 % less time with the series. The two times of an epoch in "
        "the table below are of single runs beside other programs.",
    ),
)
"""In the order of the paper."""
