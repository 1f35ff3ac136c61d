"""How the fake gets into TensorFlow: it stands in for the C functions that sessions call.

The real library hooks TensorFlow's graph passes. The fake replaces the module global
``tf_session`` of ``tensorflow.python.client.session`` by an object that forwards everything and
looks at a few functions. No class that Python code can see is changed.
"""

import contextlib
import sys
from typing import Any, Dict, FrozenSet, List, Set, Tuple

from fake_ge import loops, outputs, results
from fake_ge.adapter import Session, Work
from fake_ge.environment import collectives
from fake_ge.fatal import internal_error
from fake_ge.faults import fault
from fake_ge.graphs import Output
from fake_ge.messages import nested, said

__all__ = ["Proxy", "install", "uninstall"]

_THREADS = 64

Signature = Tuple[FrozenSet[Output], Tuple[Output, ...], Tuple[str, ...]]


class Proxy:
    """Stands for the module with TensorFlow's C functions for sessions."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self._protos: Dict[int, Any] = {}
        self._sessions: Dict[int, Session] = {}
        self._callables: Dict[Tuple[int, Any], Tuple[Signature, bool]] = {}
        self._partial: Dict[Tuple[int, Any], Work] = {}
        self._begun: Set[Tuple[int, Any]] = set()
        self._metadata: Dict[int, Work] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def TF_NewSessionOptions(self, target: Any = None, config: Any = None) -> Any:  # noqa: N802
        options = self._real.TF_NewSessionOptions(target=target, config=_with_threads(config))
        self._protos[id(options)] = config
        return options

    def TF_DeleteSessionOptions(self, options: Any) -> None:  # noqa: N802
        self._protos.pop(id(options), None)
        self._real.TF_DeleteSessionOptions(options)

    def TF_NewSessionRef(self, graph: Any, options: Any) -> Any:  # noqa: N802
        handle = self._real.TF_NewSessionRef(graph, options)
        # guides/facts/adapter.md#reading-the-entry: tf.Session checks nothing
        owner = sys._getframe(1).f_locals["self"]
        self._sessions[id(handle)] = Session(owner, self._protos.get(id(options)))
        return handle

    def TF_CloseSession(self, session: Any) -> None:  # noqa: N802
        self._real.TF_CloseSession(session)
        known = self._sessions.get(id(session))
        if known is None:
            return
        if fault("early-destroy") is not None:
            known.destroy()
        if fault("close") is not None:
            raise internal_error(said("closing failed", nested("E19999")))

    def TF_DeleteSession(self, session: Any) -> None:  # noqa: N802
        # TensorFlow: close() ends a session; its kernels go with the object, DirectSession
        known = self._sessions.pop(id(session), None)
        self._real.TF_DeleteSession(session)
        if known is not None:
            known.destroy()

    def TF_SessionRun_wrapper(  # noqa: N802
        self, session: Any, options: Any, feeds: Any, fetches: Any, targets: Any, metadata: Any
    ) -> Any:
        known = self._known(session)
        work = known.prepare(*self._signature(feeds, fetches, targets))
        known.run(work)

        def compute(more: Dict[Any, Any], wanted: List[Any], is_last: bool) -> List[Any]:
            filled = metadata if is_last else None
            with outputs.computed_on_the_device(work.offloaded), known.computing(work):
                fed = {**results.fed(feeds), **more}
                values: List[Any] = self._real.TF_SessionRun_wrapper(
                    session, options, fed, wanted, targets, filled
                )
                return values

        count = known.times(self._real, session, work)
        fetched = loops.run(compute, count, fetches, known.shared(work), self._output)
        fetched = results.without_reports(fetched, work.reports)
        if metadata is not None and work.offloaded and self._wants_graphs(options):
            self._metadata[id(metadata)] = work
        return results.returned(fetched, work.offloaded)

    def TF_GetBuffer(self, buffer: Any) -> Any:  # noqa: N802
        work = self._metadata.pop(id(buffer), None)
        data = self._real.TF_GetBuffer(buffer)
        return data if work is None else outputs.with_ge_op(data, work.offloaded)

    def TF_SessionPRunSetup_wrapper(  # noqa: N802
        self, session: Any, feeds: Any, fetches: Any, targets: Any
    ) -> Any:
        work = self._known(session).prepare(*self._signature(feeds, fetches, targets))
        handle = self._real.TF_SessionPRunSetup_wrapper(session, feeds, fetches, targets)
        self._partial[id(session), handle] = work
        return handle

    def TF_SessionPRun_wrapper(  # noqa: N802
        self, session: Any, handle: Any, feeds: Any, fetches: Any
    ) -> Any:
        work = self._partial.get((id(session), handle))
        # TensorFlow, direct_session.cc, PRunSetup: the kernels run once for each set-up.
        if work is not None and (id(session), handle) not in self._begun:
            self._begun.add((id(session), handle))
            self._known(session).run(work)
        fed = results.fed(feeds)
        with contextlib.ExitStack() as stack:
            if work is not None:
                stack.enter_context(outputs.computed_on_the_device(work.offloaded))
                stack.enter_context(self._known(session).computing(work))
            fetched = self._real.TF_SessionPRun_wrapper(session, handle, fed, fetches)
        return results.returned(fetched, work.offloaded if work else ())

    def TF_SessionMakeCallable(self, session: Any, options: Any, *more: Any) -> Any:  # noqa: N802
        from tensorflow.core.protobuf import config_pb2

        asked = config_pb2.CallableOptions.FromString(self._real.TF_GetBuffer(options))
        signature = (
            frozenset(_output(name) for name in asked.feed),
            tuple(_output(name) for name in asked.fetch),
            tuple(name.lstrip("^") for name in asked.target),
        )
        # TensorFlow, direct_session.cc, MakeCallable: the executor is made now, so the options are
        # read now.
        self._known(session).prepare(*signature)
        handle = self._real.TF_SessionMakeCallable(session, options, *more)
        wants = asked.run_options.output_partition_graphs
        self._callables[id(session), handle] = (signature, wants)
        return handle

    def TF_SessionRunCallable(  # noqa: N802
        self, session: Any, handle: Any, args: Any, metadata: Any
    ) -> Any:
        made = self._callables.get((id(session), handle))
        if made is None:  # before the import
            return self._real.TF_SessionRunCallable(session, handle, args, metadata)
        signature, wants = made
        known = self._sessions[id(session)]
        work = known.prepare(*signature)
        known.run(work)
        with outputs.computed_on_the_device(work.offloaded), known.computing(work):
            fetched = self._real.TF_SessionRunCallable(session, handle, args, metadata)
        if metadata is not None and work.offloaded and wants:
            self._metadata[id(metadata)] = work
        return results.returned(fetched, work.offloaded)

    def _known(self, handle: Any) -> Session:
        """The session with this handle; one that was opened before the import gets known now."""
        if id(handle) not in self._sessions:
            frame: Any = sys._getframe(1)
            while getattr(frame.f_locals.get("self"), "_session", None) is not handle:
                frame = frame.f_back
            owner = frame.f_locals["self"]
            self._sessions[id(handle)] = Session(owner, owner._config)
        return self._sessions[id(handle)]

    def _signature(self, feeds: Any, fetches: Any, targets: Any) -> Signature:
        return (
            frozenset(self._output(one) for one in feeds),
            tuple(self._output(one) for one in fetches),
            tuple(self._real.TF_OperationName(one) for one in targets),
        )

    def _output(self, output: Any) -> Output:
        return (self._real.TF_OperationName(output.oper), output.index)

    def _wants_graphs(self, options: Any) -> bool:
        from tensorflow.core.protobuf import config_pb2

        if options is None:
            return False
        asked = config_pb2.RunOptions.FromString(self._real.TF_GetBuffer(options))
        return bool(asked.output_partition_graphs)


def install() -> None:
    """Puts the proxy into TensorFlow; twice does nothing."""
    from tensorflow.python.client import session

    if not isinstance(session.tf_session, Proxy):
        session.tf_session = Proxy(session.tf_session)


def uninstall() -> None:
    """Takes it out again."""
    session = sys.modules.get("tensorflow.python.client.session")
    real = getattr(getattr(session, "tf_session", None), "_real", None)
    if session is not None and real is not None:
        session.tf_session = real


def _with_threads(config: Any) -> Any:
    """The proto for TensorFlow: in a job a thread waits here for each collective that is ready."""
    if not collectives().on:
        return config
    from tensorflow.core.protobuf import config_pb2

    copy = config_pb2.ConfigProto()
    if config is not None:
        copy.CopyFrom(config)
    if not copy.session_inter_op_thread_pool:
        copy.session_inter_op_thread_pool.add(num_threads=_THREADS, global_name="fake_ge")
    return copy


def _output(name: str) -> Output:
    operation, _, index = name.partition(":")
    return (operation, int(index or 0))
