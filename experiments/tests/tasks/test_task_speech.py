"""Speech: recordings and spectra against references, splits, metrics, resynthesis, errors."""

import cmath
import math
import zipfile

import numpy as np
import pytest
import torch
from scipy import signal
from torch import nn

from eigenrnn.models import SequenceModel
from eigenrnn_experiments.data import speech as speech_data
from eigenrnn_experiments.data.audio import (
    decibels,
    istft,
    read_recording,
    resample,
    resynthesis,
    stft,
    wave_bytes,
)
from eigenrnn_experiments.data.speech import CORE_TEST, DEVELOPMENT, FSDD, read_fsdd, read_timit
from eigenrnn_experiments.errors import MissingDataError
from eigenrnn_experiments.tasks import Speech
from eigenrnn_experiments.tasks.base import generator_for
from eigenrnn_experiments.tasks.speech import pesq, segmental_snr, speech_activity, stoi
from eigenrnn_experiments.training import resynthesise

SENTENCES = ["SA1", "SA2", "SI1", "SI2", "SI3", "SX1", "SX2", "SX3", "SX4", "SX5"]


def noise(samples, seed=0):
    return torch.rand(samples, generator=generator_for(seed)) - 0.5


def sphere(samples, rate=16_000, order="01", channels=1, coding="pcm"):
    header = (
        f"NIST_1A\n   1024\nchannel_count -i {channels}\nsample_count -i {len(samples)}\n"
        f"sample_rate -i {rate}\nsample_n_bytes -i 2\nsample_byte_format -s2 {order}\n"
        f"sample_coding -s3 {coding}\nend_head\n"
    )
    kind = "<i2" if order == "01" else ">i2"
    return header.encode().ljust(1024) + np.array(samples).astype(kind).tobytes()


@pytest.fixture(scope="module")
def own_copy(tmp_path_factory):
    """A folder with the speakers and sentences of TIMIT; each recording has 30 samples."""
    root = tmp_path_factory.mktemp("copy")
    train = [f"f{chr(97 + k // 26)}{chr(97 + k % 26)}a0" for k in range(462)]
    extra = [f"mxx{k % 10}{k // 10}" for k in range(94)]
    for part, speakers in (("TRAIN", train), ("TEST", [*DEVELOPMENT, *CORE_TEST, *extra])):
        for number, speaker in enumerate(speakers):
            folder = root / "timit" / part / f"DR{number % 8 + 1}" / speaker.upper()
            folder.mkdir(parents=True)
            for k, sentence in enumerate(SENTENCES):
                (folder / f"{sentence}.WAV").write_bytes(sphere([number, k, -9] * 20))
    return root


@pytest.mark.parametrize("order", ["01", "10"])
def test_sphere_samples_are_read_in_either_order(order):
    samples, rate = read_recording(sphere([1, -2, 32_767, -32_768], order=order), "a.wav")
    assert (samples * 32_768).tolist() == [1, -2, 32_767, -32_768]
    assert rate == 16_000


def test_both_layouts_of_a_sentence_of_timit_give_the_same_samples(data_root):
    with zipfile.ZipFile(data_root / speech_data.TIMIT_SAMPLE.path) as archive:
        names = [f"timit/dr1-fvmh0/si836.{ending}" for ending in ("nist", "wav")]
        (one, rate), (other, rate_too) = (read_recording(archive.read(n), n) for n in names)
    assert torch.equal(one, other)
    assert rate == rate_too == 16_000
    assert len(one) == 68_813


def test_an_encoded_recording_is_read_back():
    samples = noise(1_000)
    read, rate = read_recording(wave_bytes(samples), "a.wav")
    assert rate == 8_000
    torch.testing.assert_close(read, samples, rtol=0, atol=2 / 32_768)
    loud, _ = read_recording(wave_bytes(4 * samples), "a.wav")
    assert loud.abs().max().item() == pytest.approx(1, abs=1e-4)


def test_resampling_keeps_low_and_removes_high_frequencies():
    t = torch.arange(16_000) / 16_000
    tones = {hertz: torch.sin(2 * math.pi * hertz * t) for hertz in (1_000, 6_000)}
    low, high = (resample(tone, 16_000, "a.wav")[200:-200] for tone in tones.values())
    # a Kaiser window with beta = 5 leaves ripples of 53 dB below
    torch.testing.assert_close(low, tones[1_000][::2][200:-200], rtol=0, atol=10 ** (-53 / 20))
    assert high.abs().max() < 10 ** (-53 / 20)


