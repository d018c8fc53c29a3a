"""The training loop: its numbers, files, console output and errors."""

import io
import json
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import nn

from eigenrnn.constraints import FourierProduct, Unconstrained
from eigenrnn.models import SequenceModel
from eigenrnn_experiments.errors import NonFiniteLossError, RunExistsError
from eigenrnn_experiments.tasks import Copying
from eigenrnn_experiments.tasks.base import Batch
from eigenrnn_experiments.training import Callback, RunFolder, Settings, checkpoint
from eigenrnn_experiments.training.objective import Objective
from eigenrnn_experiments.training.train_step import TrainStep, open_fabric
from training_run import TASK, losses, read_metrics, small_fit, small_model, small_settings


class Recorder(Callback):
    """Records the arguments of its calls."""

    def __init__(self):
        self.steps, self.losses, self.evaluations = [], [], {}

    def after_step(self, step, loss, model):
        assert all(p.grad is not None for p in model.parameters())
        self.steps.append(step)
        self.losses.append(loss.item())

    def after_evaluation(self, step, metrics, model):
        assert model.training
        self.evaluations[step] = metrics


@dataclass(frozen=True)
class NanBatch(Copying):
    """Copying with a training batch of NaN inputs at one step."""

    bad_step: int = 12

    def batches(self, split, size, seed=0, start=0):
        for number, batch in enumerate(super().batches(split, size, seed, start), start + 1):
            bad = split == "train" and number == self.bad_step
            yield replace(batch, inputs=batch.inputs * float("nan")) if bad else batch


@dataclass(frozen=True)
class WithoutValidation(Copying):
    """Copying without a validation split."""

    @property
    def splits(self):
        return "train", "test"


class Penalised(Unconstrained):
    """All matrices, with the squared norm as penalty."""

    def penalty(self):
        return self().square().sum()


def test_a_step_equals_that_of_a_plain_loop(tmp_path):
    plain = small_model(dropout=0)
    optimiser = torch.optim.SGD(plain.parameters(), lr=0.1)
    expected = []
    for _, batch in zip(range(8), TASK.batches("train", 4, seed=3), strict=False):
        optimiser.zero_grad()
        loss = TASK.loss(plain(batch.inputs), batch.targets)
        loss.backward()
        optimiser.step()
        expected.append(loss.item())

    recorder = Recorder()
    settings = small_settings(8, optimiser="sgd", lr=0.1, lr_recurrent=0.1, seed=3)
    small_fit(tmp_path, settings, model=small_model(dropout=0), callbacks=[recorder])
    assert recorder.losses == expected


def test_gradients_are_clipped_by_their_global_norm(tmp_path):
    model = small_model(dropout=0)
    before = [p.detach().clone() for p in model.parameters()]
    settings = small_settings(1, optimiser="sgd", lr=1.0, lr_recurrent=1.0, clip_norm=0.01)
    small_fit(tmp_path, settings, model=model)
    moved = torch.cat([(p - b).flatten() for p, b in zip(model.parameters(), before, strict=True)])
    assert moved.norm().item() == pytest.approx(0.01, rel=1e-3)
    assert float(read_metrics(tmp_path)[0]["train_grad_norm"]) > 0.1  # before clipping


@dataclass(frozen=True)
class LargeLoss(Copying):
    """Copying with a loss that is multiplied by a large number."""

    factor: float = 1.0

    def loss(self, outputs, targets):
        return self.factor * super().loss(outputs, targets)


@pytest.mark.parametrize("factor", [1e19, 1e25, 1e30])
def test_clipping_scales_gradients_whose_norm_overflows_in_float32(tmp_path, factor):
    settings = small_settings(1, optimiser="sgd", lr=1.0, lr_recurrent=1.0, clip_norm=0.01)
    moved, norms = [], []
    for number in (1.0, factor):
        model = small_model(dropout=0)
        before = [p.detach().clone() for p in model.parameters()]
        task = LargeLoss(delay=4, symbols=2, test_examples=30, factor=number)
        small_fit(tmp_path, settings, model=model, task=task, overwrite=True)
        pairs = zip(model.parameters(), before, strict=True)
        moved.append(torch.cat([(p - b).flatten() for p, b in pairs]))
        norms.append(float(read_metrics(tmp_path)[0]["train_grad_norm"]))
    assert moved[1].norm().item() == pytest.approx(0.01, rel=1e-3)
    torch.testing.assert_close(moved[1], moved[0], rtol=1e-3, atol=1e-6)
    assert norms[1] == pytest.approx(factor * norms[0], rel=1e-3)


