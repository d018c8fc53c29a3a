"""The folder of a sweep: whose it is, and when it may be written to."""

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eigenrnn import __version__
from eigenrnn.errors import RunExistsError
from eigenrnn.experiments.sweep.files import read_json
from eigenrnn.experiments.sweep.status import FILE as TRIAL
from eigenrnn.experiments.training.run_directory import write_json

__all__ = ["RESULTS", "SUGGESTIONS", "check_folder", "check_shared", "open_folder"]

FORMAT = 1
"""The version of the layout."""

RESULTS = "results.csv"
SUGGESTIONS = "suggestions.json"
_SWEEP = "sweep.json"
_WRITTEN = (_SWEEP, SUGGESTIONS, RESULTS, "results.json", "results.md")
_MAY_CHANGE = frozenset({"trials", "cpus_per_trial", "gpus_per_trial", "retries", "data_root"})
_MOST_SHOWN = 60  # characters of a value


def check_folder(
    out: Path, description: Mapping[str, Any], *, resume: bool, overwrite: bool
) -> None:
    """Refuse a folder that the sweep may not be written to.

    Args:
        out: The folder.
        description: What the sweep's file says; what decides no number may change in between.
        resume: Whether to go on with what is there.
        overwrite: Whether to delete what is there.
    Raises:
        ValueError: If it should be both, is no folder, or holds a sweep of another file or version
            or one whose description is damaged.
        RunExistsError: If it holds runs and should be neither, or they are not of a sweep.
    """
    if resume and overwrite:
        raise ValueError("expected resume or overwrite, got both")
    _refuse_a_file(out)
    file = out / _SWEEP
    held = file.exists() or any(out.glob("**/config.json")) or (out / "results.json").exists()
    if held and not file.exists():
        raise RunExistsError(
            f"{out} holds runs that are not of a sweep: choose another folder with --out"
        )
    if not held:
        return
    known = _known(file, overwrite=overwrite)
    if not resume and not overwrite:
        raise RunExistsError(
            f"{out} already holds a sweep: go on with it with resume=True (on the command line: "
            "--resume), or delete it with overwrite=True (--overwrite)"
        )
    if resume:
        _refuse_another(out, known, description)


def open_folder(out: Path, description: Mapping[str, Any], *, overwrite: bool) -> str:
    """Make a folder ready for a sweep; return its mark, by which workers know it."""
    if overwrite:
        _clear(out)
    out.mkdir(parents=True, exist_ok=True)
    mark = _mark(description)
    content = {"format": FORMAT, "eigenrnn": __version__, "mark": mark}
    write_json(out / _SWEEP, {**content, "file": dict(description)})
    return mark


def check_shared(out: Path, mark: str) -> None:
    """Refuse to train on a machine that does not see the folder of the sweep.

    Raises:
        ValueError: If it does not.
    """
    file = out / _SWEEP
    if not file.exists() or read_json(file, ("mark",))["mark"] != mark:
        raise ValueError(
            f"expected {out} to be a folder that all machines share, got one without the sweep: "
            "mount the same folder on each"
        )


def _mark(description: Mapping[str, Any]) -> str:
    decides = {name: value for name, value in description.items() if name not in _MAY_CHANGE}
    text = json.dumps(decides, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _refuse_a_file(out: Path) -> None:
    """Refuse what cannot be made a folder.

    Raises:
        ValueError: If a file is there, or above.
    """
    there = next(place for place in (out, *out.parents) if place.exists())
    if not there.is_dir():
        raise ValueError(
            f"expected {out} to be a folder or not to exist, got the file {there}: choose another "
            "folder with --out"
        )


def _known(file: Path, *, overwrite: bool) -> dict[str, Any]:
    """Read what sweep there is; nothing, if it is damaged and is to be deleted anyhow.

    Raises:
        ValueError: If it is damaged, or of another version: only that one knows its files.
    """
    try:
        known = read_json(file, ("format", "eigenrnn", "file"))
        if not isinstance(known["file"], dict):
            raise ValueError(f"{file} is damaged: its description of the sweep is none")
    except ValueError as error:
        if overwrite:
            return {}
        raise ValueError(
            f"{error}; delete the sweep with overwrite=True (--overwrite), or choose another "
            "folder with --out"
        ) from None
    if (known["format"], known["eigenrnn"]) != (FORMAT, __version__):
        raise ValueError(
            f"{file.parent} holds a sweep of eigenrnn {known['eigenrnn']}, and this is "
            f"{__version__}: choose another folder with --out"
        )
    return known


def _refuse_another(out: Path, known: Mapping[str, Any], description: Mapping[str, Any]) -> None:
    """Refuse to go on with what another file has begun.

    Raises:
        ValueError: If it has; says what differs.
    """
    # as they look in a file
    then, now = known["file"], json.loads(json.dumps(dict(description), default=str))
    changed = [
        f"{name} was {_short(then, name)}, now {_short(now, name)}"
        for name in dict.fromkeys([*then, *now])
        if name not in _MAY_CHANGE and then.get(name) != now.get(name)
    ]
    if changed:
        raise ValueError(
            f"{out} holds a sweep of another file: {'; '.join(changed)}; choose "
            "another folder with --out"
        )


def _short(content: Mapping[str, Any], name: str) -> str:
    text = json.dumps(content[name]) if name in content else "absent"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _clear(out: Path) -> None:
    # only what a sweep has written: the folder may hold other things
    for file in list(out.glob(f"**/{TRIAL}")):
        shutil.rmtree(file.parent)
    for name in _WRITTEN:
        (out / name).unlink(missing_ok=True)
