"""Judges tests by the faults that they notice: a mutant is the library with one faulty line.

A map says which tests execute which line, and how long each takes. It runs all tests once under
coverage, or the files that are named: ``python -m benchmarks.mutants map build/map.json``.

``python -m benchmarks.mutants run build/map.json build/mutants.json --count 240`` makes mutants
with a seed. Each runs the tests that execute its line, the quick ones of each file first, until
one fails. The result has the difference of each mutant from the library, and what noticed it.

``python -m benchmarks.mutants kernels build/kernels.json`` compiles the mutants of the kernels
that ``kernel_mutants.json`` lists, one after another, and runs the tests of the kernels.

Coverage sees neither what `torch.compile` traces nor other processes. A mutant of a line that only
these execute may survive although their tests would notice it.

What these commands do not know is passed to pytest, such as ``-m "not slow"``. With ``--tree``
they judge the tests of another checkout.
"""

import argparse
import ast
import compileall
import dataclasses
import difflib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

__all__ = ["Edit", "edits", "main", "mutated"]

ROOT = Path(__file__).parents[1]
PACKAGE = Path("src/eigenrnn")
MUTATED = ["constraints", "ops", "layers", "linalg.py", "streaming.py"]
KERNEL_MUTANTS = Path(__file__).with_name("kernel_mutants.json")
KERNEL_TESTS = [
    "test_recurrences.py",
    "test_kernels.py",
    "test_*cpu.py",
    "test_cpu_functions.py",
    "test_*_op.py",
    "test_delta_layers.py",
    "test_elman.py",
    "test_gaps.py",
    "test_leak.py",
    "test_linear_layers.py",
]
# Imported before each mutant's process is forked, so that none waits for them.
PRELOADED = [
    "numpy",
    "scipy.linalg",
    "torch",
    "torch._dynamo",
    "pytest",
    "matplotlib.pyplot",
    "lightning",
]

NOT_BUILT = "does not compile"
TREE_HELP = "a checkout whose tests are judged, by default this one"
SECONDS_HELP = "seconds of tests for one mutant at most"
SURVIVORS_HELP = "run the mutants that survived in another result"

OPERATORS: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "%"),
    ast.Mod: ("%", "//"),
    ast.Pow: ("**", "*"),
}
COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}
# A chain without one of these still runs, and gives something else.
DROPPED_ATTRIBUTES = {"mT", "mH", "T", "H"}
DROPPED_CALLS = {
    "conj",
    "clone",
    "contiguous",
    "detach",
    "transpose",
    "flip",
    "neg",
    "sqrt",
    "abs",
    "real",
}


@dataclass(frozen=True)
class Edit:
    """A replacement within one line of a file."""

    file: str
    line: int
    start: int
    end: int
    new: str
    kind: str


# ---------------------------------------------------------------------------------------- Mutants


def edits(file: str, text: str) -> list[Edit]:
    """Return every edit of a Python file that this script knows, from top to bottom."""
    finder = _Finder(file, text)
    finder.visit(ast.parse(text))
    found = [edit for edit in set(finder.found) if mutated(text, edit) != text]
    return sorted(found, key=lambda edit: (edit.line, edit.start, edit.end, edit.new))


def mutated(text: str, edit: Edit) -> str:
    """Return the text with one edit. The columns count bytes, as those of `ast` do."""
    lines = text.splitlines(keepends=True)
    line = lines[edit.line - 1].encode()
    changed = line[: edit.start] + edit.new.encode() + line[edit.end :]
    lines[edit.line - 1] = changed.decode()
    return "".join(lines)


