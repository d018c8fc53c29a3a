"""A sweep so small that it takes no time, and how tests read one."""

import yaml

from eigenrnn.cli.sweep_file import read_sweep

TINY = {
    "task": {"name": "copying", "delay": 3, "symbols": 2, "test_examples": 10},
    "layer": "scornn",
    "hidden_size": 6,
    "steps": 8,
    "eval_every": 2,
    "batch_size": 2,
    "log_every": 1,
    "accelerator": "cpu",
}
SEEDS = {"seeds": [0]}


def read(tmp_path, content):
    file = tmp_path / "sweep.yaml"
    file.write_text(
        content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False)
    )
    return read_sweep(file)
