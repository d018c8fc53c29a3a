"""The folder of a sweep: its files, and which sweep may write to it."""

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eigenrnn import __version__
from eigenrnn.experiments.errors import RunExistsError
from eigenrnn.experiments.training.files import (
    check_folder_path,
    check_types,
    read_json,
    write_json,
)

__all__ = ["POINTS", "RESULTS", "check_folder", "check_shared", "open_folder"]

FORMAT = 3
"""The version of the layout."""

RESULTS = "results.csv"
POINTS = "points.json"

_SWEEP = "sweep.json"
_SWEEP_FILES = (_SWEEP, POINTS, RESULTS, "results.json", "results.md")
_MAY_CHANGE_ON_RESUME = frozenset(
    {"trials", "cpus_per_trial", "gpus_per_trial", "retries", "data_root"}
)
_MAX_SHOWN = 60  # characters of a value


def check_folder(
    out: Path, description: Mapping[str, Any], *, resume: bool, overwrite: bool
) -> None:
    """Check that a sweep may write to a folder.

    Args:
        out: The folder.
        description: The content of the sweep's file. Entries that do not affect any number may
            differ on resuming.
        resume: Whether to resume the sweep in the folder.
        overwrite: Whether to delete the sweep in the folder.
    Raises:
        ValueError: If both are set, the path is not a folder, or the folder holds a sweep of
            another file or version, or one whose description is damaged.
        RunExistsError: If the folder holds a sweep and neither is set, or it holds other runs.
    """
    if resume and overwrite:
        raise ValueError("expected resume or overwrite, got both")
    check_folder_path(out)
    file = out / _SWEEP
    is_used = file.exists() or any(out.glob("**/config.json")) or (out / "results.json").exists()
    if is_used and not file.exists():
        raise RunExistsError(
            f"{out} holds runs that are not of a sweep: choose another folder with --out"
        )
    if not is_used:
        return
    stored = _read_sweep(file, overwrite=overwrite)
    if not resume and not overwrite:
        raise RunExistsError(
            f"{out} already holds a sweep: resume it with resume=True (on the command line: "
            "--resume), or delete it with overwrite=True (--overwrite)"
        )
    if resume:
        _check_same_sweep(out, stored, description)


def open_folder(out: Path, description: Mapping[str, Any], *, overwrite: bool) -> str:
    """Prepare a folder for a sweep; return the fingerprint by which workers recognise it."""
    if overwrite:
        _clear(out)
    out.mkdir(parents=True, exist_ok=True)
    fingerprint = _fingerprint(description)
    content = {"format": FORMAT, "eigenrnn": __version__, "fingerprint": fingerprint}
    write_json(out / _SWEEP, {**content, "file": dict(description)})
    return fingerprint


def check_shared(out: Path, fingerprint: str) -> None:
    """Check that this machine sees the folder of the sweep.

    Raises:
        ValueError: If it does not.
    """
    file = out / _SWEEP
    if not file.exists() or read_json(file, ("fingerprint",))["fingerprint"] != fingerprint:
        raise ValueError(
            f"expected {out} to be a folder that all machines share, got one without the sweep: "
            "mount the same folder on each"
        )


def _fingerprint(description: Mapping[str, Any]) -> str:
    fixed = {name: v for name, v in description.items() if name not in _MAY_CHANGE_ON_RESUME}
    text = json.dumps(fixed, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _read_sweep(file: Path, *, overwrite: bool) -> dict[str, Any]:
    """Read the description of a sweep; empty if it is damaged and will be overwritten.

    Raises:
        ValueError: If it is damaged, or of another version, whose other files are unknown.
    """
    try:
        stored = read_json(file, ("format", "eigenrnn", "file"))
        check_types(file, stored, {"file": dict})
    except ValueError as error:
        if overwrite:
            return {}
        raise ValueError(
            f"{error}; delete the sweep with overwrite=True (--overwrite), or choose another "
            "folder with --out"
        ) from None
    if (stored["format"], stored["eigenrnn"]) != (FORMAT, __version__):
        raise ValueError(
            f"{file.parent} holds a sweep of eigenrnn {stored['eigenrnn']} (format "
            f"{stored['format']}), and this is {__version__} (format {FORMAT}): choose another "
            "folder with --out"
        )
    return stored


def _check_same_sweep(
    out: Path, stored: Mapping[str, Any], description: Mapping[str, Any]
) -> None:
    """Check that a sweep to resume has the description of the stored one.

    Raises:
        ValueError: If they differ; the message lists how.
    """
    # converted to what JSON can store
    then = stored["file"]
    now = json.loads(json.dumps(dict(description)))
    changed: list[str] = []
    for name in dict.fromkeys([*then, *now]):
        if name in _MAY_CHANGE_ON_RESUME or then.get(name) == now.get(name):
            continue
        changed.append(f"{name} was {_shortened(then, name)}, now {_shortened(now, name)}")
    if changed:
        raise ValueError(
            f"{out} holds a sweep of another file: {'; '.join(changed)}; choose "
            "another folder with --out"
        )


def _shortened(content: Mapping[str, Any], name: str) -> str:
    if name not in content:
        return "absent"
    text = json.dumps(content[name])
    if len(text) > _MAX_SHOWN:
        text = f"{text[:_MAX_SHOWN]}..."
    return text


def _clear(out: Path) -> None:
    # only the files of a sweep: the folder may hold others
    for file in list(out.glob("**/seed-*/status.json")):
        shutil.rmtree(file.parent)
    for name in _SWEEP_FILES:
        (out / name).unlink(missing_ok=True)
