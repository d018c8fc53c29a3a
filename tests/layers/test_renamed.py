"""Calls that older versions described are written as this version writes them."""

import pytest

from eigenrnn.layers import current_call


def described(name, **options):
    return {"function": name, "options": options} if options else name


def weights(**initializers):
    return {"init": described("weights_", **initializers)}


CALLS = {
    "the input map": ("RNN", {"input_init": "a_"}, weights(weight_ih="a_")),
    "both biases": ("ScoRNN", {"bias_init": "a_"}, weights(bias="a_", input_bias="a_")),
    "two biases": (
        "RNN",
        {"input_bias_init": "b_", "bias_init": "a_", "input_bias": True},
        {"input_bias": True, **weights(bias="a_", input_bias="b_")},
    ),
    "the initial state": ("ORNN", {"h0_init": "a_"}, weights(h0="a_")),
    "all gates": ("NCGRU", {"input_init": "a_"}, weights(weight_ih="a_")),
    "the candidate": ("GRU", {"candidate_init": "a_"}, weights(weight_ih=[None, None, "a_"])),
    "gates and candidate": (
        "GRU",
        {"candidate_init": "b_", "input_init": "a_"},
        weights(weight_ih=["a_", "a_", "b_"]),
    ),
    "the biases of the gates": (
        "GORU",
        {"reset_bias_init": "a_", "update_bias_init": "b_", "bias_init": "c_"},
        weights(gate_bias=["a_", "b_"], bias="c_"),
    ),
    "one gate": ("NCGRU", {"update_bias_init": "a_"}, weights(gate_bias=[None, "a_"])),
    "a default": ("RNN", {"input_init": None, "noise": 0.0, "state": "rate"}, {}),
    "the matrix": ("ExpRNN", {"init": "haar"}, {"matrix_init": "haar"}),
    "SiLU": ("DeltaNet", {"convolution": 4, "silu": True}, {"convolution": 4}),
    "the SiLU of a paper": ("GatedDeltaNet", {"silu": True}, {}),
    "no SiLU": ("DeltaNet", {"silu": False}, {}),
    "SiLU alone, which is gone": ("DeltaNet", {"silu": True}, {"silu": True}),
    "a call of this version": (
        "LeakyRNN",
        {"leak": 0.1, **weights(weight_ih="a_")},
        {"leak": 0.1, **weights(weight_ih="a_")},
    ),
}


@pytest.mark.parametrize(("layer", "options", "expected"), CALLS.values(), ids=CALLS)
def test_the_options_of_an_older_version_have_their_names_of_today(layer, options, expected):
    assert current_call(layer, options, described) == (layer, expected)


def test_an_rnn_with_a_leak_or_noise_is_a_leaky_one_with_the_defaults_of_then():
    then = {"noise": 0.1, "bias": False, "zoneout": 0.0}
    assert current_call("RNN", then, described) == (
        "LeakyRNN",
        {
            "leak": 1.0,
            "nonlinearity": "modrelu",
            "constraint": "ScaledCayley",
            "bias": False,
            "noise": 0.1,
        },
    )
    _, kept = current_call("RNN", then | {"zoneout": 0.3}, described)
    assert kept["zoneout"] == 0.3  # with noise alone it was allowed, and no layer has both now
    stated = {"leak": 0.2, "nonlinearity": "tanh", "constraint": "Dale"}
    assert current_call("RNN", stated, described) == ("LeakyRNN", stated)
