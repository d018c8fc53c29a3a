"""The code and the commands of the documentation run, and it documents every export."""

import doctest
import functools
import importlib
import inspect
import math
import os
import re
import shlex
import statistics
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import pytest
import torch

import eigenrnn
from eigenrnn.constraints import ScaledCayley
from eigenrnn_experiments import registry
from eigenrnn_experiments.cli.commands import function_of, parser_of

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "eigenrnn", ROOT / "experiments" / "src" / "eigenrnn_experiments"
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
PAGES = [
    *(
        ROOT / name
        for name in ("README.md", "CONTRIBUTING.md", "csrc/README.md", "benchmarks/README.md")
    ),
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if page not in TUTORIALS),
]
MODULES = {
    ".".join(path.relative_to(source.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for source in SOURCES
    for path in sorted(source.rglob("*.py"))
    if path.name != "__main__.py"
}
WITH_EXAMPLES = [name for name, path in MODULES.items() if ">>> " in path.read_text("utf-8")]
# a block of Python or of commands must run, unless a comment right above it gives the reason
BLOCK = re.compile(
    r"(?:<!-- not run: (?P<reason>[^>]+?) -->\s*)?^```(?P<language>[\w-]+)\n(?P<text>.*?)^```",
    re.MULTILINE | re.DOTALL,
)
# Their blocks take seconds, so they run with the commands of the pages, in `make console`.
SLOW_PAGES = {
    "analysing.md",
    "exporting.md",
    "forecasting.md",
    "reinforcement_learning.md",
    "use_with.md",
    "your_sequences.md",
}
PROMPT = re.compile(r"\w*\$ +")
PACKAGES = {
    "CONSTRAINTS": "eigenrnn.constraints",
    "LAYERS": "eigenrnn.layers",
    "TASKS": "eigenrnn_experiments.tasks",
    "RECIPES": "eigenrnn_experiments.recipes",
    "BACKENDS": "eigenrnn.ops",
}


@dataclass(frozen=True)
class Block:
    """A fenced block of a page.

    Args:
        language: The word after the opening fence.
        text: The lines between the fences.
        line: The line number on the page at which the text begins.
        reason: The reason why it is not run, or None.
    """

    language: str
    text: str
    line: int
    reason: str | None

    def commands(self):
        """Yield each command with the lines of output below it."""
        for part in re.split(rf"^(?={PROMPT.pattern})", self.text, flags=re.MULTILINE)[1:]:
            lines = part.splitlines()
            count = 1 + len(list(takewhile(lambda line: line.endswith("\\"), lines)))
            yield PROMPT.sub("", "\n".join(lines[:count]), count=1), lines[count:]


def blocks(page):
    text = page.read_text()
    for match in BLOCK.finditer(text):
        line = text.count("\n", 0, match.start("text")) + 1
        yield Block(match["language"], match["text"], line, match["reason"])


# the width of the text of the built pages, in characters of a block
WIDTH = 88
PICTURE = re.compile(r"^:::\{picture\}.*\n(?::alt:.*\n)?((?:.*\n)*?):::$", re.MULTILINE)


def test_blocks_are_no_wider_than_the_page():
    for page in [*PAGES, *TUTORIALS]:
        texts = [block.text for block in blocks(page)] + PICTURE.findall(page.read_text())
        wide = [line for text in texts for line in text.splitlines() if len(line) > WIDTH]
        assert wide == [], page


def losses_of_the_readme(side, steps, capsys):
    """Run one side of the first difference in the README; return the losses that it prints."""
    differences = [block for block in blocks(ROOT / "README.md") if block.language == "diff"]
    text = differences[0].text  # the second one is a single line of a forward pass
    lines = [line[1:] for line in text.splitlines() if line[:1] in {" ", side}]
    assert "range(601)" in text
    code = "\n".join(lines).replace("range(601)", f"range({steps + 1})")
    with torch.random.fork_rng(devices=[]):
        exec(compile(code, "README.md", "exec"), {})
    return [float(line.split()[1]) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("side", ["+", "-"])
def test_both_sides_of_the_difference_in_the_readme_train(side, capsys):
    losses = losses_of_the_readme(side, 100, capsys)
    assert len(losses) == 2
    assert losses[1] < losses[0]


@pytest.mark.console
def test_the_layer_in_the_readme_learns_to_remember_and_the_lstm_does_not(capsys):
    chance = 10 * math.log(8) / 120  # the readme rounds it to 0.173
    assert f"{chance:.3f}" in (ROOT / "README.md").read_text()
    ours = losses_of_the_readme("+", 600, capsys)
    lstm = losses_of_the_readme("-", 600, capsys)
    assert statistics.median(ours[-4:]) < 0.5 * chance  # their median: single losses jump
    assert min(lstm) > 0.95 * chance  # a batch may be a little easier than the mean


@pytest.mark.parametrize(
    ("layer", "lowest", "highest"),
    [
        pytest.param(eigenrnn.ScoRNN, 0.999, 1.001, id="ScoRNN"),
        pytest.param(
            functools.partial(eigenrnn.RNN, nonlinearity="tanh", constraint=ScaledCayley),
            0.0,
            1e-10,
            id="tanh",
        ),
    ],
)
def test_the_gradient_in_the_readme_keeps_its_norm_with_modrelu_and_not_with_tanh(
    layer, lowest, highest
):
    h0 = torch.zeros(1, 4, 128, requires_grad=True)
    output, _ = layer(10, 128)(torch.randn(1000, 4, 10), h0)
    direction = torch.randn(4, 128)
    output[-1].backward(direction / direction.norm(dim=-1, keepdim=True))
    norms = h0.grad.norm(dim=-1)
    assert lowest <= norms.min()
    assert norms.max() <= highest


def code_blocks(page):
    for block in blocks(page):
        if block.language == "python" and block.reason is None:
            # leading blank lines, so that a traceback has the line numbers of the page
            yield "\n" * (block.line - 1) + block.text


# torch's quantisation will move to another package
@pytest.mark.filterwarnings(
    "ignore:torch.ao.quantization is deprecated:DeprecationWarning",
    "ignore:torch.quantize_per_tensor:UserWarning",
)
# Lightning and torch's exporter ask torch's pytree a question that torch has deprecated
@pytest.mark.filterwarnings("ignore:`isinstance\\(treespec, LeafSpec\\)`:FutureWarning")
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.console if page.name in SLOW_PAGES else ())
        for page in PAGES
        if any(code_blocks(page))
    ],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_python_blocks_of_the_page_run_from_top_to_bottom(page, tmp_path, monkeypatch):
    write_files(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    namespace = {"__name__": "page"}
    for code in code_blocks(page):
        exec(compile(code, str(page), "exec"), namespace)


# Replacements in the commands of each page, so that the test takes seconds.
SHORTENED = {
    "README.md": {"--steps 300": "--steps 20", "--rows scoRNN": "--rows 'scoRNN 170'"},
    "docs/extending.md": {"--steps 300": "--steps 5"},
    "docs/experiments.md": {
        "/path/to/data": "$EIGENRNN_DATA",
        "--epochs 3": "--steps 2 --eval_batch_size 1000",
        "--out data/car_racing": "--out data/car_racing --rollouts 3 --steps 5 --epochs 1",
        "--batch_size 100 --steps 4000": "--batch_size 1 --steps 2",
    },
    "docs/analysing.md": {"--steps 2000 --dynamics_every 200": "--steps 2 --dynamics_every 1"},
    "docs/reproducing.md": {
        "reproduction write  ": "reproduction write --out page.md  ",
        "table2 --quick": "table2 --quick --rows 'scoRNN 170'",
        '--rows "170"': "--rows 'scoRNN 170' --quick --out runs/table2",
        "--resume": "--resume --rows 'LSTM 128' --quick --out runs/table2",
    },
    "docs/sweeps.md": {
        "steps: 10000": "steps: 2",
        "seeds: [0, 1, 2]": "seeds: [0]",
        "/shared/": "shared/",
    },
    "docs/training.md": {
        "--steps 10000": "--steps 2",
        "steps: 2000": "steps: 2",
        "--steps 2000": "--steps 3",
        "--warmup_steps 100": "--warmup_steps 1 --batch_size 2",
    },
}
NUMBER = r"\d[\d.,]*"


def shortened(page, text):
    table = SHORTENED.get(str(page.relative_to(ROOT)))
    if table is None:
        return text
    return re.sub("|".join(map(re.escape, table)), lambda match: table[match[0]], text)


def pattern_of(line):
    """Return a pattern for a line of output, with any numbers and tables of any width."""
    parts = re.split(rf"({NUMBER}|─+|\s+)", line.strip())
    parts[::2] = map(re.escape, parts[::2])
    parts[1::2] = (
        NUMBER if part[0].isdigit() else rf"{part[0]}+" if part[0] == "─" else r"\s+"
        for part in parts[1::2]
    )
    return "".join(parts)


def write_files(page, folder):
    """Write the blocks whose first line is the name of a file."""
    for block in blocks(page):
        name = block.text.partition("\n")[0].removeprefix("# ")
        if block.language == "yaml" or re.fullmatch(r"\w+\.py", name):
            (folder / name).write_text(shortened(page, block.text))


CONSOLE = [
    (page, block) for page in PAGES for block in blocks(page) if block.language == "console"
]
NOT_RUN = [
    pytest.param(command, id=f"{page.relative_to(ROOT)}:{block.line} ({block.reason}) {command}")
    for page, block in CONSOLE
    for command, _ in block.commands()
    # these programs are not ours to check
    if block.reason is not None
    and not command.startswith(("git ", "cd ", "cosmic-ray ", "cr-report "))
]
# The programs of this installation of Python come first, before those of another.
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"


@pytest.mark.console
@pytest.mark.parametrize(
    "page",
    dict.fromkeys(page for page, block in CONSOLE if block.reason is None),
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_commands_of_the_page_run_from_top_to_bottom(page, tmp_path, data_root):
    environment = os.environ | {
        "PATH": PATH,
        "EIGENRNN_DATA": str(data_root.resolve()),
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "120",
        "PYTHONPATH": str(ROOT),  # of `python -m reproduction`
    }
    write_files(page, tmp_path)
    for block in blocks(page):
        if block.language != "console" or block.reason is not None:
            continue
        for command, output in block.commands():
            done = subprocess.run(
                ["bash", "-c", shortened(page, command)],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                timeout=600,
                check=False,
            )
            printed = done.stdout + done.stderr
            assert done.returncode == 0, f"{page}:{block.line}: {command}\n{printed}"
            absent = [
                line
                for line in output
                if line != "..." and not re.search(pattern_of(line), printed)
            ]
            assert absent == [], f"{page}:{block.line}: {command}\n{printed}"


def split_command(command):
    """Split a command into words, without leading environment variables."""
    words = shlex.split(command.replace("\\\n", " "), comments=True)
    return words[sum(1 for _ in takewhile(re.compile(r"\w+=").match, words)) :]


def eigenrnn_arguments(words):
    """Return the arguments that a command passes to eigenrnn, or None."""
    if words[0] != "eigenrnn":
        return None
    return words[1:]


@pytest.mark.parametrize(
    ("page", "arguments"),
    [
        pytest.param(page, arguments, id=f"{page.relative_to(ROOT)}:{block.line} {command}")
        for page, block in CONSOLE
        for command, _ in block.commands()
        if (arguments := eigenrnn_arguments(split_command(command))) and "--help" not in arguments
    ],
)
def test_eigenrnn_accepts_the_options_in_the_command(page, arguments, tmp_path, monkeypatch):
    write_files(page, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    parser = parser_of(function_of(arguments[0]))
    parser.parse_args(arguments[1:])


@pytest.mark.console
@pytest.mark.parametrize("command", NOT_RUN)
def test_options_of_a_command_that_is_not_run_exist(command):
    words = split_command(command)
    if words[0] == "make":
        dry = ["make", "--dry-run", *words[1:]]
    elif words[0] == ".ci/run":
        dry = ["bash", "-n", *words]
    else:
        start = 3 if words[1] == "-m" else 1
        dry = [Path(words[0]).name, *words[1:start]]
        dry += [*takewhile(lambda word: not word.startswith("-"), words[start:]), "--help"]
    done = subprocess.run(
        dry,
        cwd=ROOT,
        env=os.environ | {"PATH": PATH, "PYTHONPATH": "tests"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    if dry[-1] == "--help":
        options = [word.partition("=")[0] for word in words[start:] if word.startswith("-")]
        assert [option for option in options if option not in done.stdout] == []


def test_commands_are_in_console_blocks_and_every_replaced_text_is_in_one():
    others = {"bash", "sh", "shell", "shell-session", "zsh"}
    for page in PAGES:
        found = list(blocks(page))
        assert [block.line for block in found if block.language in others] == [], page
        commands = "".join(block.text for block in found if block.language in {"console", "yaml"})
        replaced = SHORTENED.get(str(page.relative_to(ROOT)), {})
        assert [text for text in replaced if text not in commands] == [], page


def test_the_reference_names_every_constraint_layer_task_and_recipe():
    text = "".join(page.read_text() for page in (ROOT / "docs" / "api").glob("*.md"))
    classes = [*registry.CONSTRAINTS.values(), *registry.LAYERS.values()]
    assert [kind.__name__ for kind in classes if f"`{kind.__name__}`" not in text] == []
    for names in ("TASKS", "RECIPES"):  # tables that are made from the registry
        assert f"{{registry-table}} {names}\n" in text


@pytest.mark.parametrize(("folder", "name"), [(".", r"\."), ("experiments", r"\./experiments")])
def test_extras_on_the_pages_exist(folder, name):
    project = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]
    known = set(project["optional-dependencies"])
    found = set()
    for page in [*PAGES, *TUTORIALS]:
        for group in re.findall(rf"'{name}\[([\w,]+)\]'", page.read_text()):
            found |= set(group.split(","))
    assert found
    assert found <= known


def example_namespace():
    names = {"eigenrnn": eigenrnn, "torch": torch, "partial": functools.partial}
    for package in [eigenrnn, *map(importlib.import_module, PACKAGES.values())]:
        names.update({name: getattr(package, name) for name in package.__all__})
    return names


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_docstring_examples_give_the_output_shown(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    names = {**example_namespace(), **vars(module)}
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for example in doctest.DocTestFinder(exclude_empty=True).find(module, globs=names):
        runner.run(example)
    assert runner.failures == 0


def test_links_between_pages_resolve():
    for page in [*PAGES, *TUTORIALS]:
        links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", page.read_text())
        assert [link for link in links if not (page.parent / link).exists()] == [], page


def anchors(page):
    """Return the anchors that GitHub gives to the headings of a page."""
    prose = re.sub(r"^(```|:::).*?^\1", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ +(.+?) *$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


def test_links_to_sections_resolve_on_github():
    for page in [*PAGES, *TUTORIALS]:
        links = re.findall(r"\]\(([\w./-]*)#(?!eigenrnn\.)([^)]+)\)", page.read_text())
        for target, anchor in links:
            linked = page.parent / target if target else page
            assert anchor in anchors(linked), f"{page}: {target}#{anchor}"


def has_reference(mapping):
    """Whether a page lists the whole mapping and documents every export of its package."""
    pages = [page.read_text() for page in (ROOT / "docs" / "api").glob("*.md")]
    table, module = f"{{registry-table}} {mapping}\n", f".. automodule:: {PACKAGES[mapping]}\n"
    return any(table in page and module in page for page in pages)


def test_exports_are_documented_and_name_their_source():
    for mapping in PACKAGES:
        assert has_reference(mapping), mapping
        for name, entry in getattr(registry, mapping).items():
            has_own = inspect.isclass(entry) or inspect.isroutine(entry)
            documented = entry if has_own else type(entry)
            assert (documented.__doc__ or "").strip(), name
            source = getattr(entry, "source", None) or "Source:" in (inspect.getdoc(entry) or "")
            assert source or mapping == "BACKENDS", f"expected a Source: in {name}"


def test_the_page_on_training_has_every_option_of_train(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs" / "_ext")
    tables = importlib.import_module("option_tables")
    said = tables.help_text("train")
    known = parser_of(function_of("train")).get_defaults().as_dict()
    assert [name for name in known if f"--{name}" not in said] == []
    assert len(tables.metric_rows()) == len(registry.TASKS)
