"""Times several ways to do one thing so that their ratios can be trusted on a noisy machine."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

__all__ = ["Timing", "interleave"]


@dataclass(frozen=True)
class Timing:
    """The rounds of one contestant.

    Args:
        times_ms: Milliseconds of each round, in order.
        ratios: Each round's time over that of the reference in the same round.
    """

    times_ms: tuple[float, ...]
    ratios: tuple[float, ...]

    @property
    def median_ms(self) -> float:
        """The median time."""
        return statistics.median(self.times_ms)

    @property
    def ratio(self) -> float:
        """The median of the ratios."""
        return statistics.median(self.ratios)

    @property
    def spread(self) -> tuple[float, float]:
        """The quartiles of the ratios."""
        low, _, high = statistics.quantiles(self.ratios, n=4, method="inclusive")
        return low, high


def interleave(
    contestants: Mapping[str, Callable[[], object]],
    reference: str,
    rounds: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Run all contestants in every round, each once uncounted and then once for the clock.

    The uncounted run is what a training loop gives a layer for free: caches and memory that its
    own step before has left, not another's. (A virtual machine's host may take back memory that
    lay free for seconds; the slower contestants would then cost the faster ones more.)

    On a machine that others use too, `time.process_time` and a single thread tell more than the
    time that passes: it stands still while they run.
    """
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            run()
            began = clock()
            run()
            times[name].append((clock() - began) * 1e3)
    base = times[reference]
    return {
        name: Timing(tuple(own), tuple(a / b for a, b in zip(own, base, strict=True)))
        for name, own in times.items()
    }