def test_losses_do_not_depend_on_evaluations(tmp_path):
    small_fit(tmp_path / "few", small_settings(20, eval_every=20))
    small_fit(tmp_path / "many", small_settings(20, eval_every=1, eval_batch_size=7))
    assert losses(tmp_path / "few") == losses(tmp_path / "many")


def test_evaluation_does_not_change_the_model(tmp_path):
    states = []

    class Snapshots(Callback):
        def after_step(self, _step, _loss, model):
            states.append({k: v.clone() for k, v in model.state_dict().items()})

        def after_evaluation(self, _step, _metrics, model):
            for name, value in model.state_dict().items():
                assert torch.equal(states[-1][name], value)

    small_fit(tmp_path, small_settings(3, eval_every=1), callbacks=[Snapshots()])
    assert len(states) == 3


def test_an_evaluation_averages_over_the_whole_split(tmp_path):
    model = small_model()
    settings = small_settings(2, eval_batch_size=7)  # 30 examples: the last batch is smaller
    result = small_fit(tmp_path, settings, model=model)
    (batch,) = TASK.batches("test", 30)
    with torch.no_grad():
        outputs = model.eval()(batch.inputs)
    assert result.last["test"] == {
        "loss": pytest.approx(TASK.loss(outputs, batch.targets).item(), rel=1e-6),
        "accuracy": pytest.approx(TASK.metric(outputs, batch.targets).item(), rel=1e-6),
    }


def dropout_mask(step, seed=0):
    """Return the dropout mask of a step."""
    settings = small_settings(seed=seed)
    train_step = TrainStep(open_fabric(settings), small_model(), TASK, settings)
    with torch.random.fork_rng(devices=()):
        train_step._seed(step)
        return nn.functional.dropout(torch.ones(100), 0.5)


@pytest.mark.parametrize("other", [{"step": 2}, {"step": 1, "seed": 1}], ids=str)
def test_steps_and_seeds_have_different_dropout_masks(other):
    assert torch.equal(dropout_mask(1), dropout_mask(1))
    assert not torch.equal(dropout_mask(1), dropout_mask(**other))


@pytest.mark.usefixtures("global_streams_untouched")
def test_the_global_random_state_is_unchanged(tmp_path):
    small_fit(tmp_path, small_settings(2))


def test_the_penalty_is_minimised_but_not_included_in_the_loss(tmp_path):
    model = small_model(dropout=0, constraint=Penalised)
    size = sum(m.penalty().item() for m in model.modules() if isinstance(m, Penalised))
    (batch, *_) = zip(TASK.batches("train", 4), range(1), strict=False)
    loss = TASK.loss(model(batch[0].inputs), batch[0].targets).item()
    small_fit(tmp_path, small_settings(5, lr=0.01), model=model)
    first, *_, last = read_metrics(tmp_path)
    assert float(first["train_loss"]) == loss
    assert float(first["train_penalty"]) == pytest.approx(size)
    assert float(last["train_penalty"]) < size


def test_a_penalty_of_zero_is_left_blank(tmp_path):
    small_fit(tmp_path, small_settings(1))
    assert read_metrics(tmp_path)[0]["train_penalty"] == ""


def test_a_torch_layer_can_be_trained(tmp_path):
    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.head = nn.GRU(TASK.input_size, 5), nn.Linear(5, TASK.output_size)

        def forward(self, inputs):
            return self.head(self.layer(inputs)[0])

    assert small_fit(tmp_path, small_settings(2), model=Plain()).steps == 2


