"""The sessions of an unchanged script without a device: each is checked before it is made.

It does not matter what makes it for the script (`backends.tf_sessions`). (The adapter reads the
options in the first run, and may end the process there.)
"""

import functools
import os
import sys
import warnings
from typing import Any, Callable, List, Mapping, Sequence

from ascend_session.backends import outside
from ascend_session.backends._tensorflow import tf1
from ascend_session.backends.exchange.models import Advice
from ascend_session.backends.exchange.outcome import set_advice
from ascend_session.backends.stub import without_effect
from ascend_session.backends.tf_sessions import SessionObserver, add_observer, is_opening_by_api
from ascend_session.compat.finder import STRICT_VARIABLE, RunRequest
from ascend_session.compat.run_end import watch_end, watch_end_in_fork, watch_signals
from ascend_session.compat.script_run import ReportState, ScriptRun, script_run
from ascend_session.compat.sessions import IN_FORCE
from ascend_session.compat.typed_config import print_config
from ascend_session.compat.verdicts import EntryVerdict, describe_host_operators, judge_entry
from ascend_session.errors import AscendConfigWarning, ConfigError, flush_stderr
from ascend_session.session.conditions import refuse_one_shot
from ascend_session.user_code import UserLine, user_line

_ADVICE = Advice(
    broadcast="the hook NPUBroadcastGlobalVariablesHook(0), for Keras the callback "
    "NPUBroadcastGlobalVariablesCallback(0), or npu_hook.broadcast_global_variables(0) after the "
    "variables' initialisers",
    average="npu_tf_optimizer(optimizer), for Keras npu_keras_optimizer(optimizer)",
)


def begin(request: RunRequest, unread: Sequence[UserLine]) -> None:
    """Look after the sessions of a script from now on, and report on them; imports TensorFlow.

    Args:
        request: What is asked of the run.
        unread: Lines that have opened a session with an entry before.
    """
    outside.watch_sessions()  # first: what is set from outside is checked like the script's own
    run = script_run()
    run.request, run.unread = request, unread
    watch_end(run)
    if not request.is_child:
        watch_signals(run)
    add_observer(OnStub())
    set_advice(_ADVICE)
    _watch_eager_gradients()


class OnStub(SessionObserver):
    """Checks each session of the script, and opens those on the stub that a device would run."""

    def open(
        self, create: Callable[..., None], session: Any, target: Any, graph: Any, config: Any
    ) -> None:
        """Check a session of the script, and make it.

        Raises:
            ConfigError: With all findings that end the run on a device.
            AscendError: If the system cannot be opened, or has no such device.
        """
        run = script_run()
        if is_opening_by_api():
            run.has_api_sessions = True
            create(session, target, graph, config)
            return
        if run.request.is_child and run.report_state is ReportState.NONE:
            watch_end_in_fork(run)
        line = _find_line()
        proto = config if hasattr(config, "graph_options") else None
        verdict = judge_entry(proto, os.environ)
        run.log.check_initialised(verdict)
        print_config(proto, verdict, line, run.printed)
        replaced = outside.take_replaced(session)
        verdict.notes += [replaced] if replaced else []
        refused = list(verdict.refused)
        if os.environ.get(STRICT_VARIABLE, "") not in ("", "0"):
            refused += [*verdict.ignored, *verdict.late]
        if refused:
            run.add_session(session, line, verdict, is_refused=True)
            raise ConfigError.from_problems(
                refused, f"the options of the session that is opened at {line}"
            )
        if verdict.is_offloaded:
            _warn_of_stub(verdict, line)
            graph = graph or tf1().get_default_graph()
            endings = describe_host_operators(verdict.values, graph)
            if endings:
                verdict.graph["refused"] = endings
            target = target or _open_target(run, verdict.values, graph)
        create(session, target, graph, config)
        run.add_session(session, line, verdict)

    def before_run(self, session: Any, list_operations: Callable[[], List[Any]]) -> None:
        """Note that the session is of use."""
        script_run().log.note_any_run(session)


def _find_line() -> UserLine:
    """Find the line of the script; its first one in a thread of a library."""
    return user_line(sys._getframe()) or UserLine(sys.argv[0], 1)


def _warn_of_stub(verdict: EntryVerdict, line: UserLine) -> None:
    """Warn of options that have an effect on a device, but none on the stub; note them."""
    verdict.stub_effects = without_effect(verdict.values)
    too_late = {finding.message.partition("=")[0] for finding in verdict.late}
    for key, message in verdict.stub_effects.items():
        if key not in too_late:
            warnings.warn_explicit(message, AscendConfigWarning, line.file, line.number)
    flush_stderr()


def _open_target(run: ScriptRun, values: Mapping[str, Any], graph: Any) -> str:
    kept = {key: values[key] for key in IN_FORCE if key in values}
    opened = run.system(kept)
    if "session_device_id" in kept:
        opened.check_device(kept["session_device_id"])
    loops = values.get("iterations_per_loop", 1)
    if loops > 1:
        refuse_one_shot(graph, loops)
    return opened.target


@functools.lru_cache(maxsize=None)
def _watch_eager_gradients() -> None:
    """Note where the script computes gradients without a graph, in or out of a ``tf.function``.

    All ways lead through one function of TensorFlow's: GradientTape, and Keras' optimizers with it.
    """
    from tensorflow.python.eager import imperative_grad
    from tensorflow.python.framework import ops

    compute = imperative_grad.imperative_grad

    @functools.wraps(compute)
    def note(*args: Any, **kwargs: Any) -> Any:
        run = script_run()
        if run.eager_training is None and ops.executing_eagerly_outside_functions():
            run.eager_training = _find_line()
        return compute(*args, **kwargs)

    imperative_grad.imperative_grad = note
