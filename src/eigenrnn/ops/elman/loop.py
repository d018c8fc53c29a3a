"""The Elman recurrence as a loop of in-place products, with an explicit backward pass.

README.md in this folder has the derivation and the reasons for each choice.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from eigenrnn.ops.arguments import Options, mapped_copy, needs_gradient
from eigenrnn.ops.dispatch import COMPLEX, REAL, Backend, Call
from eigenrnn.ops.elman.backward import bias_gradient, operand_gradients
from eigenrnn.ops.elman.operands import ElmanOperands
from eigenrnn.ops.elman.reference import ELMAN
from eigenrnn.ops.inplace_nonlinearities import (
    apply_in_place,
    backward_in_place,
    moduli_like,
    split_moduli,
)
from eigenrnn.ops.norm_zoneout import EPSILON
from eigenrnn.ops.operators import Named, Operator
from eigenrnn.ops.time_steps import (
    previous_rows,
    previous_state,
    select_rows,
    sizes_of_steps,
    split_steps,
    states_and_last,
    steps_in_order,
    zero_padding,
)

__all__ = ["ElmanLoop", "elman_loop"]

# `F.layer_norm` would allocate at every step, and does not return the moments
_norm = torch.ops.aten.native_layer_norm.out
_norm_backward = torch.ops.aten.native_layer_norm_backward


def _forward(operands: ElmanOperands, options: Options, save: bool) -> dict[str, Tensor]:
    """Evaluate the recurrence with one product and a few in-place operations per step.

    With `save`, also return what the backward pass needs: for complex modReLU the moduli of the
    pre-activations; with LayerNorm its arguments z and their moments. Where old and new states
    mix, it returns the candidates, which mix with the old ones. With v0 the mixed arguments of f
    are the currents.
    """
    x = operands.x
    W = operands.W
    h0 = operands.h0
    bias = operands.bias
    gain = operands.gain
    shift = operands.shift
    mask = operands.mask
    leak = operands.leak
    v0 = operands.v0
    T, B, _ = x.shape
    N = len(W)
    sizes = sizes_of_steps(options.batch_sizes, T, B)
    rate = options.rate
    mixes = bool(rate) or leak is not None
    ragged = sizes[-1] < B
    # each step adds its product to its inputs in place, and mostly f too works in place
    z = mapped_copy(x, operands.U, operands.c)
    if ragged:
        zero_padding(z, sizes)
    # no step writes past the end of a sequence, where states are zero
    like = torch.empty_like
    if ragged:
        like = torch.zeros_like
    # Without LayerNorm z becomes f(z) in place, and without mixing f(z) is the state: one buffer
    # is then inputs, candidates and states. A mask of zoneout lets units keep their state there.
    candidates = z
    if gain is not None:
        candidates = like(z)
    h = candidates
    if mixes:
        h = like(z)
    currents: Tensor | None = None
    if v0 is not None:
        currents = like(z)
    saved = _saved_like(h, operands, options, save, zeros=ragged)
    f_ = apply_in_place(options.nonlinearity, bias, h0)
    Wt = W.T.contiguous()  # copied once, so the products of all steps read it in order
    # one view for each step: indexing in the loop would cost as much as a tanh
    z_at = split_steps(z, sizes)
    candidate_at = split_steps(candidates, sizes)
    h_at = split_steps(h, sizes)
    current_at: list[Tensor] | None = None
    if currents is not None:
        current_at = split_steps(currents, sizes)
    moduli_at = split_moduli(saved["moduli"], sizes)
    means: Sequence[Tensor] = ()
    scales: Sequence[Tensor] = ()
    if gain is not None:
        means = split_steps(saved["moments"][0], sizes)
        scales = split_steps(saved["moments"][1], sizes)
    masks: list[Tensor] | None = None
    if mask is not None:
        masks = split_steps(mask, sizes)
    leaks = _leaks(leak, sizes)
    for t in steps_in_order(T, options.reverse):
        h_before = previous_state(t, h_at, h0, sizes, options.reverse)
        z_at[t].addmm_(h_before, Wt)
        if gain is not None:
            _norm(
                z_at[t],
                (N,),
                gain,
                shift,
                EPSILON,
                out0=candidate_at[t],
                out1=means[t],
                out2=scales[t],
            )
        if current_at is not None and v0 is not None and leaks:
            v_before = previous_state(t, current_at, v0, sizes, options.reverse)
            torch.lerp(v_before, candidate_at[t], leaks[t], out=current_at[t])
            h_at[t].copy_(current_at[t])
            f_(h_at[t], moduli_at[t])
            continue
        f_(candidate_at[t], moduli_at[t])
        if masks is not None:
            torch.where(masks[t], h_before, candidate_at[t], out=h_at[t])
        elif rate:
            torch.lerp(candidate_at[t], h_before, rate, out=h_at[t])
        elif leaks:
            torch.lerp(h_before, candidate_at[t], leaks[t], out=h_at[t])
    if save and gain is not None:
        saved["z"] = z
    if save and mixes:
        saved["candidates"] = candidates
    # empty without currents: `run` then takes the last states from h
    last = saved.pop("last")
    if currents is not None:
        saved["currents"] = currents
        _, last = states_and_last(currents, options.batch_sizes, options.reverse)
        last = last.clone()  # an operator must not return a view of another result
    return {"h": h, "last": last, **saved}


def _saved_like(
    h: Tensor,  # (T, B, N)
    operands: ElmanOperands,
    options: Options,
    save: bool,
    *,
    zeros: bool = False,
) -> dict[str, Tensor]:
    """Allocate the last currents and what is saved; what is unused has no elements."""
    T, B, N = h.shape
    mixes = bool(options.rate) or operands.leak is not None
    # an operator returns all of these: what a call does not need has no steps
    z_steps = 0
    moment_steps = 0
    candidate_steps = 0
    if operands.gain is not None:
        moment_steps = T  # also without a backward pass: LayerNorm writes them somewhere
        if save:
            z_steps = T
    if mixes and save:
        candidate_steps = T
    current_steps = 0
    sequences = 0
    if operands.v0 is not None:
        current_steps = T
        sequences = B
    make = h.new_zeros if zeros else h.new_empty
    saved_states = h if save else h[:0]
    return {
        "last": h.new_empty(sequences, N),
        "moduli": moduli_like(saved_states, options.nonlinearity, operands.bias, zeros=zeros),
        "z": h.new_empty(z_steps, B, N),
        "moments": make(2, moment_steps, B, 1),
        "candidates": h.new_empty(candidate_steps, B, N),
        "currents": h.new_empty(current_steps, B, N),
    }


def _allocate(operands: ElmanOperands, options: Options, save: bool) -> dict[str, Tensor]:
    h = operands.W.new_empty(*operands.x.shape[:2], len(operands.W))
    return {"h": h, **_saved_like(h, operands, options, save)}


def _backward(
    operands: ElmanOperands,
    options: Options,
    needed: Collection[str],
    grads: Named,
    kept: Mapping[str, Tensor],
) -> dict[str, Tensor]:
    W = operands.W
    h0 = operands.h0
    bias = operands.bias
    gain = operands.gain
    shift = operands.shift
    mask = operands.mask
    leak = operands.leak
    v0 = operands.v0
    g = grads["h"]
    dlast = grads["last"]
    h = kept["h"]
    z = kept["z"]
    moduli = kept["moduli"]
    moments = kept["moments"]
    T, B, N = h.shape
    sizes = sizes_of_steps(options.batch_sizes, T, B)
    rate = options.rate
    mixes = bool(rate) or leak is not None
    candidates = h
    if mixes:
        candidates = kept["candidates"]
    # the values of f, from which its derivative follows
    values = candidates
    if v0 is not None:
        values = h
    # the gradients of the states; in place, each step makes them those of the pre-activations
    if g is None:
        delta = torch.zeros_like(h, memory_format=torch.contiguous_format)
    else:
        delta = g.clone(memory_format=torch.contiguous_format)
    dh0 = h.new_zeros(B, N)
    if sizes[-1] < B:
        zero_padding(delta, sizes)
    # LayerNorm and mixed arguments change the gradient that the bias needs, and that of complex
    # numbers loses it
    sum_bias = bias is not None and (gain is not None or v0 is not None or bool(len(moduli)))
    dbias = h.real.new_zeros(N)
    dgain = h.real.new_zeros(N)
    dshift = h.real.new_zeros(N)
    leaks = _leaks(leak, sizes)
    dleak = h.real.new_zeros(N if leak is None else leak.shape)
    dleaks = _leaks(dleak, sizes)
    backward_ = backward_in_place(options.nonlinearity, bias, h0)
    conjugate = W.conj_physical().contiguous()
    deltas = split_steps(delta, sizes)
    candidate_at = split_steps(candidates, sizes)
    value_at = split_steps(values, sizes)
    # what a leak mixes: the currents where they are the states, else h
    if v0 is None:
        mixed = split_steps(h, sizes)
        first = h0
    else:
        mixed = split_steps(kept["currents"], sizes)
        first = v0
    dv0 = h.new_zeros(B, N)
    dcurrent_at: list[Tensor] = []
    dv_earlier: list[list[tuple[Tensor, slice | None]]] = []
    if v0 is not None:
        dcurrent_at = split_steps(_at_last_steps(dlast, h, sizes, options.reverse), sizes)
        dv_earlier = previous_rows(dcurrent_at, dv0, sizes, options.reverse)
    moduli_at = split_moduli(moduli, sizes)
    earlier = previous_rows(deltas, dh0, sizes, options.reverse)
    masks: Sequence[Tensor | None] = [None] * T
    if mask is not None:
        masks = split_steps(mask, sizes)
    # README.md has the equations
    for t in reversed(steps_in_order(T, options.reverse)):
        delta_t = deltas[t]
        mask_t = masks[t]
        if mask_t is not None or rate:
            _pass_through_zoneout(delta_t, earlier[t], mask_t, rate)
        if leaks and v0 is None:  # mixed after f, so it comes before f here
            before = previous_state(t, mixed, first, sizes, options.reverse)
            change = candidate_at[t] - before
            _pass_through_leak(delta_t, earlier[t], leaks[t], change, dleaks[t])
        if sum_bias:
            dbias += _along_phases(delta_t, value_at[t])
        backward_(delta_t, value_at[t], moduli_at[t])
        if leaks and v0 is not None:  # mixed before f
            delta_t += dcurrent_at[t]
            before = previous_state(t, mixed, first, sizes, options.reverse)
            change = candidate_at[t] - before
            _pass_through_leak(delta_t, dv_earlier[t], leaks[t], change, dleaks[t])
        if gain is not None:
            mean, scale = moments[:, t, : sizes[t]]
            dz, dgain_t, dshift_t = _norm_backward(
                delta_t, z[t, : sizes[t]], (N,), mean, scale, gain, shift, (True, True, True)
            )
            delta_t.copy_(dz)
            dgain += dgain_t
            dshift += dshift_t
        for dh, rows in earlier[t]:
            dh.addmm_(select_rows(delta_t, rows), conjugate)
    if bias is not None and not sum_bias:
        dbias = bias_gradient(delta, candidates, options.nonlinearity)
    # some of these may not be needed; `Operator` takes what is
    known = {"h0": dh0, "bias": dbias, "gain": dgain, "shift": dshift, "leak": dleak, "v0": dv0}
    return known | operand_gradients(delta, h, operands, options, needed)


def _at_last_steps(
    dlast: Tensor | None,  # (B, N)
    h: Tensor,  # (T, B, N)
    sizes: Sequence[int],
    reverse: bool,
) -> Tensor:  # (T, B, N)
    """Return the gradients of the last states at the steps where the sequences end."""
    gradients = torch.zeros_like(h)
    if dlast is None:
        return gradients
    if reverse:
        gradients[0] = dlast
        return gradients
    for t, (n, later) in enumerate(pairwise([*sizes, 0])):
        if later < n:  # the shortest sequences are the last rows
            gradients[t, later:n] = dlast[later:n]
    return gradients


def _leaks(
    leak: Tensor | None,  # (N,) or (T, B, N)
    sizes: Sequence[int],
) -> list[Tensor]:  # T of (N,) or (sizes[t], N)
    """Return the leak of each step, or nothing without one."""
    if leak is None:
        return []
    if leak.dim() == 1:
        return [leak] * len(sizes)
    return split_steps(leak, sizes)


def _pass_through_leak(
    g: Tensor,  # (B, N)
    earlier: list[tuple[Tensor, slice | None]],
    leak: Tensor,  # (N,) or (B, N)
    change: Tensor,  # (B, N)
    dleak: Tensor,  # (N,) or (B, N)
) -> None:
    """Move the part of the gradient that belongs to the states before, in place.

    Add the gradient of the leak, which multiplies the change of a step.
    """
    dleak += (g * change).sum_to_size(dleak.shape)
    _add_to_earlier(earlier, (1 - leak) * g)
    g.mul_(leak)


def _pass_through_zoneout(
    g: Tensor,  # (B, N)
    earlier: list[tuple[Tensor, slice | None]],
    mask: Tensor | None,  # (B, N)
    rate: float,
) -> None:
    """Move the part of the gradient that belongs to the states before, in place."""
    if mask is None:
        _add_to_earlier(earlier, g, share=rate)
        g.mul_(1 - rate)
    else:
        _add_to_earlier(earlier, g * mask)
        g.masked_fill_(mask, 0)


def _add_to_earlier(
    earlier: list[tuple[Tensor, slice | None]],
    passed: Tensor,  # (B, N)
    share: float = 1,
) -> None:
    """Add a share of a gradient to those of the states before."""
    for dh, rows in earlier:
        dh.add_(select_rows(passed, rows), alpha=share)


def _along_phases(
    delta: Tensor,  # (B, N)
    h: Tensor,  # (B, N)
) -> Tensor:  # (N,)
    return (delta * h.sgn().conj_physical()).real.sum(0)


elman_loop = Operator(
    "elman_loop",
    ELMAN,
    forward=_forward,
    allocate=_allocate,
    backward=_backward,
    results=("h", "last"),
    saved=("moduli", "z", "moments", "candidates", "currents"),
)


class ElmanLoop(Backend):
    """One product per step, in torch operations."""

    name = "loop"
    description = "in-place torch operations, any device"
    dtypes = REAL | COMPLEX
    features = frozenset({"layer_norm", "zoneout", "leak"})

    def unsupported(self, call: Call) -> str | None:
        if call.transformed:
            return "torch.func transforms and forward mode need differentiable operations"
        if "layer_norm" in call.features and call.dtype in (torch.float16, torch.bfloat16):
            return "layer_norm in 16 bits keeps its moments in dtypes that differ between devices"
        return None

    def run(self, operands: ElmanOperands, options: Options) -> tuple[Tensor, Tensor]:
        results = elman_loop(operands, options, needs_gradient(operands))
        if operands.v0 is not None:
            return results["h"], results["last"]
        return states_and_last(results["h"], options.batch_sizes, options.reverse)