@pytest.mark.parametrize(("best_by", "sign"), [("accuracy", 1), ("loss", -1)])
def test_any_metric_of_the_task_may_choose_the_best_model(tmp_path, best_by, sign):
    task = Copying(delay=3, symbols=2, test_examples=10, validation_examples=10)
    settings = small_settings(12, eval_every=1, lr=0.05, best_by=best_by)
    model = SequenceModel(nn.GRU(task.input_size, 4), task.output_size)
    result = small_fit(tmp_path / "run", settings, model=model, task=task)
    rows = read_metrics(tmp_path / "run")
    column = [row[f"validation_{best_by}"] for row in rows]
    values = [sign * float(value) for value in column if value]
    assert result.best_by == f"validation {best_by}"
    assert sign * result.best["validation"][best_by] == max(values)
    assert values[result.best_step - 1] == max(values)
    with pytest.raises(ValueError, match="got 'F1'"):
        small_fit(tmp_path / "other", replace(settings, best_by="F1"), model=model, task=task)
    assert not (tmp_path / "other").exists()


def test_lengths_reach_the_model():
    class Model(nn.Module):
        def forward(self, inputs, lengths):
            return torch.stack([inputs[:n, i].sum(0) for i, n in enumerate(lengths)])

    class Task:
        carries = False

        def metric_sums(self, outputs, targets):
            return nn.functional.mse_loss(outputs, targets)

    inputs = torch.ones(4, 2, 1)
    batch = Batch(inputs, torch.tensor([[1.0], [3.0]]), torch.tensor([1, 3]), targets_batch_dim=0)
    assert Objective(Model(), Task(), "32-true").evaluate(batch) == 0


@pytest.mark.parametrize("precision", ["64-true", "bf16-mixed", "bf16-true"])
def test_other_precisions_train_and_resume(tmp_path, precision):
    small_fit(tmp_path / "all", small_settings(6, precision=precision))
    small_fit(tmp_path / "halves", small_settings(3, precision=precision))
    small_fit(tmp_path / "halves", small_settings(6, precision=precision), resume=True)
    assert losses(tmp_path / "halves") == losses(tmp_path / "all")


@pytest.mark.parametrize("precision", ["bf16-true", "16-true"])
def test_a_complex_network_trains_with_16_bit_weights(tmp_path, precision):
    model = small_model(constraint=FourierProduct)
    result = small_fit(
        tmp_path, small_settings(3, precision=precision, optimiser="sgd", lr=0.01), model=model
    )
    assert math.isfinite(result.train_loss)


def test_a_gradient_scaler_does_not_change_the_parameters():
    def train(scale):
        settings = small_settings(precision="bf16-mixed", clip_norm=0.05, optimiser="sgd", lr=0.1)
        fabric, model = open_fabric(settings), small_model(dropout=0)
        if scale is not None:  # as 16-mixed uses on a GPU; it grows every second step
            scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=2)
            fabric.strategy.precision.scaler = scaler
        train_step = TrainStep(fabric, model, TASK, settings)
        for step, batch in zip(range(1, 8), TASK.batches("train", 4), strict=False):
            _, _, norms = train_step.backward(step, batch)
            train_step.update(norms)
        return torch.cat([p.detach().flatten() for p in model.parameters()])

    assert torch.equal(train(None), train(1024.0))


def taken(reads, damaged=None):
    """Return what each step has read, if it reads; the head is infinite from a step on."""
    settings = small_settings()
    train_step = TrainStep(open_fabric(settings), small_model(), TASK, settings)
    found = []
    with torch.random.fork_rng(devices=()):
        batches = TASK.batches("train", 4)
        for step, read in enumerate(reads, start=1):
            if step == damaged:
                train_step.model.head.weight.data.fill_(math.inf)
            _, metrics = train_step.take(step, next(batches), decay=1.0, reads=read)
            found.append(metrics)
    return found


