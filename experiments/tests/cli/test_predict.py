"""Predictions of a trained network for the user's own files, from the command line and Python."""

import csv
import io
import json
import math
import shlex
import shutil
import sys

import numpy as np
import onnxruntime
import pytest
import torch

from eigenrnn_experiments import load
from eigenrnn_experiments.cli import main
from eigenrnn_experiments.data.corpora import TINY_SHAKESPEARE, split_text, split_words
from eigenrnn_experiments.data.series import read_series
from eigenrnn_experiments.prediction import (
    SeriesPredictions,
    bits_per_symbol,
    continue_text,
    predict_series,
)
from eigenrnn_experiments.tasks.preprocessing import SeriesPreprocessing, TextPreprocessing
from training_run import one_thread

SMALL = "--layer GRU --hidden_size 12 --optimiser adam --lr 1e-2 --accelerator cpu"


def train(folder, line):
    with one_thread():
        assert main(shlex.split(f"train {SMALL} {line} --out {folder}")) == 0
    return folder


def recorded(folder):
    return json.loads((folder / "result.json").read_text())["best"]["test"]


@pytest.fixture(scope="module")
def vowels(data_root, tmp_path_factory):
    """A run on the Japanese vowels, whose training file is gone."""
    folder = tmp_path_factory.mktemp("vowels")
    for part in ("TRAIN", "TEST"):
        shutil.copy(data_root / f"ucr-uea/JapaneseVowels/JapaneseVowels_{part}.ts", folder)
    train_file, test_file = (folder / f"JapaneseVowels_{part}.ts" for part in ("TRAIN", "TEST"))
    files = f"--task.train {train_file} --task.test {test_file}"
    run = train(folder / "run", f"--task Series {files} --epochs 4")
    train_file.unlink()
    return run


@pytest.fixture(scope="module")
def test_file(vowels):
    return vowels.parent / "JapaneseVowels_TEST.ts"


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


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def as_csv(file, *, channels=None, count=None):
    """Write series as a table without labels."""
    names = channels or file.channels
    lines = [",".join(["sequence", *names])]
    ends = file.lengths.cumsum()
    for number, (end, length) in enumerate(zip(ends, file.lengths, strict=True)):
        if number == count:
            break
        for step in file.values[end - length : end]:
            values = dict(zip(file.channels, step.tolist(), strict=True))
            lines.append(",".join([f"s{number}", *(repr(values.get(n, 0.0)) for n in names)]))
    return "\n".join(lines) + "\n"


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # torch's exporter
def test_an_exported_run_predicts_the_same_from_the_values_of_the_file(
    vowels, test_file, predict, tmp_path, capsys
):
    with one_thread():
        assert main(["export", str(vowels), "vowels.onnx"]) == 0
    assert "in vowels.onnx; inputs, outputs and preprocessing in vowels.json" in (
        capsys.readouterr().out
    )
    fitted = json.loads((tmp_path / "vowels.json").read_text())["preprocessing"]
    session = onnxruntime.InferenceSession("vowels.onnx", providers=["CPUExecutionProvider"])
    file = read_series(test_file)
    assert fitted["channels"] == list(file.channels)
    labels = []
    for end, length in list(zip(file.lengths.cumsum(), file.lengths, strict=True))[:30]:
        values = file.values[end - length : end]  # the file scales them
        inputs = {"inputs": values[:, None], "lengths": np.array([length])}
        labels.append(fitted["class_names"][session.run(None, inputs)[0].argmax()])
    assert labels == [row["label"] for row in rows(predict(f"{vowels} {test_file}"))][:30]


def test_the_classes_have_the_accuracy_of_the_run(vowels, test_file, predict):
    found = rows(predict(f"{vowels} {test_file}"))
    labels = read_series(test_file).labels
    correct = [row["label"] == label for row, label in zip(found, labels, strict=True)]
    assert sum(correct) / len(correct) == pytest.approx(recorded(vowels)["accuracy"])
    assert recorded(vowels)["accuracy"] > 0.5


def test_probabilities_sum_to_one_and_the_label_is_the_largest(vowels, test_file, predict):
    for row in rows(predict(f"{vowels} {test_file}")):
        chances = {n: float(p) for n, p in row.items() if n.startswith("probability ")}
        assert sum(chances.values()) == pytest.approx(1, abs=1e-5)
        assert max(chances, key=chances.get) == f"probability {row['label']}"


def test_a_table_on_standard_input_gives_the_same_as_the_labelled_file(vowels, test_file, predict):
    file = read_series(test_file)
    reordered = as_csv(file, channels=file.channels[::-1], count=20)
    found = rows(predict(f"{vowels} -", stdin=reordered))
    expected = rows(predict(f"{vowels} {test_file}"))[:20]
    assert [row.pop("sequence") for row in found] == [f"s{k}" for k in range(20)]
    for one, other in zip(found, expected, strict=True):
        for name, value in one.items():
            assert float(value) == pytest.approx(float(other[name]), abs=1e-5)


