"""The Ray cluster of a sweep: a local one on this machine, or an existing one."""

import importlib
import ipaddress
import json
import logging
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from eigenrnn.experiments.sweep.folder import read_json
from eigenrnn.experiments.sweep.signals import RaisingSignals

__all__ = [
    "check_address",
    "check_cluster",
    "check_installed",
    "cluster",
    "has_joined",
    "temporary_folder",
]

_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # silences a warning about a future default
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # the folders of the runs hold everything
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # ours also remembers the signal
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",
    "RAY_AIR_NEW_OUTPUT": "0",  # the new output prints at any verbosity
}
_OBJECT_STORE_BYTES = 80 * 2**20  # slightly above Ray's minimum: only small objects are sent
_CONNECT_S, _JOIN_S = 3, 15  # together with the start of the program below half a minute
_PREFIX = "eigenrnn-"
_DRIVER = "driver.json"


@contextmanager
def cluster(address: str | None, signals: RaisingSignals) -> Generator[str]:
    """Join a cluster, or start one on this machine; leave or stop it afterwards.

    If this process has already joined one, it stays in it. A cluster started here listens on
    loopback only, and keeps its files where no other user can read them.

    Args:
        address: The address of an existing cluster, `HOST:PORT`; None starts one.
        signals: Receives signals in the context, instead of Ray.
    Yields:
        A temporary folder on this machine for the files of Ray.
    Raises:
        ImportError: If Ray is not installed, or this version listens beyond loopback.
        ConnectionError: If there is no cluster at the address, or it cannot be joined.
        StoppedError: If a signal stopped the sweep.
    """
    before = {name: os.environ.get(name) for name in _ENVIRONMENT}
    os.environ.update(_ENVIRONMENT)
    try:
        check_installed()
        import ray

        logging.getLogger("ray.tune").setLevel(logging.ERROR)  # `SweepProgress` prints instead
        joined_before = has_joined()
        with temporary_folder() as folder:
            try:
                if not joined_before:
                    with signals.sigterm_blocked():
                        if address is None:
                            # a short name: the path of a socket has at most 107 bytes
                            _start(Path(folder) / "r")
                        else:
                            _join(address)
                signals.check()
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
    """Whether this process is already part of a cluster."""
    ray = sys.modules.get("ray")
    return ray is not None and ray.is_initialized()


def check_installed() -> None:
    """Check that Ray Tune and Optuna are installed.

    Raises:
        ImportError: If one is missing.
    """
    try:
        import optuna

        importlib.import_module("ray.tune")  # Ray can be installed without its dependencies
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
    """Start a cluster that only this machine can reach.

    Args:
        folder: Created by Ray, readable by everyone; its parent must be private.

    Raises:
        ImportError: If this version of Ray does not listen on loopback.
    """
    import ray

    with _loopback():
        ray.init(
            address="local",  # not the address in RAY_ADDRESS
            num_cpus=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
            include_dashboard=False,
            object_store_memory=_OBJECT_STORE_BYTES,
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
    """Make Ray use the loopback address as the address of this machine.

    All processes of Ray bind to that address, or to every interface if it is not loopback. Ray
    replaces `_node_ip_address="127.0.0.1"` by the network address unless clusters are disabled, as
    on macOS. RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER has the same effect, but is read when Ray is
    imported, which may have happened already.
    """
    constants: Any = importlib.import_module("ray._private.ray_constants")
    before = constants.ENABLE_RAY_CLUSTER
    constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


def _join(address: str) -> None:
    """Join the cluster at an address.

    Raises:
        ConnectionError: If it cannot be joined.
    """
    import ray

    try:
        ray.init(address=address, **_INIT)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConnectionError(_no_cluster(address, str(error))) from error


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

    A subprocess tries to join it, because Ray's own attempt lasts a minute and cannot be stopped.

    Raises:
        ConnectionError: If it is not a cluster, or of another version.
    """
    code = "import sys, ray; ray.init(address=sys.argv[1], log_to_driver=False)"
    try:
        attempt = subprocess.run(
            [sys.executable, "-c", code, address],
            timeout=_JOIN_S,
            capture_output=True,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        reason = f"what listens there did not answer as a cluster within {_JOIN_S} s"
        raise ConnectionError(_no_cluster(address, reason)) from None
    if attempt.returncode:
        reason = (attempt.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise ConnectionError(_no_cluster(address, reason))


def _no_cluster(address: str, reason: str) -> str:
    return (
        f"there is no cluster to join at {address}: {reason}; start one with `ray start --head`, "
        "and on this machine `ray start --address=HOST:PORT`"
    )


@contextmanager
def temporary_folder() -> Generator[str]:
    """Create a private temporary folder and remove it afterwards.

    The folders of sweeps that were killed before are removed too.
    """
    _remove_abandoned(Path(tempfile.gettempdir()))
    folder = tempfile.mkdtemp(prefix=_PREFIX)
    try:
        pid = os.getpid()
        content = {"pid": pid, "began": _start_time(pid), "where": _pid_namespace()}
        (Path(folder) / _DRIVER).write_text(json.dumps(content))
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _remove_abandoned(parent: Path) -> None:
    """Remove the folders whose process on this machine no longer exists.

    If that is uncertain the folder is kept: those of other users, machines and containers, and
    all of them on systems without `/proc`.
    """
    for file in parent.glob(f"{_PREFIX}*/{_DRIVER}"):
        try:
            content = read_json(file, ("pid", "began", "where"))
        except (OSError, ValueError):
            continue
        is_local = content["began"] is not None and content["where"] == _pid_namespace()
        is_local &= isinstance(content["pid"], int)
        # another process may have the same number, but not the same start time
        if is_local and _start_time(content["pid"]) != content["began"]:
            shutil.rmtree(file.parent, ignore_errors=True)


def _start_time(pid: int) -> str | None:
    """Return the start time of a process in ticks since boot; None if it does not exist."""
    try:
        # after the name of the program, which is in parentheses and may contain anything
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return None


def _pid_namespace() -> str:
    """Name the machine and, on Linux, the namespace of its process numbers (one per container)."""
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        namespace = ""
    return f"{platform.node()} {namespace}"
