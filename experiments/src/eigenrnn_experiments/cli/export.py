"""The command `export`, which writes the trained network of a run for other programs."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from eigenrnn import __version__
from eigenrnn.export import check_export, export_model, to_c
from eigenrnn_experiments.console import say
from eigenrnn_experiments.files import write_json
from eigenrnn_experiments.loading import load

__all__ = ["export"]


def export(run: str, model: str, *, data_root: str | None = None) -> int:
    """Write the trained network of a run for other programs.

    Its inputs, outputs and preprocessing are written to a JSON file beside it. ONNX needs:
    pip install 'eigenrnn[onnx]'.

    Args:
        run: Folder of a run, or one of its checkpoints.
        model: Output file: .onnx, .pt2 (torch.export) or .c (plain C).
        data_root: Folder with the data files.
    """
    path = Path(model)
    if path.suffix != ".c":
        check_export(path)
    trained = load(run, data_root)
    preprocessing: dict[str, Any] | None = None
    if trained.preprocessing is not None:
        preprocessing = {"kind": "text", **asdict(trained.preprocessing)}
    notes = {"name": trained.name, "preprocessing": preprocessing}
    if path.suffix == ".c":
        to_c(trained.model, path)
        write_json(path.with_suffix(".json"), {"eigenrnn": __version__, **notes})
        say(
            f"in {path} and {path.with_suffix('.h')}; preprocessing in {path.with_suffix('.json')}"
        )
        return 0
    description = export_model(trained.model, path, notes=notes)
    difference = description["largest_difference"]
    say(f"differs from the network by at most {difference:.1g}")
    say(f"in {path}; inputs, outputs and preprocessing in {path.with_suffix('.json')}")
    return 0
