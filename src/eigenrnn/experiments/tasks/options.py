"""Refusals of options that are out of their range."""

from typing import Any, get_args

__all__ = ["check_at_least", "check_choices"]


def check_choices(task: Any, **kinds: Any) -> None:
    """Refuse an option that is none of the words of its `Literal`.

    Raises:
        ValueError: If there is one.
    """
    for name, kind in kinds.items():
        if getattr(task, name) not in get_args(kind):
            allowed = " or ".join(map(repr, get_args(kind)))
            raise ValueError(f"expected {name} to be {allowed}, got {getattr(task, name)!r}")


def check_at_least(task: Any, least: int, *names: str) -> None:
    """Refuse a number that is smaller; None is let through.

    Raises:
        ValueError: If there is one.
    """
    for name in names:
        number = getattr(task, name)
        if number is not None and number < least:
            raise ValueError(f"expected {name} >= {least}, got {number}")
