"""The recipes of Orhan and Pitkow: searches, initialisation, settings and printed numbers."""

import csv
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

import synthetic_data
from eigenrnn.models import count_parameters
from eigenrnn_experiments.recipes import Row, reproduce
from eigenrnn_experiments.recipes.nonnormal import RECIPES
from eigenrnn_experiments.recipes.nonnormal.toys import henrici_index
from eigenrnn_experiments.tasks import Enwik8
from training_run import QUIET, one_thread

TABLES = {recipe.name.removeprefix("nonnormal/"): recipe for recipe in RECIPES}
ROWS = {f"{place}: {row.label}": row for place, recipe in TABLES.items() for row in recipe.rows}

TOYS = ("copying", "adding", "psMNIST")
SUCCESSES = {"identity": 0, "ortho": 0, "chain": 46 / 462, "feedback chain": 11 / 462}

# number of symbols, width of the embedding and number of units
NETWORKS = {
    "words": (10_000, 400, 1150),
    "characters": (50, 200, 1000),
    "enwik8": (205, 400, 1840),
}
# epochs, batch size, learning rate, and the epochs after which it decays
# dropout probabilities: embedding, input, hidden, output and weight
DROPOUTS = {
    "table1: chain words": (0.1, 0.1, 0.1, 0.1, 0.1),
    "table1: chain characters": (0.0, 0.1, 0.1, 0.1, 0.1),
    "table4: chain words": (0.1, 0.4, 0.25, 0.4, 0.5),
    "table4: chain characters": (0.0, 0.1, 0.25, 0.1, 0.5),
}
PRINTED = {
    "table1": {
        "identity": (6.550, 1.312, 1.783),
        "ortho": (6.557, 1.312, 1.843),
        "chain": (6.514, 1.308, 1.803),
        "feedback chain": (6.510, 1.307, 1.774),
        "3-layer LSTM": (5.878, 1.175, 1.232),
    },
    "table4": {
        "ortho": (5.937, 1.230, 1.583),
        "chain": (5.935, 1.230, 1.586),
        "plain": (5.949, 1.245, 1.584),
        "mixed": (5.944, 1.227, 1.577),
    },
}


def recurrent_matrices(model):
    """The recurrent matrix of each layer."""
    layers = model.layers if hasattr(model, "layers") else [model.layer]
    return [layer.all_directions()[0].constraint().detach() for layer in layers]


