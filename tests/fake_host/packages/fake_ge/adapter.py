"""What the loaded adapter does in TensorFlow's sessions.

Source: guides/facts/adapter.md#reading-the-entry,
guides/facts/process.md#life-of-ge-in-a-process; kernels/npu_sys_ctl_ops.cc, kernels/geop_npu.cc.
"""

import weakref
from typing import (
    Any,
    ContextManager,
    Dict,
    FrozenSet,
    List,
    NamedTuple,
    Optional,
    Set,
    Tuple,
)

from fake_ge import nodes, outputs
from fake_ge.engine import ENGINE
from fake_ge.entry import Entry, entries, init_options, stick
from fake_ge.fatal import error_of, internal_error
from fake_ge.faults import fault
from fake_ge.graphs import Output, op_type, pruned, vendor_type
from fake_ge.journal import note
from fake_ge.loops import ITERATION_OP, shared, times
from fake_ge.messages import nested, said
from fake_ge.operators import supported
from fake_ge.parts import folds_constants, obstacle, reports
from fake_ge.turns import Site, running, sites_of

__all__ = ["Session", "Work"]


class Work(NamedTuple):
    """What a run of one signature is.

    Attributes:
        init: The names of its NPUInit operators.
        shutdown: Whether it has an NPUShutdown operator.
        offloaded: The operators (type, name) that run on the device; none: all on the CPU.
        collective: The first collective operator's name.
        sites: Its collectives, in the order in which they are numbered.
        iterates: Whether GE runs it as often as the session's counter says.
        shared: What the host feeds, which is the same for all iterations.
        reports: Which of the fetches tell what is not initialised.
        obstacle: Name and message of the error that an offloaded run raises.
    """

    init: Tuple[str, ...]
    shutdown: bool
    offloaded: Tuple[Tuple[str, str], ...]
    collective: Optional[str]
    sites: Tuple[Site, ...] = ()
    iterates: bool = False
    shared: Tuple[Output, ...] = ()
    reports: Tuple[int, ...] = ()
    obstacle: Optional[Tuple[str, str]] = None


class _GeSession(NamedTuple):
    age: int
    device: int


class _Kernels:
    """How many NPUInit kernels there are, and which tf sessions have a GE session."""

    def __init__(self) -> None:
        self.init = 0
        self.sessions: Set[str] = set()
        self.named = 0


KERNELS = _Kernels()


