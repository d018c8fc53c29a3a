"""The keys of the file of a sweep, and what each may hold."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import product
from typing import Any

from eigenrnn.errors import check_positive_integer
from eigenrnn.experiments.cli.names import near
from eigenrnn.experiments.cli.parser import commands
from eigenrnn.experiments.sweep.values import (
    check_differ,
    check_gpus,
    check_true_or_false,
    check_whole,
)

__all__ = ["OF_SWEEP", "check_keys", "options", "points", "refuse_unknown"]

_OF_THE_CALL = frozenset({"config", "out", "resume", "overwrite", "seed", "dynamics_every"})
OF_SWEEP = ("cpus_per_trial", "gpus_per_trial", "retries")
_OF_SEARCH = ("trials", "metric", "mode", "search_seed")
_ALWAYS = ("grid", "search", "seeds", "data_root", *_OF_SEARCH, *OF_SWEEP)
_OF_RECIPE = ("recipe", "rows", "quick")


def check_keys(content: Mapping[str, Any]) -> None:
    """Refuse a file in which a key or the kind of a value is wrong; nothing is made of it.

    Raises:
        ValueError: If one is; lists near names.
    """
    taken = [*_ALWAYS, *(_OF_RECIPE if "recipe" in content else options())]
    refuse_unknown("a sweep", content, taken)
    if "grid" in content and "search" in content:
        raise ValueError("expected grid or search in a sweep, got both")
    if "search" not in content and (wrong := [name for name in _OF_SEARCH if name in content]):
        raise ValueError(f"expected {wrong[0]} only together with search, got it without")
    for name, check in _CHECKS.items():
        if name in content:
            check(name, content[name])


@cache
def options() -> tuple[str, ...]:
    """List what `eigenrnn train` takes, but for what a sweep decides."""
    known = commands()["train"][0].get_defaults().as_dict()
    return tuple(name for name in known if name not in _OF_THE_CALL)


def refuse_unknown(owner: str, content: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuse keys that nobody reads.

    Raises:
        ValueError: If there is one; lists the near names.
    """
    for name in content:
        if name not in known:
            hint = near(str(name), known) or f"; there are {', '.join(known)}"
            raise ValueError(f"{owner} takes no key {name!r}{hint}")


def points(grid: Mapping[str, list[Any]]) -> list[Mapping[str, Any]]:
    """List the points of a grid."""
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def _check_text(name: str, value: object) -> None:
    """Refuse what is no text.

    Raises:
        ValueError: If it is none.
    """
    if not isinstance(value, str):
        raise ValueError(f"expected {name} to be a text, got {value!r}")


def _check_rows(name: str, value: Any) -> None:
    """Refuse what is no text and no list of texts.

    Raises:
        ValueError: If it is neither.
    """
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(v, str) for v in texts):
        raise ValueError(f"expected {name} to be a text or a list of texts, got {value!r}")


def _check_seeds(name: str, value: Any) -> None:
    """Refuse what is no list of whole numbers, each once.

    Raises:
        ValueError: If it is none.
    """
    whole = isinstance(value, list) and all(type(seed) is int and seed >= 0 for seed in value)
    if not whole or not value or len(set(value)) < len(value):
        raise ValueError(
            f"expected {name} to be a list of different whole numbers >= 0, got {value!r}"
        )


def _check_grid(name: str, value: Any) -> None:
    """Refuse what is no mapping of names to lists of different values.

    Raises:
        ValueError: If it is none.
    """
    if not _names_things(value) or not all(isinstance(v, list) and v for v in value.values()):
        raise ValueError(f"expected {name} to map names to lists of values, got {value!r}")
    for varied, values in value.items():
        check_differ(f"{varied} in {name}", values)


def _check_search(name: str, value: Any) -> None:
    """Refuse what is no mapping of names.

    Raises:
        ValueError: If it is none.
    """
    if not _names_things(value):
        raise ValueError(f"expected {name} to map names to ranges or choices, got {value!r}")


def _names_things(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(name, str) for name in value)


_CHECKS: Mapping[str, Callable[[str, Any], None]] = {
    "recipe": _check_text,
    "rows": _check_rows,
    "quick": check_true_or_false,
    "seeds": _check_seeds,
    "data_root": _check_text,
    "grid": _check_grid,
    "search": _check_search,
    "trials": check_positive_integer,
    "metric": _check_text,
    "mode": _check_text,  # which ones there are, the search says
    "search_seed": check_whole,
    "cpus_per_trial": check_positive_integer,
    "gpus_per_trial": check_gpus,
    "retries": check_whole,
}
