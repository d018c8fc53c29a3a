"""The density of code: what counts as which construct, and folders that have none."""

import sys

import pytest
from benchmarks.density import main, measure

TEXT = '''"""A docstring, which is no code."""
# the reason for a constant
A, B = 1, 2
N, M = A.shape  # takes one thing apart
C = 1 if A else 2
D = [_once(k) for k in range(3)]
E = f(*[1, 2], **{"a": 1})


def _once(k):
    return k
'''


def test_constructs_and_comments_are_counted(tmp_path):
    file = tmp_path / "dense.py"
    file.write_text(TEXT)
    found = measure([file])
    assert found.code_lines == 7
    assert found.comment_lines == 1
    assert found.comment_share == 1 / 8
    assert found.per_thousand("parallel assignments") == 1000 / 7
    assert found.counts["ternaries"] == 1
    assert found.counts["comprehensions"] == 1
    assert found.counts["splatted literals"] == 2
    assert (found.private, found.called_once) == (1, 1)


@pytest.mark.parametrize("content", [{}, {"empty.py": '"""Text alone."""\n'}, {"data.csv": "1"}])
def test_a_folder_without_code_is_an_error(tmp_path, monkeypatch, capsys, content):
    for name, text in content.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(sys, "argv", ["density", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert f"expected a folder with Python code, got {tmp_path}" in capsys.readouterr().err