@pytest.mark.parametrize("samples", [1, 128, 129, 1_000])
def test_spectra_equal_their_definition(samples):
    x = noise(samples)
    spectra = stft(x)
    padded = [0.0] * 256 + x.tolist() + [0.0] * (-samples % 128 + 256)
    starts = range(0, len(padded) - 255, 128)
    assert spectra.shape == (len(starts), 129)
    hann = [0.5 - 0.5 * math.cos(2 * math.pi * n / 256) for n in range(256)]
    for frame in (1, len(starts) - 2):
        for k in (0, 7, 128):
            value = sum(
                hann[n] * padded[starts[frame] + n] * cmath.exp(-2j * math.pi * k * n / 256)
                for n in range(256)
            )
            assert spectra[frame, k].item() == pytest.approx(value, abs=1e-4)
            level = 10 * math.log10(1e-5 + abs(spectra[frame, k].item()) ** 2)
            assert decibels(spectra)[frame, k].item() == pytest.approx(level, abs=1e-3)
    assert (decibels(spectra)[[0, -1]] == -50).all()


@pytest.mark.filterwarnings("ignore:NOLA condition failed")  # at both ends, where zeros are
def test_the_inverse_equals_scipys_and_the_signal():
    x = noise(1_000)
    _, expected = signal.istft(
        stft(x).T.numpy() / 128, window="hann", nperseg=256, noverlap=128, boundary=False
    )
    got = istft(stft(x), 1_000)
    torch.testing.assert_close(got, x, rtol=0, atol=1e-6)
    np.testing.assert_allclose(got, expected[256:1256], atol=1e-5)


@pytest.mark.usefixtures("data_root")
def test_targets_are_the_next_frames_and_then_silence():
    task = Speech(shuffle=False)
    batch = next(task.batches("train", 5))
    for b, (_, samples) in zip(range(5), task.recordings("train"), strict=False):
        frames = decibels(stft(samples))
        length = len(frames)
        assert batch.lengths[b] == length
        assert torch.equal(batch.inputs[:length, b], frames)
        assert torch.equal(batch.targets[: length - 1, b], frames[1:])
        assert (batch.targets[length - 1, b] == -50).all()
        assert batch.targets[length:, b].isnan().all()
        assert (batch.inputs[length:, b] == -50).all()


@pytest.mark.long
@pytest.mark.usefixtures("data_root")
def test_the_official_test_split_is_the_first_five_recordings_of_each_digit():
    sizes = {}
    for split, indices in (
        ("train", [*range(10, 50)]),
        ("validation", [5, 6, 7, 8, 9]),
        ("test", [0, 1, 2, 3, 4]),
    ):
        names = [name.split("_") for name, _ in read_fsdd(split)]
        sizes[split] = len(names)
        assert sorted({int(index) for _, _, index in names}) == indices
        assert len({(digit, speaker) for digit, speaker, _ in names}) == 60
    assert sizes == {"train": 2_400, "validation": 300, "test": 300}
    samples = sum(len(x) for split in sizes for _, x in read_fsdd(split))
    assert samples == 10_498_424
    assert Speech().steps_per_epoch(1) == 2_400


def test_an_archive_with_another_compression_has_the_same_recordings(data_root, tmp_path):
    (tmp_path / "fsdd").mkdir()
    with (
        zipfile.ZipFile(data_root / FSDD.path) as published,
        zipfile.ZipFile(tmp_path / FSDD.path, "w") as packed,
    ):
        packed.writestr("free-spoken-digit-dataset-26eb9aa/README.md", "the recordings")
        for name in reversed(published.namelist()):
            packed.writestr(f"free-spoken-digit-dataset-26eb9aa/{name}", published.read(name))
    for one, other in zip(read_fsdd("test", tmp_path), read_fsdd("test", data_root), strict=True):
        assert one[0] == other[0]
        assert torch.equal(one[1], other[1])


@pytest.mark.usefixtures("data_root")
def test_the_splits_of_the_timit_sample_have_different_speakers():
    task = Speech("timit_sample")
    parts = {split: [*task.recordings(split)] for split in task.splits}
    speakers = {s: {name.rsplit("-", 1)[0] for name, _ in part} for s, part in parts.items()}
    assert {s: len(part) for s, part in parts.items()} == {
        "train": task.steps_per_epoch(1),
        "validation": 16,
        "test": 16,
    }
    assert speakers["validation"] == {"dr7-fblv0", "dr7-madd0"}
    assert speakers["test"] == {"dr8-fbcg1", "dr8-mbcg0"}
    assert not [name for part in parts.values() for name, _ in part if "-sa" in name]


