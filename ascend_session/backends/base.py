"""The interface of a backend: facts about it, its initialise and shutdown ops, and its sessions.

The two ops have their own graph and run in their own session, the *system session*. It stays open
as long as the system, because closing the session that ran the initialisation takes the device down
for the whole process (guides/facts/process.md#life-of-ge-in-a-process).

A backend is one module with one class. The launcher reads the facts from the class, so the module
must not import TensorFlow or other slow modules at its top.
"""

import abc
import threading
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Dict,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

from ascend_session.backends._tensorflow import destroy, disown, tf1
from ascend_session.cluster.job import Job
from ascend_session.errors import LifecycleError, UnsupportedError
from ascend_session.ids import PhysicalDeviceId

if TYPE_CHECKING:
    from ascend_session.backends.collectives import Groups
    from ascend_session.config.ascend_config import AscendConfig
    from ascend_session.failures.failure import RetryPolicy

# The keys of `Backend.capabilities`.
FEATURES = (
    "graph execution",
    "option checks",
    "offload",
    "precision modes",
    "data dump",
    "profiling",
    "AOE tuning",
    "iterations per loop",
    "separate devices",
    "collectives",
)

_system_graphs: Dict[Any, Tuple[Any, Any, Any]] = {}


def is_system_graph(graph: Any) -> bool:
    """Return whether a graph is that of the initialise and shutdown ops of a backend."""
    return any(graph is each for each, *_ in _system_graphs.values())


class Loop(abc.ABC):
    """A ``tf.Operation`` that makes several training steps in one run.

    Attributes:
        operation: The ``tf.Operation``.
    """

    operation: Any

    @abc.abstractmethod
    def load(self, session: Any) -> None:
        """Set the number of steps per run in a ``tf.Session``."""


class HostDevices(NamedTuple):
    """The devices that a launch distributes over its ranks.

    Attributes:
        physical: By logical id, the N of ``/dev/davinci<N>``; None for devices of other kinds.
        notes: Sentences to show to the user.
    """

    physical: Tuple[Optional[PhysicalDeviceId], ...]
    notes: Tuple[str, ...] = ()