class Session:
    """One ``tf.Session`` as the adapter sees it."""

    def __init__(self, owner: Any, proto: Any) -> None:
        KERNELS.named += 1
        self.name = f"direct{KERNELS.named}"
        self._owner = weakref.ref(owner)
        self._entries = entries(proto)
        self._folds = folds_constants(proto)
        self._works: Dict[Any, Work] = {}
        self._steps: Dict[Work, int] = {}
        self._init_kernels: Set[str] = set()
        self._ge: Optional[_GeSession] = None
        self._has_ge_op = False

    def prepare(
        self, feeds: FrozenSet[Output], fetches: Tuple[Output, ...], targets: Tuple[str, ...]
    ) -> Work:
        """Makes the executor of a signature: reads the options, splits the graph, makes kernels."""
        signature = (feeds, fetches, targets)
        with ENGINE.lock:
            if signature not in self._works:
                self._works[signature] = self._plan(feeds, fetches, targets)
            return self._works[signature]

    def run(self, work: Work) -> None:
        """Does what the kernels of the vendor do in a run; TensorFlow computes the values."""
        for name in work.init:
            self._initialise(name)
        if work.offloaded:
            self._offload(work)
        elif work.collective:
            # guides/facts/process.md#collectives-in-a-graph
            raise internal_error(f"Missing 0-th output from {{{{node {work.collective}}}}}")
        elif not work.init and not work.shutdown:
            note("Run", session=self.name, offloaded=False, device=None)
        if work.shutdown:
            _shut_down()

    def shared(self, work: Work) -> Dict[Output, Any]:
        """What the host feeds to all iterations, with the outputs that TensorFlow's code knows."""
        owner = self._owner()
        assert owner is not None
        name = "{}:{}".format
        return {
            one: owner.graph.get_tensor_by_name(name(*one))._as_tf_output() for one in work.shared
        }

    def times(self, real: Any, handle: Any, work: Work) -> int:
        """How often a run computes the values."""
        owner = self._owner()
        loops = work.iterates and work.offloaded and owner is not None
        return times(real, handle, owner.graph) if loops and owner is not None else 1

    def computing(self, work: Work) -> ContextManager[None]:
        """What the block runs in which TensorFlow computes the values: its collectives."""
        owner = self._owner()
        return running(None if owner is None else owner.graph, work.sites)

    def destroy(self) -> None:
        """What the end of the session's kernels does; twice does nothing."""
        with ENGINE.lock:
            if self._has_ge_op:
                self._has_ge_op = False
                if self._ge is not None:
                    KERNELS.sessions.discard(self.name)
                    note("GESessionDestroy", session=self.name)
                # guides/facts/process.md#life-of-ge-in-a-process: the last GE session
                if not KERNELS.sessions and not ENGINE.is_global:
                    ENGINE.finalise()
            for _ in range(len(self._init_kernels)):
                # guides/facts/process.md#life-of-ge-in-a-process: the last NPUInit
                KERNELS.init = max(0, KERNELS.init - 1)
                if KERNELS.init == 0 and not ENGINE.is_global:
                    ENGINE.finalise()
            self._init_kernels.clear()

    @property
    def _entry(self) -> Entry:
        # npu_sys_ctl_ops.cc, NPUInit: without the attribute "use default init options"
        return self._entries[-1] if self._entries else Entry({})

    def _plan(
        self, feeds: FrozenSet[Output], fetches: Tuple[Output, ...], targets: Tuple[str, ...]
    ) -> Work:
        # guides/facts/adapter.md#reading-the-entry: by the first run of each combination of
        # feeds and fetches
        owner = self._owner()
        assert owner is not None
        known = supported()
        # Options that end a run are taken here: recorded answers of the vendor's own code judge
        # them (tests/compat/test_ge_cases.py, tests/compat/test_verdicts.py).
        if known:
            for entry in self._entries:
                stick(entry)
        needed = pruned(owner.graph, feeds, fetches, targets)
        system = [(vendor_type(o), o.name) for o in needed if vendor_type(o)]
        sites = sites_of(owner.graph, needed)
        init = tuple(name for kind, name in system if kind == "NPUInit")
        # npu_sys_ctl_ops.cc: the kernel counts itself when it is made, once a session
        KERNELS.init += len(set(init) - self._init_kernels)
        self._init_kernels.update(init)
        offloaded = self._offloaded(needed, known)
        has_one_part = bool(offloaded) and not self._entry.get("mix_compile_mode")
        return Work(
            init=init,
            shutdown=any(kind == "NPUShutdown" for kind, _ in system),
            offloaded=offloaded,
            collective=next((name for kind, name in system if kind.startswith("Hcom")), None),
            sites=tuple(site for _, site in sites),
            iterates=any(one.name == ITERATION_OP for one in needed),
            shared=shared(needed, bool(self._entry.get("enable_data_pre_proc"))),
            reports=reports(owner.graph, fetches) if has_one_part else (),
            obstacle=obstacle(needed, has_one_part, self._folds) if offloaded else None,
        )

    def _offloaded(self, needed: List[Any], known: FrozenSet[str]) -> Tuple[Tuple[str, str], ...]:
        # guides/facts/adapter.md#graphs-that-stay-on-the-cpu: by use_off_line or job
        entry = self._entry
        on_host = not entry.get("use_off_line") or entry.get("job") in ("ps", "default")
        if not self._entries or on_host or fault("no-offload") is not None:
            return ()
        return tuple((op_type(o), o.name) for o in needed if op_type(o) in known)

    def _initialise(self, name: str) -> None:
        code = fault("init-raises", "EJ0001")
        if code is not None:
            raise internal_error(said(f"{name}: [GePlugin] Initialize ge failed", nested(code)))
        note("NPUInit", session=self.name)
        # npu_sys_ctl_ops.cc, Compute: "GePlugin global, skip GePlugin init"
        if not ENGINE.is_global:
            ENGINE.initialise(init_options(self._entry))

    def _offload(self, work: Work) -> None:
        # geop_npu.cc, Initialize: GE comes up with the kernel, before a run is refused
        with ENGINE.lock:
            self._has_ge_op = True
            if self._ge is None:
                self._bring_up()
        with ENGINE.lock:
            device = self._ge_session().device
            note("Run", session=self.name, offloaded=True, device=device)
            step = self._steps.get(work, 0)
            self._steps[work] = step + 1
        if work.obstacle is not None:
            raise error_of(*work.obstacle)
        code = fault("run", "EZ9999")
        if code is not None:
            raise internal_error(said("GeOp1_0GEOP::::DoRunAsync Failed", nested(code)))
        outputs.write(self._entry, work.offloaded, step, device)

    def _ge_session(self) -> _GeSession:
        if self._ge is None:
            self._ge = self._new_ge_session()
        # guides/facts/process.md#life-of-ge-in-a-process: after NPUShutdown, or once the session
        # that ran NPUInit is closed
        if not ENGINE.up or self._ge.age != ENGINE.age:
            text = "[GEOP] call ge session RunGraphAsync Failed, kernel:GeOp1_0, tf session: "
            raise internal_error(said(text + self.name, nested("E19999", "GE is not initialized")))
        return self._ge

    def _bring_up(self) -> None:
        # geop_npu.cc, Initialize: "GePlugin global, skip GePlugin init"; "aoe should not init ge
        # async"
        if not ENGINE.is_global:
            asynchronous = not self._entry.get("aoe_mode")
            ENGINE.initialise(init_options(self._entry), is_async=asynchronous)

    def _new_ge_session(self) -> _GeSession:
        entry = self._entry
        if ENGINE.failure is not None and ENGINE.up:
            # guides/facts/process.md#a-failed-initialisation: in the background
            text = "[GePlugin] Initialize ge failed, ret : 4294967295"
            raise internal_error(said(text, ENGINE.failure))
        if not ENGINE.up:
            raise internal_error("Get ge session failed.")
        # guides/facts/process.md#the-device-of-a-process: only the GE session gets it
        asked = entry.get("session_device_id")
        ignored = asked is None or fault("same-device") is not None
        device = ENGINE.device if ignored else int(asked)
        try:
            nodes.hold(device)
        except nodes.NodeError as error:
            raise internal_error(said("Get ge session failed.", str(error))) from None
        KERNELS.sessions.add(self.name)
        note("GESession", session=self.name, options=entry.scoped("session"), device=device)
        return _GeSession(ENGINE.age, device)


def _shut_down() -> None:
    code = fault("shutdown", "E19999")
    if code is not None:
        raise internal_error(said("NPUShutdown failed", nested(code)))
    note("NPUShutdown")
    with ENGINE.lock:
        KERNELS.init = 0
        # npu_sys_ctl_ops.cc, NPUShutdown: "GePlugin global, skip GePlugin Finalize"
        if not ENGINE.is_global:
            ENGINE.finalise()
