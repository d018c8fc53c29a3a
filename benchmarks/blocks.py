"""Predict how near the blocks of the kernels come to the peak of processors with NEON.

Run with ``python -m benchmarks.blocks FILE``, where FILE is ``product.cpp.o`` in the folder in
which ``make arm`` compiles. The inner loop of a block starts its multiply-adds in some pipes, and
all instructions in the width of the core. The slower of both gives the cycles. Nothing is
measured: latencies, caches and memory are left out.
"""

import argparse
import re
import subprocess
from typing import NamedTuple

# Vectors of 16 bytes that are multiplied and added, and instructions that start, in a cycle:
# by Arm's guides to software optimisation, and for Apple by what others measured.
CORES = {
    "Cortex-A72": (2, 3),
    "Cortex-A76, Neoverse N1": (2, 4),
    "Apple M1": (4, 8),
}
FUNCTION = re.compile(r"^[0-9a-f]+ <.*block<(float|double), (\d+), (\d+)>\(.*>:$")
INSTRUCTION = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)\s*(.*)$")
JUMP = re.compile(r"\b([0-9a-f]+) <")
MULTIPLY_ADD = re.compile(r"^(fmla|vfmadd)")


class Instruction(NamedTuple):
    """One line of a listing."""

    address: int
    name: str
    operands: str


class Loop(NamedTuple):
    """The counts of one loop."""

    multiply_adds: int
    instructions: int

    def share(self, pipes: int, width: int) -> float:
        """Return the predicted part of the peak."""
        needed = self.multiply_adds / pipes
        return needed / max(needed, self.instructions / width)


def blocks(listing: str) -> dict[tuple[str, int, int], list[Instruction]]:
    """Return the instructions of each block: by type, rows and vectors."""
    found: dict[tuple[str, int, int], list[Instruction]] = {}
    current: list[Instruction] = []
    for line in listing.splitlines():
        if line.endswith(">:"):
            current = []
            header = FUNCTION.match(line)
            if header:
                number, rows, vectors = header.groups()
                found[number, int(rows), int(vectors)] = current
            continue
        parsed = INSTRUCTION.match(line)
        if parsed:
            address, name, operands = parsed.groups()
            current.append(Instruction(int(address, 16), name, operands))
    return found


def inner_loop(instructions: list[Instruction]) -> Loop:
    """Return, of the loops without a loop inside, the shortest with the most multiply-adds."""
    jumps: list[tuple[int, int]] = []
    for each in instructions:
        target = JUMP.search(each.operands)
        if target and int(target[1], 16) <= each.address:
            jumps.append((int(target[1], 16), each.address))
    loops: list[Loop] = []
    for begin, end in jumps:
        if any(begin <= first and last < end for first, last in jumps):
            continue
        inside = [each.name for each in instructions if begin <= each.address <= end]
        multiply_adds = sum(bool(MULTIPLY_ADD.match(name)) for name in inside)
        loops.append(Loop(multiply_adds, len(inside)))
    return max(loops, key=lambda loop: (loop.multiply_adds, -loop.instructions))


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("object", help="the object file of csrc/product.cpp")
    parser.add_argument("--objdump", default="aarch64-linux-gnu-objdump")
    options = parser.parse_args()
    flags = ["--disassemble", "--demangle", "--no-show-raw-insn"]
    listing = subprocess.run(
        [options.objdump, *flags, options.object], check=True, capture_output=True, text=True
    ).stdout
    print("| block", "multiply-adds", "instructions", *CORES, sep=" | ", end=" |\n")
    print("|---|---:|---:|" + "---:|" * len(CORES))
    for (number, rows, vectors), instructions in sorted(blocks(listing).items()):
        loop = inner_loop(instructions)
        shares = [f"{loop.share(*core):.2f}" for core in CORES.values()]
        block = f"| {number}, {rows} x {vectors}"
        print(block, loop.multiply_adds, loop.instructions, *shares, sep=" | ", end=" |\n")


if __name__ == "__main__":
    main()