def test_a_copy_of_timit_has_the_published_splits(own_copy):
    parts = {s: [*read_timit(s, own_copy)] for s in ("train", "validation", "test")}
    assert {s: len(part) for s, part in parts.items()} == {
        "train": 462 * 8,
        "validation": 50 * 8,
        "test": 24 * 8,
    }
    for split, listed in (("validation", DEVELOPMENT), ("test", CORE_TEST)):
        assert {name.split("-")[1] for name, _ in parts[split]} == listed
    assert all(len(samples) == 30 for _, samples in parts["test"])
    assert not [name for part in parts.values() for name, _ in part if "-sa" in name]


def test_an_incomplete_copy_of_timit_is_rejected(own_copy, monkeypatch):
    monkeypatch.setattr(speech_data, "CORE_TEST", CORE_TEST | {"mxx00"})
    with pytest.raises(MissingDataError, match="got 200"):
        next(read_timit("test", own_copy))


@pytest.mark.parametrize("named", [True, False])
def test_without_a_copy_of_timit_the_error_names_the_vendor(tmp_path, monkeypatch, named):
    monkeypatch.delenv("EIGENRNN_DATA", raising=False)
    message = r"timit/TRAIN, with DR1/FCJF0/SX127.WAV .*LDC93S1 at https://catalog.ldc.upenn.edu"
    with pytest.raises(MissingDataError, match=message):
        Speech("timit", data_root=tmp_path if named else None).batches("train", 2)


@pytest.mark.usefixtures("data_root")
def test_the_metrics_are_means_over_valid_and_over_padded_frames():
    task = Speech("timit_sample")
    lengths = [len(stft(samples)) for _, samples in task.recordings("test")]
    tally = torch.zeros(3, dtype=torch.float64)
    total = 0.0
    for batch in task.batches("test", 5):
        outputs = torch.randn(batch.inputs.shape, generator=generator_for(0))
        tally += task.metric_sums(outputs, batch.targets)
        for b, length in enumerate(batch.lengths.tolist()):
            error = outputs[:length, b].double() - batch.targets[:length, b].double()
            total += error.square().sum().item()
    figures = task.metrics_from_sums(tally)
    assert figures["loss"] == pytest.approx(total / (129 * sum(lengths)), rel=1e-6)
    padded = 129 * len(lengths) * max(lengths)
    assert figures["padded_mse"] == pytest.approx(total / padded, rel=1e-6)


@pytest.mark.usefixtures("data_root")
def test_the_baseline_is_the_loss_of_the_mean_of_each_bin():
    task = Speech("timit_sample", shuffle=False)
    batch = next(task.batches("train", 96))
    assert batch.size == task.steps_per_epoch(1)
    prediction = batch.targets.nanmean((0, 1)).expand_as(batch.targets)
    assert task.loss(prediction, batch.targets).item() == pytest.approx(task.baseline(), rel=1e-5)


