"""Prints registers and barriers of the Triton kernels, compiled for GPUs that need not be present.

The operators run as usual, but compile their kernels instead of launching them. The name of a
kernel consists of recurrence, nonlinearity, dtype, N and compute capability, such as
``elman:tanh:float32:190:90``. Those of the linear recurrence have ``constant`` or ``gated`` in
place of a nonlinearity.
"""

import json
import re
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import torch
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from eigenrnn.ops.arguments import Options
from eigenrnn.ops.elman import ElmanOperands
from eigenrnn.ops.elman import gpu as elman
from eigenrnn.ops.elman.operands import plain_arguments as elman_arguments
from eigenrnn.ops.gru import GRUOperands, GRUOptions
from eigenrnn.ops.gru import gpu as gru
from eigenrnn.ops.gru.operands import plain_arguments as gru_arguments
from eigenrnn.ops.linear.gpu import linear_gpu

PASSES = {"linear": ("ends of chunks", "states between chunks", "states")}
FORMS = {"gru": (True, True), "nc-gru": (False, False)}


class Driver:
    """Replaces the driver of a GPU, as far as the compiler needs it."""

    def __init__(self, capability):
        self.target = GPUTarget("cuda", capability, 32)

    def get_current_target(self):
        return self.target

    def get_current_device(self):
        return self.target.arch

    def get_current_stream(self, _):
        return 0


def compile_instead(compiled):
    """Return a replacement of `kernel[grid]` that compiles and records the kernel."""

    def of(kernel, grid):
        def compile_it(*arguments, **options):
            compiled.append(kernel.run(*arguments, grid=grid, warmup=True, **options))

        return compile_it

    return of


def usage(kernel):
    """Return registers and stack bytes per thread; spilled registers go to the stack."""
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder, "kernel.cubin")
        cubin.write_bytes(kernel.asm["cubin"])
        dump = [knobs.nvidia.cuobjdump.path, "--dump-resource-usage", cubin]
        report = subprocess.run(dump, capture_output=True, text=True, check=True).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", report)
    shared, warps = kernel.metadata.shared, kernel.metadata.num_warps
    return {
        "barriers": barriers_per_step(kernel.asm["ptx"]),
        "registers": int(found[1]),
        "stack": int(found[2]),
        "shared": shared,
        "warps": warps,
    }


def barriers_per_step(ptx):
    """Return the number of barriers in the loop that has most, which is that over the steps."""
    lines = ptx.splitlines()
    starts = ((re.match(r"(\$\w+):", line), at) for at, line in enumerate(lines))
    labels = {found[1]: at for found, at in starts if found}
    jumps = ((at, re.search(r"bra(?:\.uni)?\s+(\$\w+)", line)) for at, line in enumerate(lines))
    loops = [(labels[found[1]], end) for end, found in jumps if found]
    return max(
        sum("bar.sync" in line or "barrier.sync" in line for line in lines[start:end])
        for start, end in loops
        if start < end
    )


def call(recurrence, nonlinearity, dtype, N):
    """Run the forward and the backward operator, as autograd would."""
    T, B, sizes = 3, 2, [2, 1, 1]
    if recurrence == "linear":
        x = torch.zeros(40, B, N, dtype=dtype)
        linear_gpu(x, x if nonlinearity == "gated" else x[0, 0], x[0], None, False, False)
        return
    bias = torch.zeros(N, dtype=dtype) if nonlinearity.startswith("modrelu") else None
    h0, h = torch.zeros(B, N, dtype=dtype), torch.zeros(T, B, N, dtype=dtype)
    if recurrence == "elman":
        W, options = torch.zeros(N, N, dtype=dtype), Options(nonlinearity, sizes)
        tensors = ElmanOperands(h, W, h0, bias)
        arguments = elman_arguments(tensors, options)
        _, moduli = elman.elman_gpu(*arguments)
        elman._elman_gpu_backward(h, h, moduli, *arguments, [False] * 8)
        return
    x, W = torch.zeros(T, B, 3 * N, dtype=dtype), torch.zeros(3 * N, N, dtype=dtype)
    options = GRUOptions(nonlinearity, *FORMS[recurrence], sizes)
    shift = torch.zeros(N, dtype=dtype) if options.reset_after else None
    gates = torch.zeros(T, B, 4 * N, dtype=dtype)
    tensors = GRUOperands(x, W, h0, bias, shift)
    arguments = gru_arguments(tensors, options)
    gru.gru_gpu(*arguments, True)
    gru._gru_gpu_backward(h, h, gates, *arguments, [False] * 7)


def kernel_usage(name):
    """Return the usage of the kernels of both passes."""
    recurrence, nonlinearity, dtype, N, capability = name.split(":")
    driver.set_active(Driver(int(capability)))
    compiled = []
    JITFunction.__getitem__ = compile_instead(compiled)
    call(recurrence, nonlinearity, getattr(torch, dtype), int(N))
    names = PASSES.get(recurrence, ("forward", "backward"))
    return dict(zip(names, map(usage, compiled), strict=True))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps({name: kernel_usage(name) for name in sys.argv[1:]}))  # noqa: T201
