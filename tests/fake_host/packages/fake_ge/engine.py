"""GE in a process: up once, down for everyone.

Source: guides/facts/process.md#life-of-ge-in-a-process; ge_plugin.cc.
"""

import threading
import time
from typing import Any, Dict, List, Optional

from fake_ge import destructor, log, nodes
from fake_ge.environment import (
    Collectives,
    collectives,
    data_transfer_skipped,
    own_device,
    task_type,
    warn_without_device,
    warn_without_job,
)
from fake_ge.fatal import abort, internal_error
from fake_ge.faults import fault
from fake_ge.journal import note
from fake_ge.links import Links
from fake_ge.messages import nested, said
from fake_ge.ranks import Place, RankTableError, place

__all__ = ["ENGINE", "Engine"]

_SOURCE = "tf_adapter/util/ge_plugin.cc"
_FAILED = "[GePlugin] Initialize ge failed, ret : 4294967295"
_NOT_FINALISED = "[GePlugin] GE finalize failed, ret : 4294967295"


class Engine:
    """The one GE of this process.

    Attributes:
        up: Whether it counts as initialised; a failed asynchronous initialisation does, too.
        failure: What an asynchronous initialisation failed with.
        is_global: Whether ``npu_resource_init`` started it.
        age: How often it was initialised; what belongs to an earlier age is dead.
        device: This process's own logical device.
        options: What it was initialised with last, by the vendor's keys.
        place: This process's rank, with collectives.
        groups: The groups that were made, with their world ranks; they go with GE.
        links: What this process sends to other ranks and gets; from its first collective on.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.up = False
        self.failure: Optional[str] = None
        self.is_global = False
        self.age = 0
        self.device = 0
        self.options: Dict[str, Any] = {}
        self.place: Optional[Place] = None
        self.groups: Dict[str, List[int]] = {}
        self.links: Optional[Links] = None
        self._collectives_on = False

    def initialise(
        self, options: Dict[str, Any], is_global: bool = False, is_async: bool = False
    ) -> None:
        """GePlugin::Init: the data-transfer host, the parser, then GE.

        Raises:
            InternalError: With the fault ``no-reinit``.
        """
        with self.lock:
            destructor.register()
            # guides/facts/process.md#life-of-ge-in-a-process: NPUInit while GE is up;
            # guides/facts/launch.md#collectives-that-are-switched-off: a task of type ps
            if self.up or task_type() == "ps":
                return
            if self.age and fault("no-reinit") is not None:
                raise internal_error(said(_FAILED, nested("E19999", "GE came up once already")))
            self.device, self.options = own_device(), options
            warn_without_job()
            self._start_servants()
            failure = self._start(options, is_async)
            if failure and not is_async:
                # guides/facts/process.md#a-failed-initialisation
                abort(said(_FAILED, failure), f"{_SOURCE}:365")
            # guides/facts/process.md#a-failed-initialisation: in the background only
            # GEInitialize's own failure is told later, by the first run that wants a GE session
            self.up, self.failure, self.is_global = True, failure, is_global
            self.age += 1
            destructor.will_call(*self._finalising(), *_data_transfer())

    def finalise(self, with_data_transfer: bool = True) -> None:
        """GePlugin::Finalize; nothing if GE is down.

        Args:
            with_data_transfer: Whether the data-transfer host goes, too.
        """
        with self.lock:
            if self.up:
                self.up = False
                self.place = None
                self.groups.clear()
                self.unlink()
                # guides/facts/process.md#life-of-ge-in-a-process: the parser, then TDT
                left = _data_transfer()
                for call in [*self._finalising(), *(left if with_data_transfer else [])]:
                    note(call)
                code = fault("finalize", "EE9999")
                if code is not None and not self.failure:
                    # guides/facts/process.md#the-end-of-a-process: it only logs that
                    log.write("E", said(_NOT_FINALISED, nested(code)), _SOURCE)
                destructor.will_call(*([] if with_data_transfer else left))
                nodes.release()

    def end(self) -> None:
        """NpuClose: what the exit handler does."""
        # guides/facts/process.md#the-end-of-a-process
        note("exit handler")
        self.finalise(with_data_transfer=False)  # ge_plugin.cc, NpuClose
        warn_without_device()

    def linked(self) -> Links:
        """The links of a rank of several, made when they are needed first."""
        with self.lock:
            assert self.place is not None
            if self.links is None:
                self.links = Links(self.place.addresses[self.place.rank])
            return self.links

    def unlink(self) -> None:
        """Closes them."""
        if self.links is not None:
            self.links.close()
            self.links = None

    def unload(self) -> None:
        """Leave the process as if the library had never been loaded."""
        self.unlink()
        destructor.unload()

    def _finalising(self) -> List[str]:
        """What ends GE and the parser, without calls that have no effect."""
        return ["ParserFinalize"] if self.failure else ["GEFinalize", "ParserFinalize"]

    def _start_servants(self) -> None:
        # ge_plugin.cc, Init: TDT first, then the parser, then GE
        if not data_transfer_skipped():
            code = fault("tdt", "4")
            if code is not None:
                # guides/facts/process.md#a-failed-initialisation: TDT aborts either way
                message = f"[GePlugin] Tdt host init failed, tdt error code : {code}"
                abort(message, f"{_SOURCE}:327")
            note("TdtOutFeedInit", device=self.device)
        code = fault("parser", "4294967295")
        if code is not None:
            abort(f"[GePlugin] Initialize parser failed, ret : {code}", f"{_SOURCE}:341")
        note("ParserInitialize")

    def _start(self, options: Dict[str, Any], is_async: bool) -> Optional[str]:
        """GEInitialize; returns what it failed with."""
        found = collectives()
        # ge_plugin.cc: is_use_hcom is set, never reset
        self._collectives_on = self._collectives_on or found.on
        # guides/facts/launch.md#collectives-that-are-switched-off: an evaluator
        on = self._collectives_on and task_type() != "evaluator"
        failure = self._failure(options, found, on)
        note(
            "GEInitialize",
            options=options,
            environment=found.options,
            hcom=on,
            device=self.device,
            sync=not is_async,
            failed=failure is not None,
        )
        if failure is None and fault("orphan") is not None:
            nodes.leave_orphan()
        return failure

    def _failure(self, options: Dict[str, Any], found: Collectives, on: bool) -> Optional[str]:
        seconds = fault("hang", "3600")
        if seconds is not None:
            note("hang")
            time.sleep(float(seconds))
        code = fault("init", "EJ0001")
        if code is not None:
            return nested(code)
        # guides/facts/process.md#values-that-stay-in-the-process: both can meet, of two sessions
        if options.get("precision_mode") and options.get("precision_mode_v2"):
            return nested("E10056")
        try:
            nodes.hold(self.device, alone=on)
            self.place = place(found, self.device) if on else None
        except (nodes.NodeError, RankTableError) as error:
            nodes.release()
            return str(error)
        return None


def _data_transfer() -> List[str]:
    return [] if data_transfer_skipped() else ["TdtOutFeedDestroy"]


ENGINE = Engine()