def test_metrics_that_are_read_later_are_those_of_their_steps():
    at_once = taken([True] * 5)
    assert [len(each) for each in at_once] == [1] * 5
    later = taken([False, False, True, False, True])
    assert [len(each) for each in later] == [0, 0, 3, 0, 2]
    assert [*later[2], *later[4]] == [each for (each,) in at_once]


def test_an_error_that_is_read_later_names_its_step():
    with pytest.raises(NonFiniteLossError, match="the loss of step 2 is nan"):
        taken([False] * 3 + [True], damaged=2)


def test_a_run_writes_its_files(tmp_path):
    result = small_fit(tmp_path, network={"layer": "small"}, name="mine")
    names = ["best.pt", "last.pt", "metrics.csv", "run.json", "tensorboard"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    written = json.loads((tmp_path / "run.json").read_text())
    assert written["settings"]["batch_size"] == 4
    assert written["network"] == {"layer": "small"}
    assert written["versions"].keys() == {"eigenrnn", "torch", "python", "platform", "processor"}
    assert (written["name"], written["best_by"]) == ("mine", "validation accuracy")
    assert written["last"] == result.last
    assert written["train_loss"] == result.train_loss == float(losses(tmp_path)[20])


def test_metrics_csv_has_a_row_per_logged_step_and_evaluation(tmp_path):
    small_fit(tmp_path, small_settings(11, log_every=4, eval_every=5))
    rows = read_metrics(tmp_path)
    assert [row["step"] for row in rows] == ["4", "5", "8", "10", "11"]
    evaluated = [row["step"] for row in rows if row["test_loss"]]
    assert evaluated == ["5", "10", "11"]  # the last step is always evaluated
    seconds = [float(row["seconds"]) for row in rows]
    assert seconds == sorted(seconds)


def test_epochs_are_counted_in_steps(tmp_path):
    task = replace(TASK, train_examples=10)
    settings = small_settings(None, epochs=2, eval_every=None)
    result = small_fit(tmp_path, settings, task=task)
    assert result.steps == 6  # batches of 4, 4 and 2
    assert [row["step"] for row in read_metrics(tmp_path) if row["test_loss"]] == ["3", "6"]


def test_best_pt_holds_the_model_of_the_best_evaluation(tmp_path):
    recorder = Recorder()
    # a learning rate at which the loss oscillates
    settings = small_settings(30, lr=0.3, eval_every=3)
    result = small_fit(tmp_path, settings, callbacks=[recorder])

    def rank(step):
        numbers = recorder.evaluations[step]["validation"]
        return numbers["accuracy"], -numbers["loss"]

    step = max(recorder.evaluations, key=rank)
    assert result.best_step == step
    assert result.best == recorder.evaluations[step]
    state = checkpoint.load(tmp_path / "best.pt")
    assert state["step"] == step
    model = small_model()
    model.load_state_dict(state["model"])
    (batch,) = TASK.batches("validation", 30)
    with torch.no_grad():
        loss = TASK.loss(model.eval()(batch.inputs), batch.targets)
    assert loss.item() == pytest.approx(result.best["validation"]["loss"], rel=1e-5)


def test_without_a_validation_split_the_test_split_selects_the_best_model(tmp_path):
    task = WithoutValidation(delay=4, symbols=2, test_examples=30)
    result = small_fit(tmp_path, small_settings(3), task=task)
    assert result.best_by == "test accuracy"
    assert result.best.keys() == {"test"}


def test_callbacks_see_every_step_and_evaluation(tmp_path):
    recorder = Recorder()
    small_fit(tmp_path, small_settings(12, eval_every=5), callbacks=[recorder])
    assert recorder.steps == list(range(1, 13))
    assert list(recorder.evaluations) == [5, 10, 12]
    assert [repr(loss) for loss in recorder.losses] == list(losses(tmp_path).values())


def output_of(tmp_path, **options):
    screen = io.StringIO()
    console = Console(file=screen, width=140, **options)
    small_fit(tmp_path / "run", small_settings(20), console=console)
    return screen.getvalue()


def test_without_a_terminal_each_evaluation_prints_one_line(tmp_path):
    first, second = output_of(tmp_path).splitlines()
    assert first.startswith("run: step 10/20, loss ")
    assert "validation accuracy" in second
    assert second.endswith("0:00:00 left")


def test_a_terminal_shows_a_progress_bar(tmp_path):
    text = output_of(tmp_path, force_terminal=True, force_interactive=True)
    for part in ("20/20", "loss", "validation accuracy", "steps/s"):
        assert part in text


def test_an_existing_run_raises(tmp_path):
    small_fit(tmp_path, small_settings(2))
    before = (tmp_path / "metrics.csv").read_bytes()
    with pytest.raises(RunExistsError, match=r"--resume.*--overwrite"):
        small_fit(tmp_path, small_settings(3))
    assert (tmp_path / "metrics.csv").read_bytes() == before


def test_an_existing_run_is_overwritten_on_request(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    small_fit(tmp_path, small_settings(4))
    small_fit(tmp_path, small_settings(2), overwrite=True)
    assert list(losses(tmp_path)) == [1, 2]
    assert len(list((tmp_path / "tensorboard").iterdir())) == 1
    assert (tmp_path / "notes.txt").exists()


def test_overwriting_a_run_deletes_no_events_behind_a_link(tmp_path):
    events = tmp_path / "victim" / "events.out.tfevents.0"
    events.parent.mkdir()
    events.write_text("precious")
    (tmp_path / "tensorboard").symlink_to(events.parent)
    RunFolder(tmp_path).open(resume=False, overwrite=True)
    assert events.read_text() == "precious"


def test_a_non_finite_loss_stops_the_run(tmp_path):
    model = small_model()
    with pytest.raises(NonFiniteLossError) as caught:
        small_fit(tmp_path, model=model, task=NanBatch(delay=4, symbols=2, test_examples=30))
    message = str(caught.value)
    assert "the loss of step 12 is nan" in message
    assert "largest gradient norms: layer.directions.0.weight_ih nan" in message
    assert str(tmp_path / "last.pt") in message
    assert checkpoint.load(tmp_path / "last.pt")["state"]["step"] == 10
    assert all(p.isfinite().all() for p in model.parameters())


def test_a_non_finite_first_loss_leaves_no_checkpoint(tmp_path):
    task = NanBatch(delay=4, symbols=2, test_examples=30, bad_step=1)
    with pytest.raises(NonFiniteLossError, match="no checkpoint"):
        small_fit(tmp_path, task=task)
    assert not (tmp_path / "last.pt").exists()


def test_non_finite_parameters_are_never_saved(tmp_path):
    settings = small_settings(1, optimiser="sgd", lr=1e38, lr_recurrent=0.0)
    model = small_model()
    with torch.no_grad():
        model.head.weight.fill_(3e38)
        model.head.weight[::2] = -3e38
    with pytest.raises(NonFiniteLossError):
        small_fit(tmp_path, settings, model=model)
    assert not (tmp_path / "last.pt").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "got neither"),
        ({"steps": 1, "epochs": 2}, "got 1 and 2"),
        ({"steps": 0}, "expected steps to be a whole number >= 1, got 0"),
        ({"steps": 1, "clip_norm": 0}, "expected clip_norm > 0"),
        ({"steps": 1, "optimiser": "adagrad"}, "got 'adagrad'"),
        ({"steps": 1, "alpha": 1.0}, "got 1.0"),
        ({"steps": 1, "lr_decay": 0.0}, "expected 0 < lr_decay <= 1"),
        ({"steps": 1, "lr_decay": 0.5}, "expected lr_decay_at with lr_decay=0.5"),
        ({"steps": 1, "lr_decay": 0.5, "lr_decay_at": []}, "expected lr_decay_at with"),
        ({"steps": 1, "lr_decay_at": (20, 10)}, r"larger than the one before, got \(20, 10\)"),
        ({"steps": 1, "lr_decay_at": (2, 2)}, "larger than the one before"),
        ({"steps": 1, "lr_decay_at": (0, 2)}, "larger than the one before"),
        ({"steps": 1, "lr_decay_at": (1.5,)}, "larger than the one before"),
        ({"steps": 1, "lr_decay_at": 10}, "numbers of epochs"),
        ({"steps": 1, "lr": "0.1"}, "expected a finite lr >= 0, got '0.1'"),
        ({"steps": 1, "lr": True}, "expected a finite lr >= 0, got True"),
        ({"steps": True}, "expected steps to be a whole number"),
        ({"steps": 1, "seed": 1.5}, "expected seed to be a whole number .* got 1.5"),
        ({"steps": 1, "seed": 2**63}, "expected seed to be a whole number"),
        ({"steps": 1, "seed": -1}, "expected seed to be a whole number"),
        ({"steps": 1, "patience": 0}, "patience"),
        ({"steps": 1, "optimiser": "adam", "alpha": 0.9}, "alpha only with"),
    ],
)
def test_settings_out_of_range_raise(options, message):
    with pytest.raises(ValueError, match=message):
        Settings(**options)


