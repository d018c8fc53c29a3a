"""The mutants that judge the tests of the kernels: kernels that still have their lines."""

import json

from benchmarks.mutants import KERNEL_MUTANTS, ROOT


def test_the_kernels_have_the_line_of_each_mutant_once():
    mutants = json.loads(KERNEL_MUTANTS.read_text())
    assert len(mutants) >= 40
    for mutant in mutants:
        text = (ROOT / "csrc" / mutant["file"]).read_text()
        assert text.count(mutant["search"]) == 1, mutant["search"]
        assert mutant["replace"] != mutant["search"]
