"""What happens before the device is touched: everything that can be known beforehand is checked."""

import os
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional

from ascend_session.backends import Choice, choose, create
from ascend_session.backends.base import Backend
from ascend_session.cluster.job import Job
from ascend_session.config import host
from ascend_session.config.ascend_config import AscendConfig
from ascend_session.config.checking import warn
from ascend_session.config.file_store import FileStore
from ascend_session.session.events import EventLog
from ascend_session.session.patience import Patience
from ascend_session.session.protos import Protos

__all__ = ["Prepared", "check_backend", "device_check", "prepare", "try_first"]


class Prepared(NamedTuple):
    """What a system is opened with."""

    backend: Backend
    job: Job
    protos: Protos


def prepare(
    config: AscendConfig, base: Optional[Any], choice: Choice, environ: Mapping[str, str]
) -> Prepared:
    """Makes the backend, and checks job, options, host and leftovers; starts nothing.

    Raises:
        AscendError: The leaf that fits what is in the way.
    """
    from ascend_session.session.registry import LEFTOVERS

    backend = create(choice, environ)
    job = backend.job(environ)
    # The stub reads no such file: what is in it is checked, and the entry is that of a device.
    protos = Protos(config, base, FileStore(environ, writes=choice.name != "stub"))
    parameters = protos.of_system.parameters
    host.check_opening({**config.values(), **protos.files.restored(parameters)}, environ)
    LEFTOVERS.check(parameters)
    check_backend(backend, job, parameters)
    return Prepared(backend, job, protos)


def device_check(asked: str) -> Callable[[int], None]:
    """A function that raises DeviceError for a logical id of which there is no device.

    It asks the open system of this process, else the backend that one would open; starts nothing.

    Args:
        asked: The backend that was asked for.
    """
    from ascend_session.session.registry import current_system

    system = current_system()
    if system is not None:
        return system.check_device
    backend = create(choose(asked, os.environ), os.environ)
    job = backend.job(os.environ)
    return lambda device_id: backend.require(job, {"session_device_id": device_id})


def check_backend(backend: Backend, job: Job, parameters: Dict[str, Any]) -> None:
    """Refuses what the backend cannot do; warns of what is not as it seems on it."""
    backend.require(job, parameters)
    for remark in backend.remarks(parameters):
        warn(remark)


def try_first(prepared: Prepared, patience: Patience, events: EventLog) -> None:
    """Waits for the device, and tries it in another process, where that was asked for.

    Raises:
        DeviceTimeoutError: If the device is still held when the patience ends.
        InitializationError: If the attempts in other processes all failed.
    """
    backend, job, protos = prepared
    if patience.seconds:
        backend.await_device(job, protos.of_system.parameters, patience.seconds)
        events.record("wait for device")
    if patience.policy is not None:
        backend.probe(job, protos.of_system.proto, patience.policy)
        events.record("probe")
