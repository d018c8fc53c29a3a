"""The prediction of blocks counts the inner loop of a listing, and nothing around it."""

import pytest
from benchmarks.blocks import Loop, blocks, inner_loop

LISTING = """
0000000000000000 <void eigenrnn::neon::block<float, 2, 1>(eigenrnn::neon::Factor<float> const*)>:
   0:\tldr\tq0, [x0]
   4:\tfmla\tv4.4s, v0.4s, v1.s[0]
   8:\tldr\tq0, [x1], #16
   c:\tfmla\tv2.4s, v0.4s, v1.s[0]
  10:\tfmla\tv3.4s, v0.4s, v1.s[0]
  14:\tb.ne\t8 <void eigenrnn::neon::block<float, 2, 1>(eigenrnn::neon::Factor<float> const*)+0x8>
  18:\tb.ne\t0 <void eigenrnn::neon::block<float, 2, 1>(eigenrnn::neon::Factor<float> const*)>
  1c:\tret

0000000000000020 <void eigenrnn::neon::pack<float>(float*)>:
  20:\tfmla\tv3.4s, v0.4s, v1.s[0]
"""


def test_only_the_inner_loop_of_a_block_counts():
    found = blocks(LISTING)
    assert {block: inner_loop(lines) for block, lines in found.items()} == {
        ("float", 2, 1): Loop(multiply_adds=2, instructions=4)
    }


@pytest.mark.parametrize(("width", "share"), [(4, 1.0), (3, 0.75)])
def test_a_narrow_core_waits_for_its_instructions(width, share):
    assert Loop(multiply_adds=12, instructions=24).share(2, width) == share
