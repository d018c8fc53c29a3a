"""Data files are searched in order, verified before use, and read as published."""

import gzip
import hashlib
import io
import secrets
import struct
import zipfile
from pathlib import Path

import pooch
import pytest
import requests

from eigenrnn_experiments.data import DataFile, locate
from eigenrnn_experiments.data.mnist import read_idx, read_mnist
from eigenrnn_experiments.errors import ChecksumError, MissingDataError

CONTENT = b"the published file"
FIRST, SECOND = "https://first.example/a.gz", "https://second.example/a.gz"
FILE = DataFile("set/a.gz", hashlib.sha256(CONTENT).hexdigest(), (FIRST, SECOND))


class Web:
    """A fake network: pages by address; any other download fails halfway."""

    def __init__(self):
        self.pages = {}
        self.requests = []

    def download(self, url, target, _pooch):
        self.requests.append(url)
        Path(target).write_bytes(self.pages.get(url, CONTENT[:5]))
        if url not in self.pages:
            raise requests.ConnectionError(f"no connection to {url}")


@pytest.fixture(autouse=True)
def web(monkeypatch):
    web = Web()
    monkeypatch.setattr(pooch.core, "choose_downloader", lambda *_, **__: web.download)
    return web


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)
    return tmp_path / "cache" / "eigenrnn"


@pytest.fixture(autouse=True)
def named(tmp_path, monkeypatch):
    monkeypatch.setenv("EIGENRNN_DATA", str(tmp_path / "named"))
    return tmp_path / "named"


def put(path, content=CONTENT):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def idx(*numbers, content=b""):
    # without the time, which would be part of the names of tests
    return gzip.compress(struct.pack(f">{len(numbers)}i", *numbers) + content, mtime=0)


@pytest.mark.parametrize("place", ["set/a.gz", "a.gz"])
def test_a_file_is_found_in_the_folder_of_its_set_or_directly(tmp_path, place):
    path = put(tmp_path / "root" / place)
    assert locate(FILE, tmp_path / "root") == path


def test_data_root_takes_precedence_over_the_environment_variable(tmp_path, named):
    path = put(tmp_path / "root" / FILE.path)
    put(named / FILE.path)
    assert locate(FILE, str(tmp_path / "root")) == path


def test_the_environment_variable_takes_precedence_over_the_cache(named, cache):
    path = put(named / FILE.path)
    put(cache / FILE.path)
    assert locate(FILE) == path


def test_the_cache_takes_precedence_over_the_web(cache, web):
    path = put(cache / FILE.path)
    assert locate(FILE) == path
    assert web.requests == []


def test_an_empty_variable_is_ignored(tmp_path, monkeypatch, web):
    monkeypatch.setenv("EIGENRNN_DATA", "")
    monkeypatch.chdir(tmp_path)
    put(tmp_path / FILE.path)
    web.pages[FIRST] = CONTENT
    assert locate(FILE).read_bytes() == CONTENT
    assert web.requests == [FIRST]


def test_a_missing_file_is_downloaded_once(cache, web):
    web.pages[FIRST] = CONTENT
    assert locate(FILE) == locate(FILE) == cache / FILE.path
    assert web.requests == [FIRST]


@pytest.mark.parametrize("pages", [{}, {FIRST: b"a page of advertisements"}])
def test_the_second_address_is_tried_when_the_first_fails(web, pages):
    web.pages = {**pages, SECOND: CONTENT}
    assert locate(FILE).read_bytes() == CONTENT
    assert web.requests == [FIRST, SECOND]


def test_a_failed_download_names_the_path_both_addresses_and_the_variable(cache, named):
    with pytest.raises(MissingDataError) as raised:
        locate(FILE)
    for part in (str(named / FILE.path), str(cache / FILE.path), FIRST, SECOND, "$EIGENRNN_DATA"):
        assert part in str(raised.value)


@pytest.mark.parametrize("pages", [{}, {FIRST: b"damaged", SECOND: b"damaged"}])
def test_a_failed_download_leaves_no_file_behind(cache, web, pages):
    web.pages = pages
    with pytest.raises(MissingDataError):
        locate(FILE)
    assert not [path for path in cache.rglob("*") if path.is_file()]


