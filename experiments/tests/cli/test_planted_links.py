"""Nothing behind a link that a stranger planted in a folder is deleted."""

from eigenrnn_experiments.cli.analyse import delete_earlier_files
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


def test_an_analysis_deletes_no_picture_behind_a_link_or_outside_its_folder(tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "spectrum.png").write_text("precious")
    (victim / "summary.json").write_text('{"found": {"spectrum": {}}}')
    (tmp_path / "link").symlink_to(victim)
    delete_earlier_files(tmp_path / "link")
    own = tmp_path / "own"
    own.mkdir()
    (own / "summary.json").write_text('{"found": {"../victim/spectrum": {}}}')
    delete_earlier_files(own)
    assert (victim / "spectrum.png").read_text() == "precious"
