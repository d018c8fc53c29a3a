"""The kernels of the other instruction sets pass the tests that tell one set from another."""

import pytest

from eigenrnn.ops import compiled
from kernel_testing import python

# what to run of each file, as for `-k`; one process runs all, because each takes seconds to start
DELTA = "cpu and (backend_gives or lengths_and or padding or any_length)"
ELMAN = "complex or selects_the_instruction_set or off_by_two or count or ieee"
CHOSEN = {
    "test_cpu_functions.py": ELMAN,
    "test_delta_cpu.py": DELTA,
    "test_delta_op.py": DELTA,
    "test_elman_cpu.py": ELMAN,
    "test_head_cpu.py": "odd_sizes or threads or strides",
    "test_kernels.py": "odd_sizes or threads",
    "test_linear_cpu.py": "linear",
    "test_products_cpu.py": "rounded_numbers and odd_sizes",
    "test_recurrences.py": "cpu",
    "test_stream_cpu.py": "(a_stream_gives or steps_of) and many",
}


@pytest.mark.long
@pytest.mark.parametrize("isa", compiled.kernels.isas[1:] if compiled.kernels else [])
def test_another_instruction_set_passes_the_tests(isa):
    files = [f"tests/ops/{name}" for name in CHOSEN]
    chosen = " or ".join(f"({name} and ({chosen}))" for name, chosen in CHOSEN.items())
    done = python("-m", "pytest", "-p", "no:cacheprovider", *files, "-k", chosen, EIGENRNN_ISA=isa)
    assert done.returncode == 0, done.stdout
    # if the kernels do not load, all tests are skipped
    assert [file for file in files if f"\n{file} ." not in done.stdout] == []