def test_predictions_can_be_written_to_a_file(vowels, test_file, predict, tmp_path):
    printed = predict(f"{vowels} {test_file}")
    assert predict(f"{vowels} {test_file} -o out.csv") == "wrote out.csv\n"
    assert (tmp_path / "out.csv").read_text() == printed


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    """Series of unequal length, and the sum of the first channel of each as its number."""
    folder = tmp_path_factory.mktemp("numbers")
    draw = np.random.default_rng(0)
    lengths = draw.integers(3, 9, 40)
    values = draw.normal(5.0, 3.0, (lengths.sum(), 2)).astype(np.float32)
    ends = lengths.cumsum()
    pieces = [values[end - n : end, 0] for end, n in zip(ends, lengths, strict=True)]
    sums = np.array([piece.sum() for piece in pieces], np.float32)
    np.savez(folder / "numbers.npz", x=values, lengths=lengths, target=sums)
    np.savez(folder / "unlabelled.npz", x=values, lengths=lengths)
    return folder


def test_numbers_are_in_the_units_of_the_file(numbers, predict):
    file = numbers / "numbers.npz"
    files = f"--task.train {file} --task.test {file}"
    run = train(numbers / "run", f"--task Series --task.answer number {files} --epochs 20")
    found = [float(row["target"]) for row in rows(predict(f"{run} {numbers / 'unlabelled.npz'}"))]
    targets = read_series(file).targets
    assert np.square(found - targets).mean() == pytest.approx(recorded(run)["mse"], rel=1e-4)
    assert recorded(run)["mse"] < targets.var()


def test_next_values_follow_the_last_step(numbers, predict):
    run = train(
        numbers / "next",
        f"--task Series --task.answer next --task.train {numbers / 'unlabelled.npz'} --steps 5",
    )
    found = rows(predict(f"{run} {numbers / 'unlabelled.npz'}"))
    loaded = load(run)
    file = read_series(numbers / "unlabelled.npz")
    mean, deviation = (
        torch.tensor(getattr(loaded.preprocessing, name)) for name in ("mean", "deviation")
    )
    assert mean.mean() == pytest.approx(5.0, abs=0.5)
    for row, end, length in zip(found, file.lengths.cumsum(), file.lengths, strict=True):
        steps = (torch.from_numpy(file.values[end - length : end]) - mean) / deviation
        expected = loaded.model(steps.unsqueeze(1))[-1, 0] * deviation + mean
        for name, value in zip("12", expected.tolist(), strict=True):
            assert float(row[name]) == pytest.approx(value, rel=1e-4, abs=1e-4)


def test_one_call_in_python_gives_the_numbers_of_the_command(vowels, test_file, predict):
    run = load(vowels)
    assert isinstance(run.preprocessing, SeriesPreprocessing)
    assert not run.model.training
    found = predict_series(run.model, run.preprocessing, run.preprocessing.read(test_file))
    assert found.to_csv() == predict(f"{vowels} {test_file}")


def test_a_run_with_weights_of_classes_predicts(tmp_path, predict):
    lines = ["sequence,x,label"]
    for unit in range(20):
        lines += [f"{unit},{unit % 2}.{step},{unit % 2}" for step in range(3)]
    file = tmp_path / "mine.csv"
    file.write_text("\n".join(lines) + "\n")
    options = f"--task Series --task.train {file} --task.class_weights '{{0: 9}}' --epochs 30"
    run = train(tmp_path / "run", options)
    predicted = rows(predict(f"{run} {file}"))
    assert np.mean([float(row["probability 0"]) for row in predicted]) > 0.6


