"""Interrupted runs, once resumed, equal uninterrupted ones."""

import hashlib
import io
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch import nn

import training_run
from crossing import some
from eigenrnn import LanguageModel, ScoRNN
from eigenrnn_experiments.errors import (
    CheckpointError,
    FolderInUseError,
    NonFiniteLossError,
    WriteError,
)
from eigenrnn_experiments.tasks import Text
from eigenrnn_experiments.training import Callback, Dynamics, RunFolder, checkpoint, loop
from eigenrnn_experiments.training.description import describe_call
from training_run import TASK, losses, read_metrics, small_fit, small_model, small_settings

NO_TIMES = {"seconds": 0.0, "processor_seconds": 0.0, "ended": None}


class Interrupt(Callback):
    """Raises signals or errors after a step."""

    def __init__(self, step, *events):
        self.step, self.events = step, events

    def after_step(self, step, *_):
        if step == self.step:
            for event in self.events:
                if isinstance(event, signal.Signals):
                    signal.raise_signal(event)
                else:
                    raise event


class CrashError(Exception):
    """Any error that ends a run."""


def numbers(directory):
    return [
        {name: value for name, value in row.items() if name != "seconds"}
        for row in read_metrics(directory)
    ]


@pytest.mark.long
def test_a_killed_run_resumes_bit_for_bit(tmp_path):
    steps, rows = 400, random.randrange(1, 300)
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    command = [sys.executable, training_run.__file__, str(killed), "--steps", str(steps)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        while len(lines(killed / "metrics.csv")) <= rows and time.monotonic() < deadline:
            time.sleep(0.001)
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(FolderInUseError, match="killed is in use"):
            small_fit(killed, resume=True)
        process.kill()
    assert RunFolder(killed).run.state == "unfinished", "the run ended before it could be killed"

    settings = small_settings(steps, checkpoint_every=20)
    small_fit(killed, settings, resume=True)
    small_fit(whole, settings)
    assert numbers(killed) == numbers(whole), f"killed after {rows} rows"
    ends = [checkpoint.load(run / "last.pt")["train_step"]["model"] for run in (killed, whole)]
    assert all(equal(ends[0][name], ends[1][name]) for name in ends[1])


def lines(path):
    return path.read_bytes().splitlines() if path.exists() else []


def equal(one, other):
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


@pytest.mark.parametrize("crash", some([2, 3, 4, 7, 13, 19], [3, 13]))
def test_a_run_resumes_after_a_crash_at_any_step(tmp_path, crash):
    settings = small_settings(20, checkpoint_every=3, eval_every=5, optimiser="rmsprop_tf1")
    with pytest.raises(CrashError):
        small_fit(tmp_path / "halves", settings, callbacks=[Interrupt(crash, CrashError())])
    result = small_fit(tmp_path / "halves", settings, resume=True)
    expected = small_fit(tmp_path / "whole", settings)
    assert numbers(tmp_path / "halves") == numbers(tmp_path / "whole")
    ignored = {"name": "", **NO_TIMES}
    assert replace(result, **ignored) == replace(expected, **ignored)


@pytest.mark.parametrize("schedule", ["constant", "cosine", "linear"])
def test_a_schedule_resumes_where_it_was(tmp_path, schedule):
    settings = small_settings(
        20, optimiser="adamw", weight_decay=0.1, lr_schedule=schedule, warmup_steps=6
    )
    stopped = small_fit(tmp_path / "halves", settings, callbacks=[Interrupt(4, signal.SIGINT)])
    assert stopped.steps == 5  # within the warm-up
    small_fit(tmp_path / "halves", settings, resume=True)
    small_fit(tmp_path / "whole", settings)
    assert numbers(tmp_path / "halves") == numbers(tmp_path / "whole")


def test_the_length_of_a_schedule_cannot_change(tmp_path):
    settings = small_settings(10, lr_schedule="linear")
    small_fit(tmp_path, settings)
    with pytest.raises(ValueError, match=r"steps was 10, now 20$"):
        small_fit(tmp_path, replace(settings, steps=20), resume=True)


def test_a_run_from_before_a_setting_existed_resumes_with_its_default(tmp_path):
    small_fit(tmp_path, callbacks=[Interrupt(8, signal.SIGINT)])
    state = checkpoint.load(tmp_path / "last.pt")
    for name in ("lr_schedule", "warmup_steps", "lr_recurrent_of"):
        del state["fingerprint"]["settings"][name]
    checkpoint.save(tmp_path / "last.pt", state)
    with pytest.raises(ValueError, match="warmup_steps was 0, now 3"):
        small_fit(tmp_path, small_settings(20, warmup_steps=3), resume=True)
    assert small_fit(tmp_path, resume=True).steps == 20


def test_a_run_of_another_network_does_not_resume(tmp_path):
    then = describe_call(layer=partial(ScoRNN, matrix_init="zero"), hidden_size=6)
    small_fit(tmp_path, callbacks=[Interrupt(8, signal.SIGINT)], network=then)
    other = describe_call(layer=ScoRNN, hidden_size=6)
    with pytest.raises(ValueError, match=r"network\.layer\b"):
        small_fit(tmp_path, resume=True, network=other)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_a_checkpoint_and_the_run_can_be_resumed(tmp_path, number):
    before = signal.getsignal(number)
    stopped = small_fit(tmp_path / "halves", callbacks=[Interrupt(8, number)])
    assert signal.getsignal(number) is before
    assert stopped.interrupted
    assert stopped.steps == 9
    assert checkpoint.load(tmp_path / "halves" / "last.pt")["state"]["step"] == 9
    written = RunFolder(tmp_path / "halves").run
    assert (written.state, written.steps, written.ended) == ("unfinished", 9, None)

    result = small_fit(tmp_path / "halves", resume=True)
    assert not result.interrupted
    small_fit(tmp_path / "whole")
    assert numbers(tmp_path / "halves") == numbers(tmp_path / "whole")


class InterruptEvaluation(Interrupt):
    """Raises signals or errors in the evaluation of a step."""

    def after_step(self, *_):
        pass

    def after_evaluation(self, step, *_):
        super().after_step(step)


@pytest.mark.parametrize(
    "sender",
    [
        Interrupt(3, signal.SIGINT),  # read in the fourth step
        Interrupt(4, signal.SIGTERM),
        InterruptEvaluation(4, signal.SIGINT),
        InterruptEvaluation(4, signal.SIGTERM),
    ],
    ids=["before", "step", "evaluation", "evaluation-term"],
)
def test_a_signal_in_the_last_step_is_reported(tmp_path, sender):
    settings = small_settings(4)
    stopped = small_fit(tmp_path, settings, callbacks=[sender])
    assert (stopped.interrupted, stopped.signal) == (True, *sender.events)

    result = small_fit(tmp_path, settings, resume=True)
    assert (result.interrupted, result.signal, result.steps) == (False, None, 4)
    assert replace(result, signal=stopped.signal) == stopped


def test_a_signal_at_the_time_limit_is_reported_as_a_signal(tmp_path):
    stopped = small_fit(
        tmp_path, small_settings(4), callbacks=[Interrupt(1, signal.SIGINT)], max_minutes=1e-9
    )
    assert (stopped.steps, stopped.signal) == (1, signal.SIGINT)
    assert stopped.interrupted


def test_a_run_at_its_time_limit_can_be_resumed_with_a_higher_one(tmp_path, monkeypatch):
    class Clock:
        """Advances by a second after each step."""

        now = 100.0

    class Tick(Callback):
        def after_step(self, *_):
            Clock.now += 1.0

    monkeypatch.setattr(loop, "time", Clock)
    Clock.monotonic = Clock.process_time = staticmethod(lambda: Clock.now)
    screen = io.StringIO()
    options = {"callbacks": [Tick()], "console": Console(file=screen, width=300)}
    early = small_fit(tmp_path / "halves", **options, max_minutes=0.1)  # six seconds
    assert (early.steps, early.interrupted, early.signal) == (7, True, None)
    assert "continue with resume=True and more max_minutes" in screen.getvalue()
    assert RunFolder(tmp_path / "halves").run.state == "unfinished"

    same = small_fit(tmp_path / "halves", **options, resume=True, max_minutes=0.1)
    assert (same.steps, same.state) == (7, "unfinished")
    more = small_fit(tmp_path / "halves", **options, resume=True, max_minutes=0.2)
    assert (more.steps, more.state) == (13, "unfinished")
    result = small_fit(tmp_path / "halves", **options, resume=True)
    assert not result.interrupted
    small_fit(tmp_path / "whole")
    assert numbers(tmp_path / "halves") == numbers(tmp_path / "whole")


@pytest.mark.parametrize("minutes", [0, float("nan")])
def test_a_time_limit_that_is_not_positive_raises(tmp_path, minutes):
    with pytest.raises(ValueError, match="expected max_minutes > 0"):
        small_fit(tmp_path / "run", max_minutes=minutes)
    assert not (tmp_path / "run").exists()


def test_a_second_signal_ends_the_run_at_once(tmp_path):
    # processes that a shell starts in the background ignore SIGINT
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            small_fit(tmp_path, callbacks=[Interrupt(8, signal.SIGINT, signal.SIGINT)])
    finally:
        signal.signal(signal.SIGINT, before)
    assert list(losses(tmp_path))[-1] == 7


@pytest.mark.parametrize("error", [CrashError(), NonFiniteLossError("not finite")])
def test_an_error_after_a_signal_does_not_hide_it(tmp_path, error):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            small_fit(tmp_path, callbacks=[Interrupt(8, signal.SIGINT, error)])
    finally:
        signal.signal(signal.SIGINT, before)


def test_after_a_handler_of_c_code_a_signal_acts_as_by_default(monkeypatch):
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with monkeypatch.context() as c_code:
            c_code.setattr(signal, "getsignal", lambda _: None)  # it was not set from Python
            with loop.DeferredSignals():
                pass
        assert {signal.getsignal(number) for number in before} == {signal.SIG_DFL}
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_outside_the_main_thread_handlers_are_unchanged(tmp_path):
    before, during = signal.getsignal(signal.SIGINT), []

    class ReadHandler(Callback):
        def after_step(self, *_):
            during.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(
        target=small_fit, args=(tmp_path, small_settings(2)), kwargs={"callbacks": [ReadHandler()]}
    )
    thread.start()
    thread.join()
    assert during == [before, before]


def test_a_finished_run_returns_its_result(tmp_path):
    result = small_fit(tmp_path)
    before = (tmp_path / "metrics.csv").stat().st_mtime_ns
    assert small_fit(tmp_path, resume=True) == result
    assert (tmp_path / "metrics.csv").stat().st_mtime_ns == before


def test_a_run_killed_before_writing_its_record_writes_it_on_resuming(tmp_path):
    result = small_fit(tmp_path)
    (tmp_path / "run.json").unlink()
    again = small_fit(tmp_path, resume=True)
    assert replace(again, **NO_TIMES) == replace(result, **NO_TIMES)


def test_processor_seconds_continue_from_the_checkpoint(tmp_path):
    small_fit(tmp_path, callbacks=[Interrupt(8, signal.SIGINT)])
    content = checkpoint.load(tmp_path / "last.pt")
    seconds = content["state"]["processor_seconds"]
    assert 0 < seconds < 1000
    content["state"]["processor_seconds"] = 1000.0
    checkpoint.save(tmp_path / "last.pt", content)
    assert 1000 < small_fit(tmp_path, resume=True).processor_seconds < 2000


def test_a_resumed_run_may_be_longer(tmp_path):
    small_fit(tmp_path / "longer", small_settings(10))
    small_fit(tmp_path / "longer", small_settings(20), resume=True)
    small_fit(tmp_path / "whole", small_settings(20))
    assert losses(tmp_path / "longer") == losses(tmp_path / "whole")


def test_a_resumed_run_may_be_shorter(tmp_path):
    small_fit(tmp_path, small_settings(100), callbacks=[Interrupt(8, signal.SIGINT)])
    result = small_fit(tmp_path, small_settings(12), resume=True)
    assert (result.steps, result.interrupted) == (12, False)


def test_fewer_steps_than_already_taken_raise(tmp_path):
    small_fit(tmp_path, small_settings(10))
    with pytest.raises(ValueError, match="got 5"):
        small_fit(tmp_path, small_settings(5), resume=True)


def test_a_folder_without_a_checkpoint_starts_from_the_beginning(tmp_path):
    with pytest.raises(CrashError):
        small_fit(tmp_path, callbacks=[Interrupt(4, CrashError())])
    small_fit(tmp_path, resume=True)
    assert list(losses(tmp_path)) == list(range(1, 21))


def test_a_run_that_ended_is_not_replaced_where_its_checkpoint_is_gone(tmp_path):
    small_fit(tmp_path)
    (tmp_path / "last.pt").unlink()
    before = (tmp_path / "run.json").read_bytes()
    with pytest.raises(CheckpointError, match=r"a run that ended, without the last\.pt"):
        small_fit(tmp_path, task=replace(TASK, delay=5), resume=True)
    assert (tmp_path / "run.json").read_bytes() == before
    assert (tmp_path / "best.pt").exists()


@pytest.mark.parametrize("kept", [0, 4, None])
def test_lost_lines_of_the_metrics_are_noticed(tmp_path, kept):
    ended = small_fit(tmp_path, small_settings(10))
    file = tmp_path / "metrics.csv"
    if kept is None:
        file.unlink()
    else:
        file.write_text("".join(file.read_text().splitlines(keepends=True)[: kept + 1]))
    with pytest.raises(ValueError, match=f"lines up to step 10 .*got {kept or 0}: restore"):
        small_fit(tmp_path, small_settings(20), resume=True)
    kept_run = RunFolder(tmp_path).run
    assert (kept_run.steps, kept_run.last, kept_run.best) == (10, ended.last, ended.best)


def test_another_text_does_not_resume(tmp_path):
    file = tmp_path / "my.txt"
    file.write_text("the quick brown fox jumps over the lazy dog. " * 300)

    def train(steps, resume):
        task = Text(file, window=10)
        network = LanguageModel(task.preprocessing.vocabulary, 6, [nn.RNN(6, 6)])
        settings = small_settings(steps, batch_size=2)
        return small_fit(tmp_path / "run", settings, task=task, model=network, resume=resume)

    train(3, resume=False)
    text = file.read_text()
    file.write_text(text.replace("q", "é"))
    with pytest.raises(ValueError, match="preprocessing"):
        train(6, resume=True)
    file.write_text(text[::-1])  # the same symbols
    with pytest.raises(ValueError, match="sha256"):
        train(6, resume=True)
    file.write_text(text)
    assert train(6, resume=True).steps == 6


def test_a_text_in_the_home_folder_has_its_checksum_stored(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    file = tmp_path / "my.txt"
    file.write_text("the quick brown fox jumps over the lazy dog. " * 300)
    task = Text("~/my.txt", window=10)
    network = LanguageModel(task.preprocessing.vocabulary, 6, [nn.RNN(6, 6)])
    settings = small_settings(2, batch_size=2)
    run = small_fit(tmp_path / "run", settings, task=task, model=network)
    assert run.sha256["path"] == hashlib.sha256(file.read_bytes()).hexdigest()


def test_a_run_that_patience_ended_takes_no_further_step(tmp_path):
    options = {"eval_every": 1, "lr": 0.0, "patience": 2, "checkpoint_every": 1}
    ended = small_fit(tmp_path, small_settings(10, **options))
    assert ended.steps == 3
    (tmp_path / "run.json").unlink()  # as if it was killed before it wrote its record
    again = small_fit(tmp_path, small_settings(10, **options), resume=True)
    assert (again.state, again.steps, again.last) == ("ended", 3, ended.last)


class Norm(Callback):
    """Measures a number, by a name of its own."""

    def __init__(self, name):
        self.columns = (name,)

    def measure(self, step, _):
        return {self.columns[0]: float(step)}


def test_a_resumed_run_may_have_other_callbacks(tmp_path):
    small_fit(tmp_path, small_settings(2), callbacks=[Norm("first")])
    callbacks = [Norm("second"), Norm("first")]
    small_fit(tmp_path, small_settings(4), resume=True, callbacks=callbacks)
    rows = read_metrics(tmp_path)
    assert [row["first"] for row in rows] == ["1.0", "2.0", "3.0", "4.0"]
    assert [row["second"] for row in rows] == ["", "", "3.0", "4.0"]


def test_a_different_model_task_or_setting_raises(tmp_path):
    small_fit(tmp_path)
    before = (tmp_path / "run.json").read_bytes()
    with pytest.raises(ValueError, match=r"lr was 0\.001, now 0\.01") as caught:
        small_fit(
            tmp_path,
            small_settings(lr=0.01, seed=1, log_every=7),
            task=replace(TASK, delay=5),
            model=small_model(dropout=0.5, period=8),
            resume=True,
        )
    message = str(caught.value)
    assert "task.delay was 4, now 5" in message
    assert "period=7" in message
    assert "period=8" in message
    assert "dropout=0.5" in message
    assert "log_every" not in message
    assert (tmp_path / "run.json").read_bytes() == before


def test_the_printed_form_of_a_model_does_not_matter_where_its_call_is_known(
    tmp_path, monkeypatch
):
    small_fit(tmp_path, small_settings(4), network={"layer": "small"})
    monkeypatch.setattr(type(small_model().layer), "extra_repr", lambda _: "another text")
    again = small_fit(tmp_path, small_settings(6), network={"layer": "small"}, resume=True)
    assert again.steps == 6
    with pytest.raises(ValueError, match="was small, now large"):
        small_fit(tmp_path, small_settings(8), network={"layer": "large"}, resume=True)


def test_logging_intervals_may_change(tmp_path):
    small_fit(tmp_path, small_settings(10))
    options = {"log_every": 2, "eval_every": 3, "checkpoint_every": 4}
    small_fit(tmp_path, small_settings(20, **options), resume=True)
    assert list(losses(tmp_path))[-3:] == [16, 18, 20]


@pytest.mark.parametrize("part", ["fingerprint", "state.step", "train_step"])
def test_a_checkpoint_that_lacks_a_part_raises_and_the_record_stays(tmp_path, part):
    run = small_fit(tmp_path, small_settings(1))
    content = checkpoint.load(tmp_path / "last.pt")
    owner, _, name = part.rpartition(".")
    del (content[owner] if owner else content)[name]
    checkpoint.save(tmp_path / "last.pt", content)
    with pytest.raises(CheckpointError) as caught:
        small_fit(tmp_path, small_settings(4), resume=True)
    assert f"cannot resume from the checkpoint {tmp_path / 'last.pt'}: it has no {name}" in str(
        caught.value
    )
    assert "overwrite=True" in str(caught.value)
    assert RunFolder(tmp_path).run == run


@pytest.mark.parametrize("content", ["", '{"steps": []}'])
def test_a_damaged_result_raises_with_a_remedy(tmp_path, content):
    result = small_fit(tmp_path, small_settings(2))
    file = tmp_path / "run.json"
    file.write_text(content)
    with pytest.raises(ValueError, match="damaged") as caught:
        small_fit(tmp_path, small_settings(2), resume=True)
    assert str(caught.value).startswith(f"{file} is ")
    assert "delete it" in str(caught.value)
    file.unlink()
    again = small_fit(tmp_path, small_settings(2), resume=True)
    assert replace(again, **NO_TIMES) == replace(result, **NO_TIMES)


def crash_after_best(folder):
    """Start a run that crashes between a best model and the next checkpoint."""
    settings = small_settings(8, lr=1.0, eval_every=1, checkpoint_every=2)
    with pytest.raises(CrashError):
        small_fit(folder, settings, callbacks=[Interrupt(4, CrashError())])
    steps = (checkpoint.load(folder / f"{name}.pt") for name in ("best", "last"))
    assert [state.get("step", state.get("state", {}).get("step")) for state in steps] == [3, 2]
    return settings


def test_best_pt_and_the_result_agree_after_a_crash(tmp_path):
    settings = crash_after_best(tmp_path)
    result = small_fit(tmp_path, replace(settings, eval_every=30), resume=True)
    best = checkpoint.load(tmp_path / "best.pt")
    assert (best["step"], best["metrics"]) == (result.best_step, result.best)
    assert result.best_step == 2, "the third step was repeated without an evaluation"


def test_a_folder_in_use_raises(tmp_path):
    messages = []

    class Second(Callback):
        def after_step(self, *_):
            for options in ({"resume": True}, {"overwrite": True}):
                with pytest.raises(FolderInUseError) as caught:
                    small_fit(tmp_path, small_settings(1), **options)
                messages.append(str(caught.value))

    small_fit(tmp_path, small_settings(1), callbacks=[Second()])
    assert all(message.startswith(f"{tmp_path} is in use") for message in messages)
    assert [row["step"] for row in read_metrics(tmp_path)] == ["1"]
    assert not list(tmp_path.glob(".lock*"))


FILES = ("run.json", "metrics.csv", "last.pt", "best.pt", "dynamics.jsonl")


def fill(monkeypatch, name, room):
    """Simulate a full disk for writes to one file until `room` is not empty."""
    write = Path.open

    def full(path, mode="r", *args, **options):
        if path.name.removesuffix(".tmp") == name and mode[0] in "wax" and not room:
            path, mode = Path("/dev/full"), mode.replace("x", "w")
        return write(path, mode, *args, **options)

    monkeypatch.setattr(Path, "open", full)


FOUR = small_settings(4, eval_every=2)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Run four steps without interruption."""
    folder = tmp_path_factory.mktemp("whole")
    small_fit(folder, FOUR, callbacks=[Dynamics(2)])
    return folder


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("name", some(FILES, FILES[:2]))
def test_a_full_disk_raises_and_the_run_can_be_resumed(tmp_path, monkeypatch, whole, name):
    small_fit(tmp_path, replace(FOUR, steps=2), callbacks=[Dynamics(2)])
    before, room = (tmp_path / "run.json").read_bytes(), []
    fill(monkeypatch, name, room)
    with pytest.raises(WriteError) as caught:
        small_fit(tmp_path, FOUR, resume=True, callbacks=[Dynamics(2)])
    message = str(caught.value)
    assert message == f"cannot write {tmp_path / name}: No space left on device"
    assert name != "run.json" or (tmp_path / "run.json").read_bytes() == before

    room.append("more")
    small_fit(tmp_path, FOUR, resume=True, callbacks=[Dynamics(2)])
    assert numbers(tmp_path) == numbers(whole)
    records = [(run / "dynamics.jsonl").read_bytes() for run in (tmp_path, whole)]
    assert records[0] == records[1]


def test_resume_with_overwrite_raises(tmp_path):
    with pytest.raises(ValueError, match="got both"):
        small_fit(tmp_path, resume=True, overwrite=True)