def test_epochs_of_endless_data_raise(tmp_path):
    with pytest.raises(ValueError, match="got epochs"):
        small_fit(tmp_path, small_settings(None, epochs=1))


def test_numbers_of_numpy_are_settings():
    settings = Settings(steps=np.int64(3), seed=np.int64(2), lr=np.float32(0.5))
    assert (settings.steps, settings.seed, settings.lr) == (3, 2, 0.5)


@dataclass(frozen=True)
class OfAFolder(Copying):
    """A task with lists of batches, and the path of a folder."""

    path: str = "/"

    def batches(self, split, *arguments, **options):
        batches = super().batches(split, *arguments, **options)
        return batches if split == "train" else list(batches)


def test_a_task_may_have_a_folder_and_lists_of_batches(tmp_path):
    task = OfAFolder(delay=4, symbols=2, test_examples=4)
    assert small_fit(tmp_path / "run", small_settings(2), task=task).state == "ended"


@pytest.mark.parametrize("when", ["epoch", (1, 2)])
def test_a_decay_after_epochs_of_endless_data_raises(tmp_path, when):
    settings = small_settings(lr_decay=0.5, lr_decay_at=when)
    with pytest.raises(ValueError, match=r"expected lr_decay_at='plateau'.*no epochs"):
        small_fit(tmp_path, settings)


