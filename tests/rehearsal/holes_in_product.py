"""Faults of the product itself, which its contract has to find: planted like other holes.

Each changes what somebody sees, an answer or an event or an entry, and raises nothing by itself.
"""

from typing import Any, Callable, List

import tensorflow.compat.v1 as tf

from ascend_session import backends
from ascend_session.backends import npu
from ascend_session.backends._tensorflow import graph_or_default
from ascend_session.backends.npu_job import Devices
from ascend_session.session import api, options
from ascend_session.session import system as systems
from ascend_session.session.system import AscendSystem, Use
from tests.fake_host import FakeHost
from tests.rehearsal.holes import hole

__all__: List[str] = []


# What is said of the system


@hole
def a_capability_is_lost(host: FakeHost) -> None:
    features = list(npu.NpuBackend.capabilities)[:-1]
    npu.NpuBackend.capabilities = dict.fromkeys(features, True)


@hole
def the_reason_for_the_backend_is_lost(host: FakeHost) -> None:
    choose = backends.choose
    backends.choose = lambda *asked: choose(*asked)._replace(reason="")


# What is done, and in which order


@hole
def the_shutdown_comes_first(host: FakeHost) -> None:
    shut_down, close = AscendSystem._shut_down_device, Use.close

    def closed(self: Any, *failure: Any) -> None:
        if not any(event.name == "shutdown" for event in self.system.events):
            shut_down(self.system)
        close(self, *failure)

    Use.close = closed
    AscendSystem._shut_down_device = lambda self: None


@hole
def the_device_is_not_brought_up_for_a_session(host: FakeHost) -> None:
    record = AscendSystem._record
    npu.NpuBackend.bring_up = lambda self: None
    AscendSystem._record = lambda self, name, *detail: (
        None if name == "bring up" else record(self, name, *detail)
    )


@hole
def nothing_is_tried_first(host: FakeHost) -> None:
    opened = AscendSystem.open
    AscendSystem.open = lambda self, backend, wait_s, probe: opened(self, backend, 0, None)


@hole
def nobody_is_waited_for(host: FakeHost) -> None:
    npu.NpuBackend.await_device = lambda *asked: None


@hole
def devices_are_not_checked(host: FakeHost) -> None:
    Devices.check = lambda *asked: None


@hole
def a_closed_system_stays_the_current_one(host: FakeHost) -> None:
    systems._make_way = lambda system: None


@hole
def errors_come_out_as_others(host: FakeHost) -> None:
    leave = api._Block._leave

    def disguised(block: Any, failure: Any) -> Any:
        leave(block, failure)
        if isinstance(failure[1], Exception):
            raise RuntimeError(str(failure[1]))

    api._Block._leave = disguised


# What a session is and has


@hole
def a_stray_operator_is_added(host: FakeHost) -> None:
    opened = Use.open_session

    def with_stray(self: Any, config: Any, graph: Any, *more: Any) -> Any:
        with graph_or_default(graph).as_default():
            tf.no_op(name="stray")
        return opened(self, config, graph, *more)

    Use.open_session = with_stray


@hole
def run_is_wrapped(host: FakeHost) -> None:
    def wrap(session: Any) -> None:
        run = session.run
        session.run = lambda *asked, **named: run(*asked, **named)

    _change_sessions(wrap)


@hole
def another_session_is_the_default(host: FakeHost) -> None:
    opened, close = Use.open_session, Use.close

    def open_session(self: Any, *asked: Any) -> Any:
        session = opened(self, *asked[:-1], False)
        self.other = tf.Session(graph=session.graph)
        self.other.__enter__()
        return session

    def closed(self: Any, *failure: Any) -> None:
        if self.session is not None:
            self.other.__exit__(None, None, None)
            self.other.close()
        close(self, *failure)

    Use.open_session, Use.close = open_session, closed


@hole
def an_entry_gains_a_key(host: FakeHost) -> None:
    def gain(options: Any) -> None:
        options["hccl_timeout"].i = 544  # a multiple of 68, so that nothing warns of it

    _change_entries(gain)


@hole
def an_entry_loses_its_device(host: FakeHost) -> None:
    _change_entries(lambda options: options.pop("session_device_id", None))


@hole
def the_callers_proto_is_changed(host: FakeHost) -> None:
    made = options.build_proto

    def changing(config: Any, base: Any, *more: Any) -> Any:
        if base is not None:
            base.log_device_placement = True
        return made(config, base, *more)

    options.build_proto = changing


@hole
def a_later_system_has_the_options_of_the_first(host: FakeHost) -> None:
    init = AscendSystem.__init__
    first: List[Any] = []

    def kept(self: Any, config: Any, base: Any) -> None:
        first.append(config)
        init(self, first[0], base)

    AscendSystem.__init__ = kept


def _change_sessions(change: Callable[[Any], Any]) -> None:
    """Has each session of the device changed before anybody gets it."""
    make = npu.NpuBackend.session

    def made(self: Any, graph: Any, proto: Any) -> Any:
        session = make(self, graph, proto)
        change(session)
        return session

    npu.NpuBackend.session = made


def _change_entries(change: Callable[[Any], Any]) -> None:
    """Has each session of the device made with a changed NpuOptimizer entry."""
    make = npu.NpuBackend.session

    def made(self: Any, graph: Any, proto: Any) -> Any:
        copy = type(proto).FromString(proto.SerializeToString())
        (entry,) = copy.graph_options.rewrite_options.custom_optimizers
        change(entry.parameter_map)
        return make(self, graph, copy)

    npu.NpuBackend.session = made