def speech_level(x, rate=8_000):
    """ITU-T P.56, method B, as in its reference program: by sample and by threshold."""
    g = math.exp(-1 / (rate * 0.03))
    c = [2.0**-k for k in range(15, 0, -1)]
    a, h = [0] * 15, [rate // 5 + 1] * 15
    p = q = 0.0
    envelope = []
    for sample in x:
        p = g * p + (1 - g) * abs(sample)
        q = g * q + (1 - g) * p
        envelope.append(q)
        for j in range(15):
            if q >= c[j]:
                a[j], h[j] = a[j] + 1, 0
            elif h[j] < rate // 5:
                a[j], h[j] = a[j] + 1, h[j] + 1
    square = sum(sample * sample for sample in x)
    delta = [
        10 * math.log10(square / n) - 20 * math.log10(t) - 15.9
        for n, t in zip(a, c, strict=True)
        if n
    ]
    j = max(k for k, d in enumerate(delta) if d >= 0)
    exponent = j - 15 + (delta[j] / (delta[j] - delta[j + 1]) if j + 1 < len(delta) else 0)
    return envelope, 2.0**exponent


def slow_snr(sound, recording):
    envelope, threshold = speech_level(recording)
    speaks, since = [], 10**9
    for q in envelope:
        since = 0 if q >= threshold else since + 1
        speaks.append(since <= 1_600)
    ratios = []
    for start in range(0, len(recording) - 79, 80):
        if sum(speaks[start : start + 80]) <= 40:
            continue
        power = sum(r * r for r in recording[start : start + 80])
        error = sum((sound[t] - recording[t]) ** 2 for t in range(start, start + 80))
        ratios.append(10 * math.log10(power / error))
    return sum(ratios) / len(ratios), len(ratios)


@pytest.mark.usefixtures("data_root")
def test_the_segmental_snr_equals_its_definition():
    _, recording = next(Speech("timit_sample").recordings("test"))
    sound = recording + 0.003 * noise(len(recording))
    expected, frames = slow_snr(sound.double().tolist(), recording.double().tolist())
    assert 0 < frames < len(recording) // 80  # some are silent
    assert segmental_snr(sound, recording) == pytest.approx(expected, abs=1e-6)


def test_the_segmental_snr_of_ten_percent_noise_is_twenty_decibels():
    recording, error = noise(8_000), noise(8_000, seed=1)
    assert segmental_snr(recording + 0.1 * error, recording) == pytest.approx(20, abs=0.2)
    assert segmental_snr(recording, recording) == 100


def test_silence_has_no_score():
    assert not speech_activity(torch.zeros(2_000)).any()
    assert math.isnan(segmental_snr(torch.zeros(2_000), torch.zeros(2_000)))


@pytest.mark.usefixtures("data_root")
def test_only_the_true_powers_reproduce_the_recording():
    for _, samples in list(Speech("timit_sample").recordings("test"))[:3]:
        frames = decibels(stft(samples))
        true = torch.cat([frames[1:], frames[-1:]])
        assert segmental_snr(resynthesis(true, samples), samples) > 25
        assert stoi(resynthesis(true, samples), samples) > 0.99
        late = resynthesis(frames, samples)
        assert segmental_snr(late, samples) < 8
        assert segmental_snr(resynthesis(true - 20, samples), samples) < 2
        assert stoi(late, samples) < 0.95


def test_the_first_frame_is_that_of_the_recording():
    samples = noise(1_000)
    spectra = stft(resynthesis(torch.full((len(stft(samples)), 129), -200.0), samples))
    assert spectra.abs().max() < 1e-6  # it is silence


@pytest.mark.slow  # pesq is compiled when it is installed: it is no part of the extra dev
@pytest.mark.usefixtures("data_root")
def test_pesq_is_higher_for_the_better_sound():
    pytest.importorskip("pesq")
    _, samples = next(Speech("timit_sample").recordings("test"))
    frames = decibels(stft(samples))
    true, late = torch.cat([frames[1:], frames[-1:]]), frames
    assert (
        pesq(resynthesis(true, samples), samples) > 3.5 > pesq(resynthesis(late, samples), samples)
    )
    assert math.isnan(pesq(samples[:800], samples[:800]))
    assert math.isnan(stoi(samples[:800], samples[:800]))


@pytest.mark.long
@pytest.mark.usefixtures("data_root")
def test_resyntheses_are_written_and_scored(tmp_path):
    task = Speech("timit_sample")
    model = SequenceModel(nn.LSTM(129, 16), 129)
    means = resynthesise(model, task, "test", tmp_path / "all", scores=("segsnr", "stoi"), limit=3)
    rows = [row.split(",") for row in (tmp_path / "all" / "scores.csv").read_text().splitlines()]
    assert rows[0] == ["recording", "segsnr", "stoi"]
    assert means["segsnr"] == pytest.approx(np.mean([float(row[1]) for row in rows[1:]]))
    assert len([*(tmp_path / "all").glob("*.wav")]) == 2 * 3
    for name, samples in list(task.recordings("test"))[:3]:
        written, _ = read_recording((tmp_path / "all" / f"{name}.true.wav").read_bytes(), name)
        torch.testing.assert_close(written, samples, rtol=0, atol=1e-4)
        alone = model(decibels(stft(samples)).unsqueeze(1))[:, 0].detach()
        sound, _ = read_recording((tmp_path / "all" / f"{name}.wav").read_bytes(), name)
        expected = resynthesis(alone, samples)
        expected /= expected.abs().max().clamp(min=1)
        torch.testing.assert_close(sound, expected, rtol=0, atol=1e-4)
