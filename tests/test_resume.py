"""A run that was stopped in whatever way goes on as if it had not been."""

import io
import json
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest
import torch
from rich.console import Console

import training_run
from eigenrnn.errors import CheckpointError
from eigenrnn.train import Callback, checkpoint, loop
from training_run import TASK, losses, read_metrics, small_fit, small_model, small_settings

NO_TIMES = {"seconds": 0.0, "processor_seconds": 0.0}


class Raise(Callback):
    """Sends this process a signal, or an error, after a step."""

    def __init__(self, step, *what):
        self.step, self.what = step, what

    def after_step(self, step, *_):
        if step == self.step:
            for what in self.what:
                if isinstance(what, signal.Signals):
                    signal.raise_signal(what)
                else:
                    raise what


class CrashError(Exception):
    """Stands for whatever ends a run."""


def numbers(directory):
    return [
        {name: value for name, value in row.items() if name != "seconds"}
        for row in read_metrics(directory)
    ]


def test_a_killed_run_goes_on_to_the_last_bit(tmp_path):
    steps, rows = 400, random.randrange(1, 300)
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    command = [sys.executable, training_run.__file__, str(killed), "--steps", str(steps)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        while len(lines(killed / "metrics.csv")) <= rows and time.monotonic() < deadline:
            time.sleep(0.001)
        process.kill()
    assert not (killed / "result.json").exists(), "the run ended before it could be killed"

    settings = small_settings(steps, checkpoint_every=20)
    small_fit(killed, settings, resume=True)
    small_fit(whole, settings)
    assert numbers(killed) == numbers(whole), f"killed after {rows} rows"
    ends = [checkpoint.load(run / "last.pt")["learner"]["model"] for run in (killed, whole)]
    assert all(equal(ends[0][name], ends[1][name]) for name in ends[1])


def lines(path):
    return path.read_bytes().splitlines() if path.exists() else []


def equal(one, other):
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other


@pytest.mark.parametrize("crash", [2, 3, 4, 7, 13, 19])
def test_a_crash_at_any_step_is_made_good(tmp_path, crash):
    settings = small_settings(20, checkpoint_every=3, eval_every=5, optimiser="rmsprop_tf1")
    with pytest.raises(CrashError):
        small_fit(tmp_path / "halves", settings, callbacks=[Raise(crash, CrashError())])
    result = small_fit(tmp_path / "halves", settings, resume=True)
    expected = small_fit(tmp_path / "whole", settings)
    assert numbers(tmp_path / "halves") == numbers(tmp_path / "whole")
    unlike = {"directory": None, **NO_TIMES}
    assert replace(result, **unlike) == replace(expected, **unlike)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_the_run_can_go_on(tmp_path, number):
    before = signal.getsignal(number)
    stopped = small_fit(tmp_path / "halves", callbacks=[Raise(8, number)])
    assert signal.getsignal(number) is before
    assert stopped.interrupted
    assert stopped.steps == 9
    assert checkpoint.load(tmp_path / "halves" / "last.pt")["course"]["step"] == 9
    assert not (tmp_path / "halves" / "result.json").exists()

    result = small_fit(tmp_path / "halves", resume=True)
    assert not result.interrupted
    small_fit(tmp_path / "whole")
    assert numbers(tmp_path / "halves") == numbers(tmp_path / "whole")


def test_a_stopped_run_says_how_to_go_on(tmp_path):
    screen = io.StringIO()
    small_fit(tmp_path, console=Console(file=screen), callbacks=[Raise(8, signal.SIGINT)])
    assert "stopped after step 9 of 20" in screen.getvalue()
    assert "--resume" in screen.getvalue()


def test_a_run_out_of_time_saves_and_can_go_on_with_more(tmp_path, monkeypatch):
    class Clock:
        """Moves on by a second after each step."""

        now = 100.0

    class Tick(Callback):
        def after_step(self, *_):
            Clock.now += 1.0

    monkeypatch.setattr(loop, "time", Clock)
    Clock.monotonic = Clock.process_time = staticmethod(lambda: Clock.now)
    screen = io.StringIO()
    options = {"callbacks": [Tick()], "console": Console(file=screen, width=300)}
    early = small_fit(tmp_path / "halves", **options, max_minutes=0.1)  # which are six seconds
    assert (early.steps, early.interrupted, early.out_of_time) == (7, True, True)
    assert "go on with resume=True and more max_minutes" in screen.getvalue()
    assert not (tmp_path / "halves" / "result.json").exists()

    same = small_fit(tmp_path / "halves", **options, resume=True, max_minutes=0.1)
    assert (same.steps, same.out_of_time) == (7, True)
    more = small_fit(tmp_path / "halves", **options, resume=True, max_minutes=0.2)
    assert (more.steps, more.out_of_time) == (13, True)
    result = small_fit(tmp_path / "halves", **options, resume=True)
    assert (result.interrupted, result.out_of_time) == (False, False)
    small_fit(tmp_path / "whole")
    assert numbers(tmp_path / "halves") == numbers(tmp_path / "whole")


@pytest.mark.parametrize("minutes", [0, -1.0, float("nan")])
def test_minutes_that_are_none_are_refused(tmp_path, minutes):
    with pytest.raises(ValueError, match="expected max_minutes > 0"):
        small_fit(tmp_path / "run", max_minutes=minutes)
    assert not (tmp_path / "run").exists()


def test_a_second_interrupt_ends_the_run_at_once(tmp_path):
    # a shell lets what it starts in the background ignore the signal
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            small_fit(tmp_path, callbacks=[Raise(8, signal.SIGINT, signal.SIGINT)])
    finally:
        signal.signal(signal.SIGINT, before)
    assert list(losses(tmp_path))[-1] == 7


def test_outside_the_main_thread_signals_are_left_alone(tmp_path):
    before, during = signal.getsignal(signal.SIGINT), []

    class Look(Callback):
        def after_step(self, *_):
            during.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(
        target=small_fit, args=(tmp_path, small_settings(2)), kwargs={"callbacks": [Look()]}
    )
    thread.start()
    thread.join()
    assert during == [before, before]


def test_a_run_that_has_ended_gives_its_result(tmp_path):
    result = small_fit(tmp_path)
    before = (tmp_path / "metrics.csv").stat().st_mtime_ns
    assert small_fit(tmp_path, resume=True) == result
    assert (tmp_path / "metrics.csv").stat().st_mtime_ns == before


def test_a_run_killed_before_its_result_was_written_writes_it(tmp_path):
    result = small_fit(tmp_path)
    (tmp_path / "result.json").unlink()
    again = small_fit(tmp_path, resume=True)
    assert replace(again, **NO_TIMES) == replace(result, **NO_TIMES)


def test_what_the_processors_computed_goes_on_from_the_checkpoint(tmp_path):
    small_fit(tmp_path, callbacks=[Raise(8, signal.SIGINT)])
    content = checkpoint.load(tmp_path / "last.pt")
    spent = content["course"]["processor_seconds"]
    assert 0 < spent < 1000
    content["course"]["processor_seconds"] = 1000.0
    checkpoint.save(tmp_path / "last.pt", content)
    assert 1000 < small_fit(tmp_path, resume=True).processor_seconds < 2000


def test_a_checkpoint_that_does_not_know_what_was_computed_leaves_it_unknown(tmp_path):
    small_fit(tmp_path, callbacks=[Raise(8, signal.SIGINT)])
    content = checkpoint.load(tmp_path / "last.pt")
    del content["course"]["processor_seconds"]
    checkpoint.save(tmp_path / "last.pt", content)
    result = small_fit(tmp_path, resume=True)
    assert result.processor_seconds is None
    assert json.loads((tmp_path / "result.json").read_text())["processor_seconds"] is None


def test_a_run_may_become_longer(tmp_path):
    small_fit(tmp_path / "longer", small_settings(10))
    small_fit(tmp_path / "longer", small_settings(20), resume=True)
    small_fit(tmp_path / "whole", small_settings(20))
    assert losses(tmp_path / "longer") == losses(tmp_path / "whole")


def test_a_run_may_end_earlier_than_was_meant(tmp_path):
    small_fit(tmp_path, small_settings(100), callbacks=[Raise(8, signal.SIGINT)])
    result = small_fit(tmp_path, small_settings(12), resume=True)
    assert (result.steps, result.interrupted) == (12, False)


def test_steps_that_were_taken_cannot_be_taken_back(tmp_path):
    small_fit(tmp_path, small_settings(10))
    with pytest.raises(ValueError, match="expected steps >= 10, those taken already, got 5"):
        small_fit(tmp_path, small_settings(5), resume=True)


def test_a_folder_without_a_checkpoint_starts_from_the_beginning(tmp_path):
    with pytest.raises(CrashError):
        small_fit(tmp_path, callbacks=[Raise(4, CrashError())])
    small_fit(tmp_path, resume=True)
    assert list(losses(tmp_path)) == list(range(1, 21))


def test_differences_that_change_the_numbers_are_listed(tmp_path):
    small_fit(tmp_path)
    before = (tmp_path / "config.json").read_bytes()
    with pytest.raises(ValueError, match=r"lr was 0\.001, now 0\.01; seed was 0, now 1") as caught:
        small_fit(
            tmp_path,
            small_settings(lr=0.01, seed=1, log_every=7),
            task=replace(TASK, delay=5),
            model=small_model(dropout=0.5, period=8),
            resume=True,
        )
    message = str(caught.value)
    assert "task.delay was 4, now 5" in message
    assert "period=7), now" in message
    assert "dropout=0.5" in message
    assert "log_every" not in message
    assert (tmp_path / "config.json").read_bytes() == before


def test_pace_and_place_may_change(tmp_path):
    small_fit(tmp_path, small_settings(10))
    options = {"log_every": 2, "eval_every": 3, "checkpoint_every": 4, "strategy": "auto"}
    small_fit(tmp_path, small_settings(20, **options), resume=True)
    assert list(losses(tmp_path))[-3:] == [16, 18, 20]


def test_a_damaged_checkpoint_is_refused(tmp_path):
    small_fit(tmp_path)
    path = tmp_path / "last.pt"
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(CheckpointError, match=r"last\.pt is truncated or damaged"):
        small_fit(tmp_path, small_settings(30), resume=True)


def test_resume_and_overwrite_exclude_each_other(tmp_path):
    with pytest.raises(ValueError, match="expected resume or overwrite, got both"):
        small_fit(tmp_path, resume=True, overwrite=True)
