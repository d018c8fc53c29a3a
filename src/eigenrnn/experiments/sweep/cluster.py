"""The Ray cluster of a sweep: a local one on this machine, or an existing one."""

import ipaddress
import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import ray
from filelock import FileLock

from eigenrnn.experiments.training.signals import blocked_signals

__all__ = ["check_address", "check_cluster", "cluster", "temporary_folder"]

_INIT: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
_OBJECT_STORE_BYTES = 80 * 2**20  # slightly above Ray's minimum: only small objects are sent
# together with the start of the program below half a minute
_CONNECT_S = 3
_JOIN_S = 15
_PREFIX = "eigenrnn-"
_LOCK = "lock"


@contextmanager
def cluster(address: str | None) -> Generator[None]:
    """Join a cluster, or start one on this machine; leave or stop it afterwards.

    If this process has already joined one, it stays in it. A cluster started here listens on
    loopback only, and keeps its files where no other user can read them.

    Args:
        address: The address of an existing cluster, `HOST:PORT`; None starts one.
    Raises:
        ImportError: If this version of Ray listens beyond loopback.
    """
    if ray.is_initialized():
        yield
        return
    with ExitStack() as stack:
        folder: Path | None = None
        if address is None:
            folder = stack.enter_context(temporary_folder())
        stack.callback(ray.shutdown)  # before the folder is deleted, in which Ray writes
        with blocked_signals():
            if folder is None:
                ray.init(address=address, **_INIT)
            else:
                _start(folder / "r")  # the path of a socket has at most 107 bytes
        yield


def _start(folder: Path) -> None:
    """Start a cluster that only this machine can reach.

    All processes of Ray bind to the address of the machine, or to every interface if that is not
    loopback. Ray chooses loopback only where it cannot form clusters, as on macOS.

    Args:
        folder: Created by Ray, readable by everyone; its parent must be private.

    Raises:
        ImportError: If this version of Ray does not listen on loopback.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray reads RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0, the setting for this, only at its import, and
    # replaces `_node_ip_address="127.0.0.1"` by the address of the machine. The check below and
    # the bound on Ray's version in pyproject.toml guard the private name.
    cores: int | None = None  # all
    if hasattr(os, "sched_getaffinity"):  # those that this process may use; Ray would take all
        cores = len(os.sched_getaffinity(0))
    with mock.patch("ray._private.ray_constants.ENABLE_RAY_CLUSTER", new=False):
        ray.init(
            address="local",  # not the address in RAY_ADDRESS
            num_cpus=cores,
            include_dashboard=False,
            object_store_memory=_OBJECT_STORE_BYTES,
            _temp_dir=str(folder),
            **_INIT,
        )
        address = ray.util.get_node_ip_address()
    if not ipaddress.ip_address(address).is_loopback:
        raise ImportError(
            f"expected Ray to listen on loopback, got {address} from Ray {ray.__version__}; "
            "install another version, as by pip install 'ray==2.60.0'"
        )


def check_address(address: str) -> None:
    """Check that a process listens at an address, by connecting to it.

    Raises:
        ValueError: If the address is malformed.
        ConnectionError: If nothing listens there.
    """
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise ValueError(
            f"expected an address HOST:PORT, such as 10.0.0.1:6379, got {address!r}; "
            "`ray start --head` prints it"
        )
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_S).close()
    except OSError as error:
        raise ConnectionError(_no_cluster(address, str(error))) from error


def check_cluster(address: str) -> None:
    """Check that the process at an address is a Ray cluster of the same version.

    A subprocess tries to join it: if no cluster answers, `ray.init` lasts several minutes, has no
    timeout, and can end the process.

    Raises:
        ConnectionError: If it is not a cluster, or of another version.
    """
    code = "import sys, ray; ray.init(address=sys.argv[1], log_to_driver=False)"
    command = [sys.executable, "-c", code, address]
    try:
        subprocess.run(command, timeout=_JOIN_S, capture_output=True, text=True, check=True)
    except subprocess.TimeoutExpired:
        reason = f"what listens there did not answer as a cluster within {_JOIN_S} s"
        raise ConnectionError(_no_cluster(address, reason)) from None
    except subprocess.CalledProcessError as error:
        reason = (error.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise ConnectionError(_no_cluster(address, reason)) from None


def _no_cluster(address: str, reason: str) -> str:
    return (
        f"there is no cluster to join at {address}: {reason}; start one with `ray start --head`, "
        "and on this machine `ray start --address=HOST:PORT`"
    )


@contextmanager
def temporary_folder() -> Generator[Path]:
    """Create a private temporary folder and remove it afterwards.

    The folders of sweeps that were killed before are removed too: nobody locks them any longer.
    """
    parent = Path(tempfile.gettempdir())
    own_id = os.getuid() if hasattr(os, "getuid") else 0
    for file in parent.glob(f"{_PREFIX}*/{_LOCK}"):
        with suppress(OSError):
            # a lock of another user could be a link to one of our files
            if file.parent.lstat().st_uid == own_id:
                with FileLock(file, timeout=0):
                    shutil.rmtree(file.parent)
    hidden = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}"))
    with FileLock(hidden / _LOCK):  # before other processes find the folder
        folder = hidden.rename(parent / hidden.name.removeprefix("."))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