def test_a_file_missing_in_data_root_is_an_error_even_if_it_is_elsewhere(tmp_path, named, web):
    put(named / FILE.path)
    web.pages[FIRST] = CONTENT
    with pytest.raises(MissingDataError) as raised:
        locate(FILE, tmp_path / "root")
    for part in (str(tmp_path / "root" / FILE.path), FIRST, SECOND, "$EIGENRNN_DATA"):
        assert part in str(raised.value)
    assert web.requests == []


@pytest.mark.parametrize("place", ["named", "cache/eigenrnn"])
def test_a_damaged_file_names_its_path_and_both_checksums(tmp_path, web, place):
    path = put(tmp_path / place / FILE.path, b"damaged")
    web.pages[FIRST] = CONTENT
    with pytest.raises(ChecksumError) as raised:
        locate(FILE)
    for part in (str(path), FILE.sha256, hashlib.sha256(b"damaged").hexdigest()):
        assert part in str(raised.value)


def test_idx_bytes_are_read_in_row_major_order(tmp_path):
    path = put(tmp_path / "a.gz", idx(2051, 2, 1, 3, content=bytes([0, 1, 2, 253, 254, 255])))
    assert read_idx(path, rank=3).tolist() == [[[0, 1, 2]], [[253, 254, 255]]]


DAMAGED = {
    "longer": (idx(2049, 2, content=bytes([3, 4, 5])), "expected 2 bytes, got 3"),
    "shorter": (idx(2049, 2, content=bytes([3])), "expected 2 bytes, got 1"),
    "of another type": (idx(0x0B01, 1, content=bytes([0, 1])), "expected 2049, .* got 2817"),
    "of another rank": (idx(2051, 2, 1, 1, content=bytes([3, 4])), "expected 2049, .* got 2051"),
    "without sizes": (idx(2049), "ends within the sizes"),
}


@pytest.mark.parametrize(("content", "said"), DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_idx_file_is_refused(tmp_path, content, said):
    with pytest.raises(ValueError, match=f"a.gz is damaged: (it )?{said}"):
        read_idx(put(tmp_path / "a.gz", content), rank=1)


def test_idx_tensors_are_writable(tmp_path):
    labels = read_idx(put(tmp_path / "a.gz", idx(2049, 2, content=bytes([3, 4]))), rank=1)
    labels += 1
    assert labels.tolist() == [4, 5]


@pytest.mark.parametrize(
    ("part", "counts", "mean_pixel"),
    [
        ("train", [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949], 0.13066),
        ("test", [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009], 0.13251),
    ],
)
def test_mnist_has_its_published_digits_and_mean_pixel(data_root, part, counts, mean_pixel):
    images, labels = read_mnist(part, data_root)
    assert images.shape == (sum(counts), 28, 28)
    assert labels.bincount().tolist() == counts
    assert images.double().mean().item() / 255 == pytest.approx(mean_pixel, abs=5e-6)


def fresh_archive(content):
    """A zip file of this content whose bytes differ in every call."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.txt", content)
        archive.comment = secrets.token_bytes(8)
    return file.getvalue()


def content_of(path):
    if not zipfile.is_zipfile(path):
        return "none"
    with zipfile.ZipFile(path) as archive:
        return hashlib.sha256(archive.read("a.txt")).hexdigest()


ARCHIVE = DataFile("set/a.zip", FILE.sha256, (FIRST, SECOND), content_of)


def test_an_archive_created_anew_is_identified_by_its_content(cache, web):
    web.pages = {FIRST: fresh_archive(b"something else"), SECOND: fresh_archive(CONTENT)}
    assert content_of(locate(ARCHIVE)) == FILE.sha256
    assert locate(ARCHIVE) == cache / ARCHIVE.path
    assert web.requests == [FIRST, SECOND]


@pytest.mark.parametrize("pages", [{}, {FIRST: fresh_archive(b"something else")}])
def test_a_download_with_other_contents_leaves_no_file_behind(cache, web, pages):
    web.pages = pages
    with pytest.raises(MissingDataError):
        locate(ARCHIVE)
    assert not [path for path in cache.rglob("*") if path.is_file()]
