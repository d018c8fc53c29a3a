"""Texts that a trained network continues, from the command line and Python."""

import io
import json
import math
import shlex
import shutil

import numpy as np
import pytest
import torch

from eigenrnn_experiments import load
from eigenrnn_experiments.cli import main
from eigenrnn_experiments.data.corpora import TINY_SHAKESPEARE, split_text, split_words
from eigenrnn_experiments.prediction import bits_per_symbol, continue_text
from eigenrnn_experiments.tasks.preprocessing import TextPreprocessing
from training_run import one_thread

SMALL = "--layer GRU --hidden_size 12 --optimiser adam --lr 1e-2 --accelerator cpu"


def train(folder, line):
    with one_thread():
        assert main(shlex.split(f"train {SMALL} {line} --out {folder}")) == 0
    return folder


def recorded(folder):
    return json.loads((folder / "run.json").read_text())["best"]["test"]


@pytest.fixture
def predict(capsys, tmp_path, monkeypatch):
    """Run the command; return the standard output, or the error with `fails`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EIGENRNN_DEBUG", raising=False)

    def call(line, *, stdin=None, fails=False):
        if stdin is not None:
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        capsys.readouterr()
        with one_thread():
            status = main(shlex.split(f"predict {line}"))
        printed = capsys.readouterr()
        assert status == (2 if fails else 0), printed.err
        return " ".join(printed.err.split()) if fails else printed.out

    return call


@pytest.fixture(scope="module")
def shakespeare(data_root):
    return (data_root / TINY_SHAKESPEARE.path).read_text()[:20_000]


def text_run(folder, text, options=""):
    (folder / "my.txt").write_text(text)
    line = f"--task Text --task.path {folder / 'my.txt'} --task.window 50 --steps 40 {options}"
    return train(folder / "run", f"{line} --task.test_streams 1")


@pytest.fixture(scope="module")
def characters(shakespeare, tmp_path_factory):
    folder = tmp_path_factory.mktemp("characters")
    run = text_run(folder, shakespeare)
    (folder / "my.txt").unlink()
    return run


def held_out(text, unit):
    corpus = split_text(text, unit, (0.05, 0.05))
    symbols = [corpus.symbols[k] for k in corpus.parts["test"].tolist()]
    return (" " if unit == "words" else "").join(symbols)


def test_bits_per_character_are_those_of_the_run(characters, shakespeare, capsys):
    path = characters.parent / "test.txt"
    path.write_text(held_out(shakespeare, "characters"))
    assert main(["predict", str(characters), str(path), "--length", "0", "--out", str(path)]) == 2
    capsys.readouterr()
    assert main(["predict", str(characters), str(path), "--length", "0"]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == f"{recorded(characters)['bits']:.4g} bits per character\n"


def test_bits_of_words_are_those_of_the_run(shakespeare, tmp_path):
    run = text_run(tmp_path, shakespeare, "--task.unit words")
    loaded = load(run)
    text = held_out(shakespeare, "words")
    found = bits_per_symbol(loaded.model, loaded.preprocessing, text)
    assert found == pytest.approx(recorded(run)["bits"], rel=1e-5)
    continued = continue_text(loaded.model, loaded.preprocessing, text, 5)
    assert len(split_words(continued)) == 5


def test_the_most_probable_symbols_are_those_of_a_plain_loop(characters):
    run = load(characters)
    codes = run.preprocessing.encode("First Citizen:\n").tolist()
    for _ in range(12):
        logits = run.model(torch.tensor(codes).unsqueeze(1))
        codes.append(int(logits[-1, 0].argmax()))
    expected = run.preprocessing.decode(np.array(codes[-12:]))
    text = "First Citizen:\n"
    found = continue_text(run.model, run.preprocessing, text, 12, temperature=0)
    assert found == expected


def test_draws_are_determined_by_the_seed(characters, predict):
    one, again, other = (
        predict(f"{characters} - --length 40 --seed {seed}", stdin="ROMEO:") for seed in (3, 3, 4)
    )
    assert one == again != other
    assert len(one) == 41  # with a line end


def test_draws_have_the_predicted_frequencies(characters):
    run = load(characters)
    logits = run.model(torch.from_numpy(run.preprocessing.encode("th")).unsqueeze(1))[-1, 0]
    expected = (logits.detach().double() / 0.5).softmax(0)
    drawn = [
        continue_text(run.model, run.preprocessing, "th", 1, temperature=0.5, seed=seed)
        for seed in range(400)
    ]
    for symbol, chance in zip(run.preprocessing.symbols, expected.tolist(), strict=True):
        frequency = drawn.count(symbol) / 400
        assert abs(frequency - chance) < 4 * math.sqrt(chance / 400) + 0.01


@pytest.mark.parametrize("text", ["ab\nb a\n", "\n\na", "b"])
@pytest.mark.parametrize("unit", ["characters", "words"])
def test_decoding_inverts_encoding(text, unit):
    found = TextPreprocessing(("a", "b", " ", "ab", "\n"), unit)
    expected = "\n".join(line.strip() for line in text.split("\n")) if unit == "words" else text
    assert found.decode(found.encode(text)) == expected


@pytest.mark.parametrize("text", ["x<eos>y <eos>\nz\n", "<eos>"])
@pytest.mark.parametrize("unit", ["characters", "words"])
def test_a_text_may_contain_any_name_of_a_line_end(text, unit):
    symbols = split_text(text, unit, (0.1, 0.1)).symbols
    found = TextPreprocessing(symbols, unit)
    assert found.decode(found.encode(text)) == text


def test_the_symbols_have_the_indices_of_training(characters, shakespeare):
    expected = split_text(shakespeare, "characters", (0.05, 0.05)).parts["train"][:500]
    assert np.array_equal(load(characters).preprocessing.encode(shakespeare[:500]), expected)


def assert_matches(pattern, text):
    with pytest.raises(ValueError, match=pattern):
        raise ValueError(text)


@pytest.mark.parametrize(("text", "said"), [("plain\nna\u00efve", "got 'ï' in line 2")])
def test_invalid_texts_are_named(characters, predict, text, said):
    assert_matches(said, predict(f"{characters} -", stdin=text, fails=True))


def test_a_run_of_another_task_is_refused(predict, tmp_path):
    run = train(tmp_path / "run", "--task Copying --task.delay 3 --task.test_examples 4 --steps 1")
    said = predict(f"{run} -", stdin="", fails=True)
    assert_matches("of the task Text, .* a run of Copying", said)


def test_a_damaged_preprocessing_is_refused(characters, predict, tmp_path):
    shutil.copytree(characters, tmp_path / "copy")
    file = tmp_path / "copy" / "run.json"
    config = json.loads(file.read_text())
    config["preprocessing"]["class"] = "Popen"
    file.write_text(json.dumps(config))
    error = predict("copy -", stdin="", fails=True)
    assert "run.json is damaged: there is no Popen" in error


def test_a_single_character_can_be_continued(characters, predict):
    assert len(predict(f"{characters} - --length 3", stdin="R")) == 4
