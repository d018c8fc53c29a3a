"""Compiles a network in C for an emulated ARM board, and runs it there.

The boards are mps2-an386 (Cortex-M4F), mps2-an500 (Cortex-M7) and mps2-an385 (Cortex-M3) of QEMU.
Needs the Debian packages gcc-arm-none-eabi, libnewlib-arm-none-eabi and qemu-system-arm.
"""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

__all__ = ["BOARDS", "Board", "Costs", "is_installed"]

FOLDER = Path(__file__).parents[1] / "examples" / "arm"
FLAGS = ["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror"]
FLAGS += ["-O2", "-mthumb"]
LINK = ["--specs=rdimon.specs", "-nostartfiles", "-T", str(FOLDER / "board.ld")]
TICK = 40  # nanoseconds of the board's timer; an instruction takes one with `-icount shift=0`

MAIN = """\
#include <stdint.h>
#include <stdio.h>

#include "net.h"
#include "inputs.h"

#define TIMER ((volatile uint32_t *)0x40000000U) /* control, value, reload: counts down */

int main(void)
{{
    static net_state state;
    float output[net_outputs];
    net_reset(&state);
    for (int t = 0; t < STEPS; t++) {{
        net_step(&state, inputs[t], output);
        for (int k = 0; k < net_outputs; k++)
            printf("%.9g ", (double)output[k]);
        printf("\\n");
    }}
    TIMER[2] = 0xFFFFFFFFU;
    TIMER[1] = 0xFFFFFFFFU;
    TIMER[0] = 1U;
    const uint32_t before = TIMER[1];
    for (int t = 0; t < {repeats}; t++)
        net_step(&state, inputs[t % STEPS], output);
    printf("%lu %lu\\n", (unsigned long)(before - TIMER[1]), (unsigned long)sizeof(state));
    return 0;
}}
"""


@dataclass(frozen=True)
class Costs:
    """What a network needs on a board.

    Args:
        flash: The bytes of code and constants, without the C library.
        ram: The bytes of the state of a sequence.
        stack: The bytes of the stack that a step uses, without those of the C library.
        instructions: The instructions of a step; None if they were not counted.
    """

    flash: int
    ram: int
    stack: int
    instructions: int | None


@dataclass(frozen=True)
class Board:
    """An emulated board.

    Args:
        machine: Its name in QEMU.
        processor: The compiler's name of its processor.
        unit: The compiler's options of its floating-point unit.
    """

    machine: str
    processor: str
    unit: Sequence[str]

    def run(self, folder: Path, inputs: np.ndarray, repeats: int = 0) -> tuple[np.ndarray, Costs]:
        """Run ``net.c`` of a folder on inputs, (T, M) numbers or (T,) symbols.

        Args:
            folder: The folder with ``net.c`` and ``net.h``.
            inputs: The inputs; those of an estimator in double precision.
            repeats: The number of steps whose instructions are counted.
        Returns:
            The outputs (T, K), and the costs.
        """
        (folder / "inputs.h").write_text(_as_header(inputs))
        (folder / "main.c").write_text(MAIN.format(repeats=repeats))
        flags = [*FLAGS, f"-mcpu={self.processor}", *self.unit]
        compiler = "arm-none-eabi-gcc"
        _run([compiler, *flags, "-fstack-usage", "-c", "net.c"], folder)
        sources = ["main.c", "net.o", FOLDER / "board.c"]
        # the board's addresses are no C99
        lax = [flag for flag in flags if flag != "-Wpedantic"]
        _run([compiler, *lax, *LINK, "-o", "net.elf", *sources, "-lm"], folder)
        command = ["qemu-system-arm", "-machine", self.machine, "-nographic", "-monitor", "none"]
        command += ["-semihosting-config", "enable=on,target=native", "-icount", "shift=0"]
        said = _run([*command, "-kernel", "net.elf"], folder)
        *lines, last = said.splitlines()
        outputs = np.array([line.split() for line in lines], np.float64)
        ticks, ram = map(int, last.split())
        instructions = None
        if repeats:
            instructions = round(ticks * TICK / repeats)
        return outputs, self._costs(folder, ram, instructions)

    def _costs(self, folder: Path, ram: int, instructions: int | None) -> Costs:
        text, data, *_ = _run(["arm-none-eabi-size", "net.o"], folder).splitlines()[1].split()
        # of each function: file:line:column:name, bytes, kind
        used: dict[str, int] = {}
        for line in (folder / "net.su").read_text().splitlines():
            place, size, _ = line.split("\t")
            used[place.split(":")[-1]] = int(size)
        step = used.pop("net_step") + used.pop("net_step_int16", 0)
        layers = [size for name, size in used.items() if name.startswith("layer")]
        others = [size for name, size in used.items() if not name.startswith(("layer", "net_"))]
        stack = step + max(layers, default=0) + max(others, default=0)
        return Costs(int(text) + int(data), ram, stack, instructions)


BOARDS = {
    "Cortex-M4F": Board("mps2-an386", "cortex-m4", ["-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"]),
    "Cortex-M7": Board("mps2-an500", "cortex-m7", ["-mfloat-abi=hard", "-mfpu=fpv5-sp-d16"]),
    "Cortex-M3": Board("mps2-an385", "cortex-m3", ["-mfloat-abi=soft"]),
}


def is_installed() -> bool:
    """Whether the compiler and the emulator are installed."""
    return all(map(shutil.which, ("arm-none-eabi-gcc", "qemu-system-arm")))


def _as_header(inputs: np.ndarray) -> str:
    if inputs.ndim == 1:
        rows = ", ".join(str(int(each)) for each in inputs)
        return f"#define STEPS {len(inputs)}\nstatic const int inputs[STEPS] = {{{rows}}};\n"
    rows = ",\n".join("{" + ", ".join(map(_literal, row)) + "}" for row in inputs)
    size = f"[STEPS][{inputs.shape[1]}]"
    kind = {"float32": "float", "float64": "double"}[inputs.dtype.name]
    return f"#define STEPS {len(inputs)}\nstatic const {kind} inputs{size} = {{\n{rows}}};\n"


def _literal(value: np.floating) -> str:
    if value.dtype == np.float32:
        return f"{value:.9e}F"
    return f"{value:.17e}"


def _run(command: Sequence[str | Path], folder: Path) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout
