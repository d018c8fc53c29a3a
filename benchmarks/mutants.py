"""Judges the tests of the kernels by the faults that they notice: a mutant has one faulty line.

``python -m benchmarks.mutants build/kernels.json`` compiles the mutants of the kernels that
``kernel_mutants.json`` lists, one after another, and runs their tests until one fails. The result
has the difference of each mutant from the kernels, and what noticed it. The mutants of the Python
code are made by cosmic-ray, see CONTRIBUTING.md.

What the command does not know is passed to pytest, such as ``-m "not slow"``. With ``--tree`` it
judges the tests of another checkout.
"""

import argparse
import difflib
import json
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

__all__ = ["KERNEL_MUTANTS", "ROOT", "main"]

ROOT = Path(__file__).parents[1]
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


def main() -> None:
    """Compile and test the mutants of the kernels.

    Raises:
        ValueError: If a kernel has no longer the line of a mutant.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("result", type=Path, help="the file to write")
    parser.add_argument("--tree", type=Path, default=ROOT, help="a checkout with other tests")
    parser.add_argument("--count", type=int, default=240, help="number of mutants")
    parser.add_argument("--skip", type=int, default=0, help="leave out the first ones")
    parser.add_argument("--seconds", type=float, default=240, help="of tests of a mutant at most")
    parser.add_argument("--jobs", default="1", help="processes of the compiler")
    # what is unknown here is for pytest: flags such as `-m ""`
    options, flags = parser.parse_known_args()
    tree = options.tree.resolve()
    tests: list[str] = []
    for pattern in KERNEL_TESTS:
        tests += sorted(str(file) for file in (tree / "tests").rglob(pattern))
    records: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "csrc"
        build = Path(folder) / "build"
        shutil.copytree(ROOT / "csrc", source)
        configure = ["cmake", "-S", source, "-B", build, "-G", "Ninja"]
        configure += ["-DCMAKE_BUILD_TYPE=Release", "-DEIGENRNN_ISAS=native"]
        configure += [f"-DPython_EXECUTABLE={sys.executable}"]
        compile_ = ["cmake", "--build", build, "-j", options.jobs]
        subprocess.run(configure, check=True, capture_output=True)
        subprocess.run(compile_, check=True, capture_output=True)
        library = build / f"_cpu{sysconfig.get_config_var('EXT_SUFFIX')}"
        pytest = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        pytest += [f"--kernels={library}", *flags, *tests]
        mutants = json.loads(KERNEL_MUTANTS.read_text("utf-8"))[options.skip :]
        for mutant in mutants[: options.count]:
            file = source / mutant["file"]
            before = file.read_text("utf-8")
            if before.count(mutant["search"]) != 1:
                raise ValueError(f"expected one {mutant['search']!r} in {mutant['file']}")
            after = before.replace(mutant["search"], mutant["replace"])
            file.write_text(after, "utf-8")
            began = time.monotonic()
            result = "broken"  # if it does not compile
            by = ""
            if subprocess.run(compile_, capture_output=True, check=False).returncode == 0:
                result, by = _tested(pytest, tree, options.seconds)
            file.write_text(before, "utf-8")
            record = {"file": mutant["file"], "kind": mutant["kind"], "result": result, "by": by}
            record["seconds"] = round(time.monotonic() - began, 1)
            record["difference"] = _difference(before, after)
            records.append(record)
            print(*list(record.values())[:5], flush=True)
            options.result.parent.mkdir(parents=True, exist_ok=True)
            options.result.write_text(json.dumps(records, indent=1) + "\n", "utf-8")
    survivors = [record for record in records if record["result"] == "survived"]
    print(f"{len(records)} mutants, {len(survivors)} survived")
    for record in survivors:
        print(f"{record['file']}: {record['kind']}", *record["difference"], sep="\n    ")


def _tested(pytest: list[str], tree: Path, seconds: float) -> tuple[str, str]:
    """Run the tests; return how they ended, and the test that failed."""
    try:
        done = subprocess.run(
            pytest, cwd=tree, capture_output=True, check=False, text=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return "stopped", ""
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    results = {0: "survived", 1: "killed"}
    return results.get(done.returncode, "stopped"), failed.group(1) if failed else ""


def _difference(before: str, after: str) -> list[str]:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return [line.strip() for line in lines if not line.startswith(("---", "+++", "@@"))]


if __name__ == "__main__":
    main()