def test_no_text_is_a_formula_and_numbers_stay_numbers():
    found = SeriesPredictions(
        names=("=HYPERLINK(1)", "-3"),
        columns=("@sum", "-1"),
        values=torch.tensor([[-0.5, 1e-9], [-2e7, 0.25]]),
        labels=("-cmd|x", "-1"),
    )
    assert list(csv.reader(io.StringIO(found.to_csv()))) == [
        ["sequence", "label", "probability @sum", "probability -1"],
        ["'=HYPERLINK(1)", "'-cmd|x", "-0.5", "1e-09"],
        ["-3", "-1", "-2e+07", "0.25"],
    ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_numbers_are_read_back_as_they_were(dtype):
    values = 1.7e9 * torch.tensor([[1, 1 + 2e-7], [1 / 3, math.nan]], dtype=dtype)
    found = SeriesPredictions(("a", "b"), ("x", "y"), values).to_csv()
    _, *lines = csv.reader(io.StringIO(found))
    numbers = [list(map(float, line[1:])) for line in lines]
    read = torch.tensor(numbers, dtype=dtype)
    torch.testing.assert_close(read, values, rtol=0, atol=0, equal_nan=True)


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
    assert main(["predict", str(characters), str(path), "--length", "0", "-o", str(path)]) == 2
    capsys.readouterr()
    assert main(["predict", str(characters), str(path), "--length", "0"]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == f"{recorded(characters)['bits']:.4g} bits per character\n"


@pytest.mark.parametrize(
    ("unit", "options"),
    [("words", ""), ("characters", "--task.cut lines")],
    ids=["words", "lines"],
)
def test_bits_of_words_and_lines_are_those_of_the_run(unit, options, shakespeare, tmp_path):
    run = text_run(tmp_path, shakespeare, f"--task.unit {unit} {options}")
    loaded = load(run)
    text = held_out(shakespeare, unit)
    found = bits_per_symbol(loaded.model, loaded.preprocessing, text)
    assert found == pytest.approx(recorded(run)["bits"], rel=1e-5)
    continued = continue_text(loaded.model, loaded.preprocessing, text, 5)
    assert len(split_words(continued) if unit == "words" else continued) == 5


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


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("sequence,1,2\na,0,0\n", "expected a column '3' in .*, got the columns sequence, 1, 2"),
        (
            f"sequence,{','.join(map(str, range(1, 13)))}\na,zero{',0' * 11}\n",
            "row 1 of .* got 'zero'",
        ),
        (
            f"sequence,{','.join(map(str, range(1, 13)))}\na,{',0' * 11}\n",
            "row 1 of .* missing='mask'",
        ),
    ],
)
def test_invalid_series_are_named(vowels, predict, content, said):
    assert_matches(said, predict(f"{vowels} -", stdin=content, fails=True))


def test_columns_that_are_no_channels_of_the_run_are_ignored(vowels, predict):
    names = ["sequence", *map(str, range(1, 13))]
    rows = [["a", *("0.5" for _ in range(12))] for _ in range(30)]

    plain = "".join(f"{','.join(row)}\n" for row in [names, *rows])
    numbered = "".join(
        f"{number},{','.join(row)},text\n"
        for number, row in zip(["Unnamed: 0", *range(30)], [names, *rows], strict=True)
    )
    expected = predict(f"{vowels} -", stdin=plain)
    assert predict(f"{vowels} -", stdin=numbered) == expected


def test_a_terminal_gets_no_commands_from_a_name(vowels, predict, monkeypatch):
    names = ",".join(["sequence", *map(str, range(1, 13))])
    content = f"{names}\na\x1b[31mb,{','.join(['0'] * 12)}\n"
    assert "a\x1b[31mb" in predict(f"{vowels} -", stdin=content)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    printed = predict(f"{vowels} -", stdin=content)
    assert "\x1b" not in printed
    assert "a\\x1b[31mb" in printed
    assert "\x1b" not in predict(
        f"{vowels} -", stdin=content.replace("0\n", "\x1b[31m\n"), fails=True
    )


def assert_matches(pattern, text):
    with pytest.raises(ValueError, match=pattern):
        raise ValueError(text)


@pytest.mark.parametrize(("text", "said"), [("plain\nna\u00efve", "got 'ï' in line 2")])
def test_invalid_texts_are_named(characters, predict, text, said):
    assert_matches(said, predict(f"{characters} -", stdin=text, fails=True))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("-o no/such/folder.csv", "expected a file in a folder that exists"),
    ],
)
def test_invalid_options_are_named(vowels, test_file, predict, options, said):
    assert_matches(said, predict(f"{vowels} {test_file} {options}", fails=True))


def test_a_run_of_another_task_is_refused(predict, tmp_path):
    run = train(tmp_path / "run", "--task Copying --task.delay 3 --task.test_examples 4 --steps 1")
    said = predict(f"{run} -", stdin="", fails=True)
    assert_matches("expected a run of the task Series or Text, .* a run of Copying", said)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"class": "Popen"}, "Popen"),
        ({"mean": "low"}, "$.mean"),
    ],
    ids=str,
)
def test_a_damaged_preprocessing_is_refused(vowels, predict, tmp_path, change, said):
    shutil.copytree(vowels, tmp_path / "copy")
    file = tmp_path / "copy" / "config.json"
    config = json.loads(file.read_text())
    stored = config["preprocessing"]
    (stored if "class" in change or "options" in change else stored["options"]).update(change)
    file.write_text(json.dumps(config))
    error = predict("copy -", stdin="", fails=True)
    assert "config.json is damaged" in error
    assert said in error


def test_a_single_character_can_be_continued(characters, predict):
    assert len(predict(f"{characters} - --length 3", stdin="R")) == 4