class _Finder(ast.NodeVisitor):
    """Collects the edits. It leaves out annotations, messages and our own assertions."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.lines = [line.encode() for line in text.splitlines()]
        self.found: list[Edit] = []

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name in {"__repr__", "extra_repr", "__str__"}:
            return
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            if default is not None:
                self.visit(default)
        for statement in node.body:
            self.visit(statement)

    def visit_Raise(self, node: ast.Raise) -> None:
        pass

    def visit_Assert(self, node: ast.Assert) -> None:
        pass

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass

    def visit_Subscript(self, node: ast.Subscript) -> None:
        # `list[int]` and `tuple[Tensor, ...]` are types
        if not (
            isinstance(node.value, ast.Name) and node.value.id in {"list", "dict", "tuple", "type"}
        ):
            self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        left = self._source(node.left)
        right = self._source(node.right)
        if isinstance(node.op, ast.MatMult):
            if left is not None and right is not None:
                self._replace(node, f"{right} @ {left}", "swapped factors")
        elif type(node.op) in OPERATORS:
            old, new = OPERATORS[type(node.op)]
            self._replace_between(node.left, node.right, old, new, "operator")
        if (
            isinstance(node.op, ast.Add | ast.Sub | ast.Mult)
            and left is not None
            and right is not None
        ):
            self._replace(node, left, "dropped term")
            if not isinstance(node.op, ast.Sub):
                self._replace(node, right, "dropped term")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        operand = self._source(node.operand)
        if operand is not None:
            if isinstance(node.op, ast.USub):
                self._replace(node, operand, "sign")
            if isinstance(node.op, ast.Not):
                self._replace(node, f"({operand})", "negated condition")
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        self._replace_between(node.values[0], node.values[1], old, new, "operator")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            old, new = COMPARISONS[type(operator)]
            self._replace_between(left, right, old, new, "comparison")
            left = right
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._replace(node, str(not value), "constant")
        elif isinstance(value, int):
            self._replace(node, str(value + 1), "off by one")
        elif isinstance(value, float):
            self._replace(node, repr(2 * value if value else 1.0), "constant")

    def visit_If(self, node: ast.If) -> None:
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            self._negate(node.test)
            self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._replace(node, "pass", "deleted statement")
            self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._replace(node, "pass", "deleted statement")
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        value = self._source(node.value)
        if node.attr in DROPPED_ATTRIBUTES and value is not None:
            self._replace(node, value, "dropped call")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if len(node.args) >= 2 and not any(
            isinstance(argument, ast.Starred) for argument in node.args
        ):
            self._swap(node.args[0], node.args[1])
        if isinstance(node.func, ast.Attribute) and node.func.attr in DROPPED_CALLS:
            value = self._source(node.func.value)
            if value is not None and value != "torch":
                self._replace(node, value, "dropped call")
        self.generic_visit(node)

    def _swap(self, first: ast.expr, second: ast.expr) -> None:
        before = self._source(first)
        after = self._source(second)
        if before is None or after is None or before == after or first.lineno != second.lineno:
            return
        between = self.lines[first.lineno - 1][first.end_col_offset : second.col_offset].decode()
        self.found.append(
            Edit(
                file=self.file,
                line=first.lineno,
                start=first.col_offset,
                end=second.end_col_offset,
                new=after + between + before,
                kind="swapped arguments",
            )
        )

    def _negate(self, test: ast.expr) -> None:
        source = self._source(test)
        if source is not None and not isinstance(test, ast.UnaryOp | ast.Compare):
            self._replace(test, f"not ({source})", "negated condition")

    def _source(self, node: ast.expr) -> str | None:
        """The text of a node that is within one line, without the parentheses around it."""
        if node.lineno != node.end_lineno:
            return None
        return self.lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode()

    def _replace(self, node: ast.expr | ast.stmt, new: str, kind: str) -> None:
        if node.lineno == node.end_lineno:
            self.found.append(
                Edit(self.file, node.lineno, node.col_offset, node.end_col_offset, new, kind)
            )

    def _replace_between(
        self, left: ast.expr, right: ast.expr, old: str, new: str, kind: str
    ) -> None:
        if left.end_lineno != right.lineno:
            return
        between = self.lines[right.lineno - 1][left.end_col_offset : right.col_offset].decode()
        # parentheses close and open around the operator, so it occurs once
        start = left.end_col_offset + between.index(old)
        self.found.append(Edit(self.file, right.lineno, start, start + len(old), new, kind))


def _all_edits(seed: int) -> list[Edit]:
    """Every edit of the mutated files in the order of a seed, and as many of each kind in turn."""
    files: list[Path] = []
    for name in MUTATED:
        place = ROOT / PACKAGE / name
        files += sorted(place.rglob("*.py")) if place.is_dir() else [place]
    by_kind: dict[str, list[Edit]] = defaultdict(list)
    for file in files:
        for edit in edits(str(file.relative_to(ROOT / PACKAGE)), file.read_text("utf-8")):
            by_kind[edit.kind].append(edit)
    generator = random.Random(seed)
    for same_kind in by_kind.values():
        generator.shuffle(same_kind)
    turns = zip_longest(*(by_kind[kind] for kind in sorted(by_kind)))
    chosen: list[Edit] = []
    for turn in turns:  # an edit of each kind, or None where a kind has no more
        chosen += [edit for edit in turn if edit is not None]
    return chosen


def _difference(before: str, after: str) -> list[str]:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return [line.strip() for line in lines if not line.startswith(("---", "+++", "@@"))]


# ------------------------------------------------------------------------------ Plugins of pytest


class _Mapper:
    """Tells coverage which test runs, and measures the processor time of each."""

    def __init__(self, tree: Path) -> None:
        import coverage

        self.seconds: dict[str, float] = {}
        self.failed: set[str] = set()
        self.began = 0.0
        self.coverage = coverage.Coverage(
            data_file=None, source=[str(tree / PACKAGE)], config_file=False
        )
        self.coverage.start()

    @staticmethod
    def _processor_time() -> float:
        times = os.times()
        return sum(times) - times.elapsed

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.coverage.switch_context(nodeid)
        self.began = self._processor_time()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.seconds[nodeid] = round(self._processor_time() - self.began, 4)

    def pytest_runtest_logreport(self, report: "pytest.TestReport") -> None:
        # a test that fails anyway notices nothing
        if report.failed:
            self.failed.add(report.nodeid)

    def written(self) -> dict:
        self.coverage.stop()
        data = self.coverage.get_data()
        names = list(self.seconds)
        numbers = {name: number for number, name in enumerate(names)}
        passed = set(names) - self.failed
        lines: dict[str, dict[int, list[int]]] = {}
        for file in data.measured_files():
            name = file.split(f"{PACKAGE}/", 1)[1]
            if not name.startswith(tuple(MUTATED)):
                continue
            by_line = data.contexts_by_lineno(file)
            lines[name] = {
                line: sorted(numbers[test] for test in tests if test in passed)
                for line, tests in by_line.items()
            }
        return {"tests": names, "seconds": list(self.seconds.values()), "lines": lines}


class _Chosen:
    """Runs the chosen tests alone, in their order, and keeps which one failed."""

    def __init__(self, tests: list[str]) -> None:
        self.place = {test: place for place, test in enumerate(tests)}
        self.failed: str | None = None

    def pytest_collection_modifyitems(self, items: "list[pytest.Item]") -> None:
        chosen = [item for item in items if item.nodeid in self.place]
        items[:] = sorted(chosen, key=lambda item: self.place[item.nodeid])

    def pytest_runtest_logreport(self, report: "pytest.TestReport") -> None:
        if report.failed and self.failed is None:
            self.failed = report.nodeid


# ------------------------------------------------------------------------------------ Processes


@dataclass(frozen=True)
class Outcome:
    """How the tests of one mutant ended.

    Args:
        result: "killed" by a failing test; "stopped" if it took too long or crashed; "broken" if
            the tests cannot be collected; else "survived".
        by: The test that failed, or the signal.
        seconds: Processor time.
    """

    result: str
    by: str
    seconds: float


def _forked(
    tree: Path, source: Path, arguments: list[str], plugin: _Chosen, limit: float
) -> Outcome:
    """Run pytest in a fork of this process, which has imported torch but not the library."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 5))
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        os.chdir(tree)
        sys.path[0] = str(source)
        os.environ["PYTHONPATH"] = str(source)
        import pytest

        code = int(pytest.main(arguments, plugins=[plugin]))
        os.write(writer, json.dumps([code, plugin.failed]).encode())
        os._exit(0)
    os.close(writer)
    # a mutant may wait forever without using the processor
    deadline = time.monotonic() + 4 * limit
    while True:
        ended, status, usage = os.wait4(child, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
        time.sleep(0.02)
    answer = os.read(reader, 1 << 16)
    os.close(reader)
    seconds = round(usage.ru_utime + usage.ru_stime, 2)
    if not answer:
        return Outcome(
            "stopped",
            signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "exit",
            seconds,
        )
    code, failed = json.loads(answer)
    results = {0: "survived", 1: "killed", 5: "survived"}
    return Outcome(results.get(code, "broken"), failed or "", seconds)


def _write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", "utf-8")


def _preload() -> None:
    for name in PRELOADED:
        __import__(name)


# ------------------------------------------------------------------------------------- Commands


def _map(options: argparse.Namespace) -> None:
    import pytest

    os.chdir(options.tree)
    sys.path[0] = str(options.tree / "src")
    os.environ["PYTHONPATH"] = sys.path[0]
    mapper = _Mapper(options.tree)
    pytest.main(["-q", "-p", "no:cacheprovider", *options.pytest], plugins=[mapper])
    _write(options.map, mapper.written())


def _ordered(
    numbers: list[int], tests: list[str], seconds: list[float], budget: float
) -> list[int]:
    """Order tests until the time is spent: the quickest of each file, then the second ones."""
    by_file: dict[str, list[int]] = defaultdict(list)
    for number in sorted(numbers, key=lambda number: seconds[number]):
        by_file[tests[number].split("::")[0]].append(number)
    ranked: list[tuple[int, float, int]] = []
    for same_file in by_file.values():
        ranked += [(rank, seconds[number], number) for rank, number in enumerate(same_file)]
    chosen: list[int] = []
    spent = 0.0
    for _, duration, number in sorted(ranked):
        if spent + duration <= budget:
            chosen.append(number)
            spent += duration
    return chosen


def _run(options: argparse.Namespace) -> None:
    mapped = json.loads(options.map.read_text("utf-8"))
    tests: list[str] = mapped["tests"]
    seconds: list[float] = mapped["seconds"]
    selected = _selected(options)
    _preload()
    records: list[dict] = []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(source, quiet=2)
        # The compiled file of a mutant would be taken for that of the next one.
        sys.dont_write_bytecode = True
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        for edit in selected:
            file = source / "eigenrnn" / edit.file
            unchanged = file.stat()
            before = file.read_text("utf-8")
            after = mutated(before, edit)
            lines = mapped["lines"].get(edit.file, {})
            # an import executes defaults and constants: those who use the file may notice
            numbers = lines.get(str(edit.line)) or sorted(set(chain(*lines.values())))
            chosen = _ordered(numbers, tests, seconds, options.seconds)
            names = [tests[number] for number in chosen]
            if names:
                file.write_text(after, "utf-8")
                expected = sum(seconds[number] for number in chosen)
                files = sorted({name.split("::")[0] for name in names})
                arguments = ["-x", "-q", "-p", "no:cacheprovider", *options.pytest, *files]
                outcome = _forked(
                    options.tree, source, arguments, _Chosen(names), 60 + 3 * expected
                )
                file.write_text(before, "utf-8")
                os.utime(file, ns=(unchanged.st_atime_ns, unchanged.st_mtime_ns))
            else:
                outcome = Outcome("survived", "no test executes the line", 0.0)
            records.append(
                {
                    **dataclasses.asdict(edit),
                    "difference": _difference(before, after),
                    "tests": len(names),
                    "of": len(numbers),
                    **dataclasses.asdict(outcome),
                }
            )
            place = f"{edit.file}:{edit.line} {edit.kind}"
            print(
                f"{len(records):4d} {outcome.result:9s} {place}, {outcome.seconds} s", flush=True
            )
            _write(options.result, records)
    _summary(records)


def _selected(options: argparse.Namespace) -> list[Edit]:
    """The mutants to run: the survivors of another result, or the first ones of a seed."""
    if options.survivors_of is not None:
        fields = {field.name for field in dataclasses.fields(Edit)}
        records = json.loads(options.survivors_of.read_text("utf-8"))
        return [
            Edit(**{name: value for name, value in record.items() if name in fields})
            for record in records
            if record["result"] == "survived"
        ]
    return _all_edits(options.seed)[options.skip :][: options.count]


def _kernels(options: argparse.Namespace) -> None:
    mutants = json.loads(KERNEL_MUTANTS.read_text("utf-8"))[options.skip :][: options.count]
    present: list[str] = []
    for pattern in KERNEL_TESTS:
        present += sorted(str(file) for file in (options.tree / "tests").rglob(pattern))
    records: list[dict] = []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "csrc"
        build = Path(folder) / "build"
        shutil.copytree(ROOT / "csrc", source)
        flags = ["-DCMAKE_BUILD_TYPE=Release", "-DEIGENRNN_ISAS=native"]
        python = f"-DPython_EXECUTABLE={sys.executable}"
        configure = ["cmake", "-S", source, "-B", build, "-G", "Ninja", *flags, python]
        compile_ = ["cmake", "--build", build, "-j", options.jobs]
        subprocess.run(configure, check=True, capture_output=True)
        subprocess.run(compile_, check=True, capture_output=True)
        library = build / f"_cpu{sysconfig.get_config_var('EXT_SUFFIX')}"
        arguments = ["-x", "-q", "-p", "no:cacheprovider", f"--kernels={library}"]
        arguments += [*options.pytest, *present]
        here = options.tree / "src"
        _preload()
        for mutant in mutants:
            file = source / mutant["file"]
            before = file.read_text("utf-8")
            found = before.count(mutant["search"])
            if found != 1:
                place = f"{mutant['search']!r} in {mutant['file']}"
                raise ValueError(f"expected one place with {place}, got {found}")
            after = before.replace(mutant["search"], mutant["replace"])
            file.write_text(after, "utf-8")
            built = subprocess.run(compile_, capture_output=True, check=False)
            if built.returncode == 0:
                everything = _Everything()
                outcome = _forked(options.tree, here, arguments, everything, options.seconds)
            else:
                outcome = Outcome("broken", NOT_BUILT, 0.0)
            file.write_text(before, "utf-8")
            records.append(
                {
                    "file": mutant["file"],
                    "kind": mutant["kind"],
                    "difference": _difference(before, after),
                    **dataclasses.asdict(outcome),
                }
            )
            place = f"{mutant['file']} {mutant['kind']}"
            print(
                f"{len(records):4d} {outcome.result:9s} {place}, {outcome.seconds} s", flush=True
            )
            _write(options.result, records)
    _summary(records)


class _Everything(_Chosen):
    """Runs all tests of the files."""

    def __init__(self) -> None:
        super().__init__([])

    def pytest_collection_modifyitems(self, items: "list[pytest.Item]") -> None:
        pass


def _summary(records: list[dict]) -> None:
    survivors = [record for record in records if record["result"] == "survived"]
    not_built = sum(record["by"] == NOT_BUILT for record in records)
    noticed = len(records) - len(survivors) - not_built
    print(f"{len(records)} mutants, {noticed} noticed, {len(survivors)} survived", end=", ")
    print(f"{not_built} not compiled")
    for record in survivors:
        print(f"{record['file']}: {record['kind']}", *record["difference"], sep="\n    ")


def main() -> None:
    """Run one of the commands that the module's docstring names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    for name, command in {"map": _map, "run": _run, "kernels": _kernels}.items():
        subparser = commands.add_parser(name)
        subparser.set_defaults(command=command)
        subparser.add_argument("--tree", type=Path, default=ROOT, help=TREE_HELP)
        if name != "kernels":
            subparser.add_argument("map", type=Path, help="the file of the map")
        if name != "map":
            subparser.add_argument("result", type=Path, help="the file to write")
            subparser.add_argument("--count", type=int, default=240, help="number of mutants")
            subparser.add_argument("--skip", type=int, default=0, help="leave out the first ones")
            subparser.add_argument("--seconds", type=float, default=120, help=SECONDS_HELP)
        if name == "run":
            subparser.add_argument("--seed", type=int, default=0)
            subparser.add_argument("--survivors-of", type=Path, help=SURVIVORS_HELP)
        if name == "kernels":
            subparser.add_argument("--jobs", default="1", help="processes of the compiler")
    # what is unknown here is for pytest: files, and flags such as `-m ""`
    options, options.pytest = parser.parse_known_args()
    options.tree = options.tree.resolve()
    options.command(options)


if __name__ == "__main__":
    main()
