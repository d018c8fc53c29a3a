"""Where the trials run: a cluster of this machine alone, or one that is there."""

import importlib
import ipaddress
import logging
import os
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from eigenrnn.experiments.sweep.stops import Stops
from eigenrnn.experiments.sweep.temporary import temporary_folder

__all__ = ["check_address", "check_cluster", "check_installed", "cluster", "has_joined"]

_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # else it warns of how it will behave one day
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # the folders of the runs hold all that there is
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # we have our own, which forgets none
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_AIR_NEW_OUTPUT": "0",  # the new one prints at any verbosity
}
_STORE = 80 * 2**20  # bytes; a little above the least that Ray takes: only small things go through
_KNOCK_S, _JOIN_S = 3, 15  # with the start of the program within half a minute


@contextmanager
def cluster(address: str | None, stops: Stops) -> Generator[str]:
    """Join a cluster, or start one on this machine; leave or end it afterwards.

    A process that has joined one already stays in it. A cluster that is started here listens on
    loopback only, and keeps its files where no other user can read them.

    Args:
        address: Where an existing one is, `HOST:PORT`; None starts one.
        stops: Hears of signals meanwhile, in place of Ray.
    Yields:
        A folder on this machine for what Ray keeps meanwhile.
    Raises:
        ImportError: If Ray is not installed, or this version does not keep to loopback.
        ConnectionError: If there is no cluster, or it cannot be joined.
        StoppedError: If the sweep was asked to end meanwhile.
    """
    before = {name: os.environ.get(name) for name in _QUIET}
    os.environ.update(_QUIET)
    try:
        check_installed()
        import ray

        logging.getLogger("ray.tune").setLevel(logging.ERROR)  # our console says what happens
        joined_before = has_joined()
        with temporary_folder() as folder:
            try:
                if not joined_before:
                    with stops.held_back():
                        if address is None:
                            # short: the path of a socket has at most 107 bytes
                            _start(Path(folder) / "r")
                        else:
                            _join(address)
                stops.check()
                yield folder
            finally:
                if not joined_before:
                    ray.shutdown()
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def has_joined() -> bool:
    """Whether this process is in a cluster already."""
    return "ray" in sys.modules and sys.modules["ray"].is_initialized()


def check_installed() -> None:
    """Refuse to go on without Ray Tune and Optuna.

    Raises:
        ImportError: If one is missing.
    """
    try:
        import optuna

        importlib.import_module("ray.tune")  # Ray may be there without what it needs
    except ImportError as error:
        raise ImportError(
            f"a sweep needs Ray Tune and Optuna ({error}): pip install 'eigenrnn[sweep]'"
        ) from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)


_INIT: dict[str, Any] = {
    "log_to_driver": False,
    "logging_level": logging.ERROR,
    "configure_logging": True,
}


def _start(folder: Path) -> None:
    """Start a cluster of this machine, which no other can reach.

    Args:
        folder: What Ray makes and opens to everybody; so it lies in one that is closed.

    Raises:
        ImportError: If this version of Ray listens on another address than loopback.
    """
    import ray

    with _loopback():
        ray.init(
            address="local",  # and not what RAY_ADDRESS names
            num_cpus=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
            include_dashboard=False,
            object_store_memory=_STORE,
            _temp_dir=str(folder),
            **_INIT,
        )
        address = ray.util.get_node_ip_address()
    if not ipaddress.ip_address(address).is_loopback:
        raise ImportError(
            f"expected Ray to listen on loopback, got {address} from Ray {ray.__version__}; "
            "install another version, as by pip install 'ray[tune]==2.60.0'"
        )


@contextmanager
def _loopback() -> Generator[None]:
    """Let Ray take loopback for the address of this machine.

    All its processes bind to that address, or to every interface where it is none of loopback.
    Ray replaces `_node_ip_address="127.0.0.1"` by the address in the network unless clusters are
    switched off, as on macOS. RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER does that too, but is read when
    Ray is imported, which the caller may have done.
    """
    constants: Any = importlib.import_module("ray._private.ray_constants")
    before = constants.ENABLE_RAY_CLUSTER
    constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


def _join(address: str) -> None:
    """Join the cluster at the address.

    Raises:
        ConnectionError: If it cannot be joined.
    """
    import ray

    try:
        ray.init(address=address, **_INIT)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConnectionError(_refusal(address, str(error))) from error


def check_address(address: str) -> None:
    """Knock at the address, which takes no time where somebody listens.

    Raises:
        ValueError: If it is none.
        ConnectionError: If nobody answers.
    """
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise ValueError(
            f"expected an address HOST:PORT, such as 10.0.0.1:6379, got {address!r}; "
            "`ray start --head` prints it"
        )
    try:
        socket.create_connection((host, int(port)), timeout=_KNOCK_S).close()
    except OSError as error:
        raise ConnectionError(_refusal(address, str(error))) from error


def check_cluster(address: str) -> None:
    """Try to join what listens at the address, before Ray does, which would wait for a minute.

    Whether it is a cluster, and of this version, is tried in a process that can be ended: Ray's
    own attempt cannot.

    Raises:
        ConnectionError: If it is none, or of another version.
    """
    attempt = "import sys, ray; ray.init(address=sys.argv[1], log_to_driver=False)"
    try:
        tried = subprocess.run(
            [sys.executable, "-c", attempt, address],
            timeout=_JOIN_S,
            capture_output=True,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        said = f"what listens there did not answer as a cluster within {_JOIN_S} s"
        raise ConnectionError(_refusal(address, said)) from None
    if tried.returncode:
        said = (tried.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise ConnectionError(_refusal(address, said))


def _refusal(address: str, said: str) -> str:
    return (
        f"there is no cluster to join at {address}: {said}; start one with `ray start --head`, "
        "and on this machine `ray start --address=HOST:PORT`"
    )