def test_half_precision_on_a_cpu_is_refused(tmp_path):
    with pytest.raises(ValueError, match="expected precision='bf16-mixed' on a CPU"):
        small_fit(tmp_path, small_settings(precision="16-mixed"))


class Undeclared(Callback):
    """Measures a number for which it has no column."""

    def measure(self, *_):
        return {"norm": 1.0}


def test_a_number_without_a_column_is_refused(tmp_path):
    with pytest.raises(ValueError, match="expected norm among the columns of the callback"):
        small_fit(tmp_path, small_settings(2), callbacks=[Undeclared()])


def test_a_damaged_metrics_csv_raises_when_a_run_is_resumed(tmp_path):
    small_fit(tmp_path, small_settings(2))
    file = tmp_path / "metrics.csv"
    header, *rows = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(header + b"step" + rows[0][1:] + b"".join(rows))
    with pytest.raises(ValueError, match=r"metrics\.csv"):
        small_fit(tmp_path, small_settings(3), resume=True)


@pytest.mark.parametrize("name", ["cuda", "gpu", "mps"])
def test_a_missing_accelerator_raises_before_anything_is_written(tmp_path, monkeypatch, name):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    message = f"expected a machine for accelerator='{name}', .*--accelerator cpu"
    with pytest.raises(ValueError, match=message):
        small_fit(tmp_path / "run", small_settings(2, accelerator=name))
    assert not (tmp_path / "run").exists()


def test_a_model_without_trained_parameters_raises_before_anything_is_written(tmp_path):
    model = small_model().requires_grad_(requires_grad=False)
    with pytest.raises(ValueError, match="expected a model with trainable parameters"):
        small_fit(tmp_path / "run", model=model)
    assert not (tmp_path / "run").exists()
