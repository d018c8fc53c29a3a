"""The command `export`, which writes the trained network of a run for other programs."""

from pathlib import Path

from jsonargparse import Namespace
from rich.console import Console

from eigenrnn.experiments.cli.rebuild import load
from eigenrnn.experiments.export import check_export, export_model

__all__ = ["export"]


def export(options: Namespace, console: Console) -> int:
    """Write the file and its description, and return the exit status."""
    path = Path(options.model)
    check_export(path)
    run = load(options.run, options.data_root)
    description = export_model(run.model, path, run.preprocessing, run.name)
    difference = description["largest_difference"]
    console.print(f"differs from the network by at most {difference:.1g}", highlight=False)
    line = f"in {path}; inputs, outputs and preprocessing in {path.with_suffix('.json')}"
    console.print(line, soft_wrap=True, highlight=False, markup=False)
    return 0
