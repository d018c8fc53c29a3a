"""Nothing behind a link that a stranger planted in a folder is deleted."""

from eigenrnn_experiments.training import RunFolder


def test_overwriting_a_run_deletes_no_events_behind_a_link(tmp_path):
    events = tmp_path / "victim" / "events.out.tfevents.0"
    events.parent.mkdir()
    events.write_text("precious")
    run = tmp_path / "run"
    run.mkdir()
    (run / "tensorboard").symlink_to(events.parent)
    RunFolder(run).open(resume=False, overwrite=True)
    assert events.read_text() == "precious"
