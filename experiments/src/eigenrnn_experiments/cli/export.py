"""The command `export`, which writes the trained network of a run for other programs."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from jsonargparse import Namespace
from rich.console import Console

from eigenrnn import __version__
from eigenrnn.export import check_export, export_model, to_c
from eigenrnn_experiments.loading import load
from eigenrnn_experiments.tasks.preprocessing import TextPreprocessing
from eigenrnn_experiments.training.files import write_json

__all__ = ["export"]


def export(options: Namespace, console: Console) -> int:
    """Write the file and its description, and return the exit status."""
    path = Path(options.model)
    if path.suffix != ".c":
        check_export(path)
    run = load(options.run, options.data_root)
    notes = {"name": run.name, "preprocessing": _described(run.preprocessing)}
    if path.suffix == ".c":
        to_c(run.model, path)
        write_json(path.with_suffix(".json"), {"eigenrnn": __version__, **notes})
        line = (
            f"in {path} and {path.with_suffix('.h')}; preprocessing in {path.with_suffix('.json')}"
        )
        console.print(line, soft_wrap=True, highlight=False, markup=False)
        return 0
    description = export_model(run.model, path, notes=notes)
    difference = description["largest_difference"]
    console.print(f"differs from the network by at most {difference:.1g}", highlight=False)
    line = f"in {path}; inputs, outputs and preprocessing in {path.with_suffix('.json')}"
    console.print(line, soft_wrap=True, highlight=False, markup=False)
    return 0


def _described(preprocessing: TextPreprocessing | None) -> dict[str, Any] | None:
    if preprocessing is None:
        return None
    return {"kind": "text", **asdict(preprocessing)}