def csv_rows(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def band(n, below, above=0.0):
    """A matrix with one constant below its diagonal and one above."""
    return torch.diag(torch.full((n - 1,), below), -1) + torch.diag(torch.full((n - 1,), above), 1)


def expected_parameters(symbols, embedding, units, gates=1, biases=1):
    widths = pairwise((embedding, units, units, embedding))
    layers = sum(gates * n * (m + n + biases) for m, n in widths)
    return symbols * (embedding + 1) + layers


@pytest.mark.parametrize("toy", TOYS)
@pytest.mark.parametrize(
    ("start", "runs"), [("identity", 594), ("ortho", 594), ("chain", 462), ("feedback chain", 462)]
)
def test_a_search_has_as_many_runs_as_the_paper(start, runs, toy):
    row = ROWS[f"fig3: {start} {toy}"]
    assert len(row.points()) * len(TABLES["fig3"].seeds) == runs


def test_the_shares_of_successes_are_printed_for_copying_only():
    found = {row.label: row.reported[0].value for row in TABLES["fig3"].rows}
    copying = {
        label.removesuffix(" copying"): v for label, v in found.items() if "copying" in label
    }
    assert copying == SUCCESSES
    assert {value for label, value in found.items() if "copying" not in label} == {None}


def test_a_point_of_a_search_sets_learning_rate_and_initialisation():
    chain = ROWS["fig3: chain copying"].points()["lr=5e-05 alpha=1.03"]
    feedback = ROWS["fig3: feedback chain copying"].points()["lr=0.0008 beta=0.07"]
    ortho = ROWS["fig3: ortho copying"].points()["lr=3e-06 lambda=0.96"]
    assert (chain.settings.lr, feedback.settings.lr) == (5e-5, 8e-4)
    torch.testing.assert_close(recurrent_matrices(chain.build(1)), [band(100, 1.03)])
    torch.testing.assert_close(recurrent_matrices(feedback.build(1)), [band(100, 0.99, 0.07)])
    (W,) = recurrent_matrices(ortho.build(1))
    torch.testing.assert_close(W @ W.T, 0.96**2 * torch.eye(100))


def test_the_input_enters_a_chain_only_at_its_source():
    U = ROWS["fig3: chain copying"].build(1).layer.all_directions()[0].weight_ih
    assert torch.equal(U, 0.9 * torch.eye(100, 10))


@pytest.mark.parametrize("seed", [1, 6])
def test_every_seed_has_the_first_permutation_that_numpy_draws(seed):
    np.random.seed(seed)  # noqa: NPY002, as the released code does
    expected = np.random.permutation(784)  # noqa: NPY002
    task = ROWS["fig3: chain psMNIST"].with_seed(seed).task
    assert task.pixel_order.tolist() == expected.tolist()


@pytest.mark.parametrize("toy", ["copying", "adding"])
def test_every_seed_has_its_own_data(toy):
    row = ROWS[f"fig3: chain {toy}"].quick()
    one, two, again = (next(row.with_seed(s).task.batches("test", 5)).targets for s in (1, 2, 1))
    assert torch.equal(one, again)
    assert not torch.equal(one, two)


def test_a_row_whose_data_does_not_depend_on_the_seed_keeps_its_task():
    row = ROWS["table1: chain words"]
    assert row.with_seed(3).task is row.task


def test_the_index_is_written_at_every_evaluation(tmp_path):
    row = replace(ROWS["fig3: identity adding"], label="adding")
    recipe = replace(TABLES["fig3"], rows=(row,))
    with one_thread():
        reproduce(recipe, tmp_path, seeds=[1], quick=True, console=QUIET)
    (path,) = tmp_path.rglob("metrics.csv")
    *_, last = csv_rows(path)
    saved = torch.load(path.parent / "last.pt")["train_step"]["model"]
    W = next(weight for name, weight in saved.items() if name.endswith("constraint.raw"))
    assert float(last["henrici"]) == henrici_index(W) > 0


@pytest.mark.parametrize("text", NETWORKS)
def test_the_stated_parameters_follow_from_the_sizes(text):
    sizes = NETWORKS[text]
    assert ROWS[f"table1: ortho {text}"].parameters == expected_parameters(*sizes)
    assert ROWS[f"table4: ortho {text}"].parameters == expected_parameters(
        *sizes, gates=4, biases=2
    )


@pytest.mark.parametrize(
    ("text", "sizes", "released"),
    [
        ("words", (400, 1150, 1150, 400), 9_062_900),
        ("characters", (200, 1000, 1000, 200), 3_454_450),
        ("enwik8", (400, 1840, 1840, 400), 11_879_165),
    ],
)
def test_one_bias_a_layer_where_torch_has_two_is_a_departure(text, sizes, released):
    layers = [torch.nn.RNN(M, N, device="meta") for M, N in pairwise(sizes)]
    theirs = sum(map(count_parameters, layers))
    ours = sum(N * (M + N + 1) for M, N in pairwise(sizes))
    for recipe in (r for r in RECIPES if r.name in ("nonnormal/fig4", "nonnormal/table1")):
        rows = [r for r in recipe.rows if isinstance(r, Row) and r.label.endswith(text)]
        assert rows
        for row in rows:
            assert row.parameters + theirs - ours == released
            assert any(f"{released:,}" in departure for departure in row.departures), row.label


@pytest.mark.parametrize("name", ["table1: ortho enwik8", "table4: ortho enwik8"])
def test_a_network_on_bytes_has_the_expected_parameters(name, tmp_path):
    with synthetic_data.patched_enwik8(synthetic_data.synthetic_enwik8(), tmp_path) as folder:
        task = Enwik8(length=synthetic_data.SIZE, data_root=folder)
        row = replace(ROWS[name], task=task, hidden_size=8, parameters=None)
        gates = {"gates": 4, "biases": 2} if "table4" in name else {}
        assert count_parameters(row.build(0)) == expected_parameters(
            task.vocabulary, 400, 8, **gates
        )


@pytest.mark.usefixtures("data_root")
@pytest.mark.parametrize("name", DROPOUTS)
def test_three_layers_have_a_tied_embedding_and_the_published_dropout(name):
    model = replace(ROWS[name], hidden_size=8, parameters=None).build(1)
    assert [layer.hidden_size for layer in model.layers][:2] == [8, 8]
    assert model.head is model.embedding
    assert tuple(vars(model.dropouts).values()) == DROPOUTS[name]
    assert model.activation == ((2, 1) if name.endswith("words") else (0, 0))


@pytest.mark.usefixtures("data_root")
def test_the_chains_as_released_are_transposed():
    rows = [ROWS[f"table1: feedback chain {which}characters"] for which in ("", "as released ")]
    published, released = (recurrent_matrices(row.build(1)) for row in rows)
    sizes = (1000, 1000, 200)
    torch.testing.assert_close(published, [band(n, 0.99, 0.01) for n in sizes])
    torch.testing.assert_close(released, [W.T for W in published])


@pytest.mark.usefixtures("data_root")
def test_the_mixed_lstm_has_a_chain_in_its_cell_gate_and_ramps_elsewhere():
    row = replace(ROWS["table4: mixed characters"], hidden_size=8, parameters=None)
    weights = row.build(1).eval().layers[0].weight_hh_l0.detach().split(8)
    i = torch.arange(8.0)
    ramp = 0.01 * (i[:, None] - i) / 7
    torch.testing.assert_close(weights, (ramp, ramp, band(8, 1.02), ramp))


@pytest.mark.parametrize(
    ("name", "last"), [("fig4: identity words", 1.05), ("fig4: feedback chain words", 0.21)]
)
def test_texts_are_searched_over_21_values(name, last):
    (axis,) = ROWS[name].grid
    assert axis.values == pytest.approx(np.linspace(last / 21, last, 21))
    assert len(TABLES["fig4"].seeds) == 3
