"""All analyses that apply to a network, one after the other."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from eigenrnn.analysis.base import Analysis
from eigenrnn.analysis.dimension import effective_rank, participation_ratio
from eigenrnn.analysis.fixed_points import fixed_points
from eigenrnn.analysis.gradient_map import gradient_map
from eigenrnn.analysis.gradient_norms import gradient_norms
from eigenrnn.analysis.henrici import henrici
from eigenrnn.analysis.hidden_chain import hidden_chain
from eigenrnn.analysis.in_use import InUse, in_use
from eigenrnn.analysis.jacobian_bound import jacobian_bound
from eigenrnn.analysis.kreiss import kreiss
from eigenrnn.analysis.layer_inputs import layer_inputs
from eigenrnn.analysis.lyapunov import lyapunov
from eigenrnn.analysis.matrices import NumberArray, spectral_radius
from eigenrnn.analysis.network_memory import (
    MEMORY_STEPS,
    has_no_gates,
    network_memory,
    noise_lasts,
)
from eigenrnn.analysis.numerical_abscissa import numerical_abscissa
from eigenrnn.analysis.pseudospectrum import pseudospectrum
from eigenrnn.analysis.recurrence import (
    Recurrence,
    recurrences,
    recurrent_layers,
    recurrent_matrices,
)
from eigenrnn.analysis.schur_structure import schur_structure
from eigenrnn.analysis.spectrum import spectrum
from eigenrnn.analysis.trajectory import trajectory
from eigenrnn.analysis.transient_growth import transient_growth
from eigenrnn.constraints import Schur

__all__ = ["Everything", "analyse"]

_POWERS = 200  # of a matrix
_MAP_STEPS, _STEPS = 48, 200  # of a sequence
_STARTS = 8  # of the search for fixed points
_EXPONENTS = 20
_MOST_STEPS, _SEQUENCES = 1_000, 4  # of the states whose dimension is counted

_REASONS = (ValueError, ArithmeticError, torch.linalg.LinAlgError)  # pyright: ignore[reportPrivateImportUsage]

Job = Callable[[], Analysis]
Plan = Iterator[tuple[str, Job | str]]
"""What there is to do by name, or why it is not done."""


@dataclass(frozen=True)
class Everything:
    """What was found of a network.

    Args:
        found: The analyses by name, such as ``"henrici_hh_l0"``.
        left_out: Why others are not among them.
        remarks: What to know of some of those that are.
    """

    found: dict[str, Analysis]
    left_out: dict[str, str]
    remarks: dict[str, str]

    def save(self, folder: str | Path) -> dict[str, str]:
        """Write the picture and the table of each, by its name; what is there is replaced.

        Returns:
            What could not be drawn, by the name of its picture, with the reason; its table is
            there all the same.
        """
        failed: dict[str, str] = {}
        for name, analysis in self.found.items():
            stem = Path(folder) / name
            try:
                analysis.save(stem)
            except _REASONS as error:  # numbers that no axis holds
                Path(f"{stem}.png").unlink(missing_ok=True)
                failed[f"{name}.png"] = f"it cannot be drawn: {error}"
        return failed


def analyse(
    model: nn.Module,
    inputs: Any = None,
    loss: Callable[[Tensor], Tensor] | None = None,
    *,
    say: Callable[[str], None] = lambda _: None,
) -> Everything:
    """Do every analysis that applies to a network and does not take long.

    Sizes are chosen for a few seconds each: powers up to 200, gradient maps of the first 48 steps
    of one sequence, exponents over 200 steps, fixed points from four starts without input. What
    would take much longer is left out, with the call that does it.

    Args:
        model: A recurrent layer, ours or torch's, or a model with some of them; it stays as it is.
        inputs: A batch, as the model takes it, for what looks at a network at work.
        loss: A function of what the model gives for them, for the gradients of a loss.
        say: Told the name of each analysis before it begins.
    Returns:
        What was found, and why the rest was not looked for.
    Raises:
        ValueError: If the model has no recurrent layer, or does not take the inputs.
    Example:
        >>> found = analyse(torch.nn.RNN(2, 8), torch.zeros(20, 1, 2)).found
        >>> "kreiss_hh_l0" in found, "lyapunov_l0" in found
        (True, True)
    """
    seen = {} if inputs is None else layer_inputs(model, inputs)
    found: dict[str, Analysis] = {}
    left_out: dict[str, str] = {}
    for name, job in _plan(model, inputs, loss, seen):
        if isinstance(job, str):
            left_out[name] = job
            continue
        say(name)
        try:
            found[name] = job()
        except _REASONS as error:  # it does not apply, and says why
            left_out[name] = str(error)
    return Everything(found, left_out, _remarks(model, found))


def _plan(
    model: nn.Module,
    inputs: Any,
    loss: Callable[[Tensor], Tensor] | None,
    seen: dict[str, Tensor | str],
) -> Plan:
    """Yield what there is to do."""
    used = in_use(model)
    for name, W in recurrent_matrices(model).items():
        yield from _of_matrix(name, W, used[name])
        yield from _of_linear(name, W, used[name])
    layers = recurrent_layers(model)
    for path, layer in layers.items():
        prefix = f"{path}." if len(layers) > 1 else ""
        for recurrence in recurrences(layer):
            x = seen.get(path, "it needs inputs: analyse(model, inputs)")
            yield from _of_layer(prefix, layer, recurrence)
            yield from _at_work(prefix, layer, recurrence, x)
    if inputs is None or loss is None:
        yield "gradient_norms", "it needs inputs and a loss: analyse(model, inputs, loss)"
    else:
        yield "gradient_norms", partial(gradient_norms, model, inputs, loss)


def _of_matrix(name: str, W: NumberArray, used: InUse) -> Plan:
    """Yield the analyses of a matrix."""
    N = len(W)
    form: Any = used.constraint if isinstance(used.constraint, Schur) else W
    jobs: list[tuple[str, int, Job]] = [
        ("spectrum", 2_000, partial(spectrum, W)),
        ("henrici", 2_000, partial(henrici, W)),
        ("numerical_abscissa", 300, partial(numerical_abscissa, W)),
        ("kreiss", 300, partial(kreiss, W)),
        ("pseudospectrum", 300, partial(pseudospectrum, W)),
        ("transient_growth", 600, partial(transient_growth, W, _POWERS)),
        ("schur_structure", 1_200, partial(schur_structure, form)),
    ]
    for function, most, job in jobs:
        call = f"recurrent_matrices(model)[{name!r}]"
        more = f", {_POWERS}" if function == "transient_growth" else ""
        yield f"{function}_{name}", _unless_long(f"{function}({call}{more})", N, most, job)


def _of_linear(name: str, W: NumberArray, used: InUse) -> Plan:
    """Yield the memory of the network without its nonlinearity, if it has no gates."""
    if not has_no_gates(name):
        yield f"fisher_memory_{name}", "a gate's matrix alone makes no linear network"
        return
    call = f"fisher_memory(recurrent_matrices(model)[{name!r}], source, {MEMORY_STEPS})"
    job = partial(network_memory, W, used)
    yield f"fisher_memory_{name}", _unless_long(call, len(W), 600, job)


def _of_layer(prefix: str, layer: nn.Module, recurrence: Recurrence) -> Plan:
    """Yield what a layer tells without any input."""
    which, S = recurrence.name, recurrence.state_size
    starts = recurrence.begin(1).new_zeros(1, S)
    drawn = torch.randn(_STARTS // 2 - 1, S, generator=torch.Generator().manual_seed(0))
    starts = torch.cat([starts, drawn.to(starts)])
    points = partial(fixed_points, layer, starts=starts, steps=30, which=which)
    chain = partial(hidden_chain, layer, which=which)
    named = f"which={which!r})"
    yield (
        f"hidden_chain_{prefix}{which}",
        _unless_long(f"hidden_chain(layer, {named}", S, 1200, chain),
    )
    yield (
        f"fixed_points_{prefix}{which}",
        _unless_long(f"fixed_points(layer, {named}", S, 200, points),
    )


def _at_work(prefix: str, layer: nn.Module, recurrence: Recurrence, x: Tensor | str) -> Plan:
    """Yield what is seen of a layer under its inputs."""
    which, S = recurrence.name, recurrence.state_size
    of = f"{prefix}{which}"
    gated = "reset" in recurrence.matrices
    if isinstance(x, str):
        names = ["gradient_map", "lyapunov", "participation_ratio", "effective_rank"]
        yield from ((f"{name}_{of}", x) for name in [*names, *(["jacobian_bound"] * gated)])
        return
    batch_first = bool(getattr(layer, "batch_first", False))

    def cut(steps: int, sequences: int) -> Tensor:
        return x[:sequences, :steps] if batch_first else x[:steps, :sequences]

    def states() -> Tensor:
        return trajectory(layer, cut(_MOST_STEPS, _SEQUENCES), which).states[1:]

    lyap = partial(lyapunov, layer, cut(_STEPS, 1), exponents=min(S, _EXPONENTS), which=which)
    jobs: list[tuple[str, int, Job]] = [
        ("gradient_map", 200, partial(gradient_map, layer, cut(_MAP_STEPS, 1), which=which)),
        ("lyapunov", 400, lyap),
        ("participation_ratio", 2_000, lambda: participation_ratio(states())),
        ("effective_rank", 2_000, lambda: effective_rank(states())),
    ]
    if gated:
        bound = partial(jacobian_bound, layer, cut(_MAP_STEPS, 1), which=which)
        jobs.append(("jacobian_bound", 400, bound))
    for function, most, job in jobs:
        yield (
            f"{function}_{of}",
            _unless_long(f"{function}(layer, x, which={which!r})", S, most, job),
        )


def _unless_long(call: str, size: int, most: int, job: Job) -> Job | str:
    if size <= most:
        return job
    return f"it takes long at this size ({size} > {most}); call eigenrnn.analysis.{call}"


def _remarks(model: nn.Module, found: dict[str, Analysis]) -> dict[str, str]:
    """Say what was chosen for the memory of a network: its source and its noise."""
    remarks: dict[str, str] = {}
    for name, W in recurrent_matrices(model).items():
        if f"fisher_memory_{name}" not in found:
            continue
        said = "its source is the first input's column of weights, scaled to norm 1"
        if noise_lasts(W):
            said += (
                f"; its spectral radius is {spectral_radius(W):.6g}, so that noise would add up "
                f"without end: that of the last {MEMORY_STEPS} steps counts"
            )
        remarks[f"fisher_memory_{name}"] = said
    return remarks