class Backend(abc.ABC):
    """One way to run graphs in this process.

    Methods that a subclass does not override do what plain TensorFlow does, with nothing to
    initialise and nothing to wait for.

    Args:
        environ: The environment of the process.
        reason: Why this backend was chosen, for messages.

    Attributes:
        name: The name that users write, and under which it is registered.
        capabilities: Maps each of `FEATURES` to True, or to the reason why it is missing.
        holds_npus: True if ranks use Ascend processors of this host, which other processes may be
            using. The launcher and ``doctor`` then check devices, drivers and network.
        needs_rank_table: True if HCCL connects the ranks, which needs a rank table or a chief.
        needs_rendezvous: True if the launcher has to give the ranks a name by which they find each
            other (`cluster.variables.RENDEZVOUS`).
        reads_option_files: True if it reads the files that options name.
        replaces_vendor: True if this package's own npu_bridge and hccl replace the vendor's. They
            open the stub; ``witness.py``, which imports nothing, has its name.
        interrupted_run_s: Seconds that a signal waits for a run that goes on although its session
            was closed.
        target: The ``target`` for sessions that other code opens.
    """

    name: str
    capabilities: ClassVar[Mapping[str, Any]]
    holds_npus = False
    needs_rank_table = False
    needs_rendezvous = False
    reads_option_files = False
    replaces_vendor = False
    interrupted_run_s = 2.0
    target = ""

    def __init__(self, environ: Mapping[str, str], reason: str = "") -> None:
        self._tf = tf1()  # a missing TensorFlow is reported before anything else
        self._environ = environ
        self._system_session: Optional[Any] = None
        self._closing = threading.RLock()  # a signal may close while the main thread does
        self._initialize_op: Any = None
        self._shutdown_op: Any = None

    @classmethod
    @abc.abstractmethod
    def detect(cls, environ: Mapping[str, str]) -> Optional[str]:
        """Return the reason why ``auto`` chooses this backend on this host; None if it does not."""

    @classmethod
    def find_devices(cls, environ: Mapping[str, str], rank_count: int) -> HostDevices:
        """List the devices for the ranks of a launch; by default one for each.

        Args:
            environ: The launcher's environment.
            rank_count: Number of ranks that the launch asks for; 0 if it does not say.

        Raises:
            BackendError: If the number of devices is unknown.
            DeviceError: If there is none.
        """
        return HostDevices((None,) * max(rank_count, 1))

    @classmethod
    def device_variables(
        cls, device: int, local_size: int, environ: Mapping[str, str]
    ) -> Dict[str, str]:
        """Return variables for a rank besides ``ASCEND_DEVICE_ID``; they win over ``env``.

        Args:
            device: The logical id of its device.
            local_size: Number of ranks on this host.
            environ: The launcher's environment.
        """
        return {}

    @classmethod
    def explain_count(cls, environ: Mapping[str, str]) -> Optional[str]:
        """Return why this device count is assumed, as in ``ASCEND_SESSION_STUB_DEVICES says``.

        None if devices were counted.
        """
        return None

    @abc.abstractmethod
    def require(self, job: Job, parameters: Mapping[str, Any]) -> None:
        """Raise AscendError for a job or option that this backend cannot serve.

        Args:
            job: This process's job.
            parameters: The keys and values of the NpuOptimizer entry.
        """

    def explain_automatic(self, reason: str) -> Optional[str]:
        """Return a message to print when ``auto`` chooses this backend, or None for silence.

        Args:
            reason: The reason from `detect`.
        """
        return None

    def remarks(self, parameters: Mapping[str, Any]) -> List[str]:
        """List, in sentences, what is unexpected in a session with these options here."""
        return []

    def system_ops(self) -> Tuple[Any, Any]:
        """Add the initialise and shutdown ops to the default graph and return them.

        By default they do nothing, and have the vendor's names.
        """
        return self._tf.no_op(name="NPUInit"), self._tf.no_op(name="NPUShutdown")

    def make_loop(self, train_op: Any, steps: int, session: Optional[Any] = None) -> Loop:
        """Add an operation that makes several training steps in one run; by default on the host.

        Args:
            train_op: The operation that makes one step.
            steps: Number of steps per run.
            session: The session in which to set the number; None to call `Loop.load` later.

        Raises:
            UnsupportedError: For a step that this backend cannot repeat in a run.
        """
        from ascend_session.backends.host_loop import HostLoop

        return HostLoop(train_op, steps, session)

    def make_estimator(
        self,
        model_fn: Any,
        config: "AscendConfig",
        proto: Any,
        run_config: Mapping[str, Any],
        **arguments: Any,
    ) -> Any:
        """Return an estimator whose sessions have these options; by default TensorFlow's.

        Args:
            model_fn: As of ``tf.estimator.Estimator``.
            config: The options.
            proto: A ``tf.ConfigProto`` with the same options.
            run_config: Arguments of ``tf.estimator.RunConfig``; ``session_config`` is what the
                user gave.
            arguments: Other arguments of ``tf.estimator.Estimator``.
        """
        estimator = self._tf.estimator
        estimator_config = estimator.RunConfig(**{**run_config, "session_config": proto})
        return estimator.Estimator(model_fn, config=estimator_config, **arguments)

    @property
    def operators(self) -> Any:
        """The functions of the vendor's ``hccl_ops``, which add collectives to the default graph.

        `ascend_session.hccl` checks their arguments, and passes all but tensors by keyword.

        Raises:
            UnsupportedError: If this backend has no collectives, as by default.
        """
        raise UnsupportedError(f"The {self.name} backend has no collectives.")

    @property
    def training_operators(self) -> Any:
        """The functions ``gelu`` and ``dropout``; by default TensorFlow computes them."""
        from ascend_session.backends import training_operators

        return training_operators

    def allreduce_many(self, tensors: Sequence[Any], **settings: Any) -> List[Any]:
        """Add the allreduce of several tensors in their order; by default one operator for each."""
        return [self.operators.allreduce(tensor, **settings) for tensor in tensors]

    @property
    def groups(self) -> "Groups":
        """The groups of ranks; raises as `operators`."""
        raise UnsupportedError(f"The {self.name} backend has no groups.")

    def has_inf_and_nan(self) -> Optional[bool]:
        """Return whether an overflow gives Inf or NaN; None if that is not known yet.

        If it is not True, `read_overflow` is used.
        """
        return True

    def read_overflow(self, after: List[Any]) -> Any:
        """Add operators that read and clear the device's overflow status.

        Args:
            after: Tensors to wait for before the status is read.

        Returns:
            An int32 tensor of shape [1]: 1 after an overflow, else 0.
        """
        raise NotImplementedError(f"On {self.name} an overflow shows in the values.")

    def find_job(self, environ: Mapping[str, str]) -> Job:
        """Find rank and size of this process, as far as they are known before `initialize`."""
        return Job.of_system(environ)

    def confirm_job(self, job: Job) -> Job:
        """Return the job with rank and size from the device; called after `initialize`."""
        return job

    def await_device(  # noqa: B027  (nothing to wait for is a good answer)
        self, job: Job, parameters: Mapping[str, Any], seconds: float
    ) -> None:
        """Wait until no other process uses the devices; by default none ever does.

        Raises:
            DeviceTimeoutError: If one still does after so many seconds.
        """

    def probe(self, job: Job, proto: Any, policy: "RetryPolicy") -> None:  # noqa: B027
        """Try `initialize` in short-lived processes until one succeeds; by default do nothing.

        Raises:
            InitializationError: If all attempts fail, or another attempt would not help.
        """

    def initialize(self, proto: Any, parameters: Mapping[str, Any]) -> None:
        """Open the system session with ``proto`` and run the initialise op in it.

        Args:
            proto: The system's ``tf.ConfigProto``.
            parameters: The keys and values of its NpuOptimizer entry.
        """
        from ascend_session.backends.tf_sessions import opening_by_api

        graph, self._initialize_op, self._shutdown_op = self._system_graph()
        with opening_by_api():
            self._system_session = self._tf.Session(self.target, graph=graph, config=proto)
        self.bring_up()

    def _system_graph(self) -> Tuple[Any, Any, Any]:
        """Return the graph of the two ops, and the ops; it is built once per process."""
        build = type(self).system_ops
        if build not in _system_graphs:
            graph = self._tf.Graph()
            with graph.as_default():
                ops = self.system_ops()
            graph.finalize()
            _system_graphs[build] = (graph, *ops)
        return _system_graphs[build]

    def bring_up(self) -> None:
        """Run the initialise op, which does nothing while the device is up.

        Raises:
            LifecycleError: If another thread has closed the backend.
        """
        session = self._system_session
        if session is None:
            raise LifecycleError("Another thread has closed this Ascend system.")
        session.run(self._initialize_op)

    def session(self, graph: Any, proto: Any) -> Any:
        """Open a ``tf.Session`` on this backend, without a wrapper."""
        from ascend_session.backends.tf_sessions import opening_by_api

        with opening_by_api():
            return self._tf.Session(self.target, graph=graph, config=proto)

    def interrupt(  # noqa: B027  (on a device there is nothing to wake)
        self, reason: str, error: Optional[BaseException] = None
    ) -> None:
        """Wake threads that closing their session does not wake, such as those in a collective.

        Args:
            reason: The reason, for messages of other ranks.
            error: The exception that is the reason, if it is one.
        """

    def shutdown(self) -> None:
        """Run the shutdown op, unless the system session is closed and the device down with it."""
        session = self._system_session
        if session is not None:
            session.run(self._shutdown_op)

    def close(self) -> None:
        """Close and free the system session, if there is one."""
        with self._closing:
            session, self._system_session = self._system_session, None
            if session is not None:
                destroy(session)

    def abandon(self) -> None:
        """Disable the inherited system session in a forked process; called in the child."""
        if self._system_session is not None:
            disown(self._system_session)
