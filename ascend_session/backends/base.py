"""What a backend is: facts about it, the system's two ops, and the sessions of one process.

The ops live in a graph of their own and run in a session of their own, the *keeper*, which stays
open as long as the system: closing the session that ran the initialisation takes the device down
for everyone (guides/facts/process.md#life-of-ge-in-a-process).

A backend is one module with one class. The launcher asks the class for its facts and must not wait
for what a rank needs, so the module imports neither TensorFlow nor what else takes long at its top.
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

from ascend_session.backends._tensorflow import destroy, destroy_failed, disown, tf1
from ascend_session.backends.collectives import Groups
from ascend_session.cluster.job import Job
from ascend_session.errors import LifecycleError, UnsupportedError
from ascend_session.ids import PhysicalDeviceId

if TYPE_CHECKING:
    from ascend_session.failures.failure import RetryPolicy

# What a backend may do; for each its `Backend.capabilities` says True, or why not.
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

_keeper_graphs: Dict[Any, Tuple[Any, Any, Any]] = {}


class Loop(abc.ABC):
    """An operation of which one run makes several training steps.

    Attributes:
        operation: The ``tf.Operation``.
    """

    operation: Any

    @abc.abstractmethod
    def load(self, session: Any) -> None:
        """Tell a ``tf.Session`` how many steps a run makes."""


class HostDevices(NamedTuple):
    """The devices of which a launch gives one to each rank; the place of one is its logical id.

    Attributes:
        physical: The N of each one's ``/dev/davinci<N>``; None for a device of another kind.
        notes: What the user should know, in sentences.
    """

    physical: Tuple[Optional[PhysicalDeviceId], ...]
    notes: Tuple[str, ...] = ()


class Backend(abc.ABC):
    """One way to run graphs in this process.

    What a class below does not override is that of plain TensorFlow, with nothing to initialise and
    nothing to wait for.

    Args:
        environ: The environment to go by.
        reason: Why this backend was chosen, for messages.

    Attributes:
        name: The name that users write, and under which it is registered.
        capabilities: What this backend does of `FEATURES`, ``{feature: True, or why not}``.
        holds_npus: Whether ranks hold Ascend processors of this host, which others may hold before
            them; the launcher and ``doctor`` then check these, their drivers and their network.
        needs_rank_table: Whether HCCL joins the ranks, which needs a rank table or a chief.
        needs_rendezvous: Whether the launcher has to give the ranks a place to find each other:
            those of a node a name, several nodes an address (`cluster.variables`).
        reads_option_files: Whether it reads the files that options point to.
        replaces_vendor: Whether this package's own npu_bridge and hccl stand for the vendor's; they
            open the stub, and ``launcher/rank_main.py``, which imports nothing, knows it by name.
        interrupted_run_s: How long a signal waits for a run that does not react to the end of its
            session.
        target: The target that sessions made by others need.
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
        self._keeper: Optional[Any] = None
        self._closing = threading.RLock()  # a signal may close while the main thread does
        self._initialize_op: Any = None
        self._shutdown_op: Any = None

    @classmethod
    @abc.abstractmethod
    def detect(cls, environ: Mapping[str, str]) -> Optional[str]:
        """Give the reason for which ``auto`` is this backend on this host; None if it is not."""

    @classmethod
    def find_devices(cls, environ: Mapping[str, str], wanted: int) -> HostDevices:
        """Find the devices for the ranks of a launch; here there is one for each.

        Args:
            environ: The launcher's environment.
            wanted: How many ranks the launch asks for; 0 if it does not say.

        Raises:
            BackendError: If it cannot be known how many there are.
            DeviceError: If there is none.
        """
        return HostDevices((None,) * max(wanted, 1))

    @classmethod
    def device_variables(
        cls, device: int, local_size: int, environ: Mapping[str, str]
    ) -> Dict[str, str]:
        """Build the variables by which a rank gets its device, besides ``ASCEND_DEVICE_ID``.

        They win over what the user gives in ``env``.

        Args:
            device: Its logical id.
            local_size: How many ranks there are on this host.
            environ: The launcher's environment.
        """
        return {}

    @classmethod
    def explain_count(cls, environ: Mapping[str, str]) -> Optional[str]:
        """End a sentence on why there are so many devices; None if they were counted."""
        return None

    @abc.abstractmethod
    def require(self, job: Job, parameters: Mapping[str, Any]) -> None:
        """Refuse by name what this backend does not do, before anything is started."""

    def explain_automatic(self, reason: str) -> Optional[str]:
        """Say what ``auto`` should not choose in silence; None if everybody expects it.

        Args:
            reason: What `detect` has given.
        """
        return None

    def remarks(self, parameters: Mapping[str, Any]) -> List[str]:
        """List, in sentences, what a session with ``parameters`` unexpectedly does here."""
        return []

    def system_ops(self) -> Tuple[Any, Any]:
        """Add the initialise and shutdown ops to the default graph and return them.

        Here they do nothing, under the vendor's names.
        """
        return self._tf.no_op(name="NPUInit"), self._tf.no_op(name="NPUShutdown")

    def make_loop(self, train_op: Any, steps: int, session: Optional[Any] = None) -> Loop:
        """Add an operation of which one run makes several training steps; here the host does.

        Args:
            train_op: The operation that makes one step.
            steps: How many steps a run makes.
            session: A session in which it will run, if there is one; the loop is loaded there.

        Raises:
            UnsupportedError: For a step that this backend cannot make several times in a run.
        """
        from ascend_session.backends.host_loop import HostLoop

        return HostLoop(train_op, steps, session)

    @property
    def operators(self) -> Any:
        """The functions of the vendor's ``hccl_ops``, which add collectives to the default graph.

        `ascend_session.hccl` has checked their arguments; it gives all but tensors by keyword.

        Raises:
            UnsupportedError: Here, for nothing joins the ranks.
        """
        raise UnsupportedError(f"The {self.name} backend has no collectives.")

    @property
    def training_operators(self) -> Any:
        """The functions ``gelu`` and ``dropout``; here TensorFlow computes them."""
        from ascend_session.backends import training_operators

        return training_operators

    def allreduce_many(self, tensors: Sequence[Any], **settings: Any) -> List[Any]:
        """Add the allreduce of several tensors, in their order; here one operator for each."""
        return [self.operators.allreduce(tensor, **settings) for tensor in tensors]

    @property
    def groups(self) -> Groups:
        """Who is in which group of ranks; raises as `operators`."""
        raise UnsupportedError(f"The {self.name} backend has no groups.")

    def has_inf_and_nan(self) -> Optional[bool]:
        """Tell whether an overflow becomes Inf or NaN; None if that is not known yet.

        Where it may not, `read_overflow` is asked.
        """
        return True

    def read_overflow(self, after: List[Any]) -> Any:
        """Add operators that tell whether something has overflown, and forget it.

        Args:
            after: The tensors up to which overflows count.

        Returns:
            A tensor, int32 [1]: 1 or 0.
        """
        raise NotImplementedError(f"On {self.name} an overflow shows in the values.")

    def find_job(self, environ: Mapping[str, str]) -> Job:
        """Find this process's place in its job, as far as it is known before the device is up."""
        return Job.detect(environ)

    def confirm_job(self, job: Job) -> Job:
        """Return the place in the job as the device knows it, once it is up."""
        return job

    def await_device(  # noqa: B027  (nothing to wait for is a good answer)
        self, job: Job, parameters: Mapping[str, Any], seconds: float
    ) -> None:
        """Wait until no other process holds the devices; here nobody ever does.

        Raises:
            DeviceTimeoutError: If somebody still does after so many seconds.
        """

    def probe(self, job: Job, proto: Any, policy: "RetryPolicy") -> None:  # noqa: B027
        """Initialise in short-lived processes until that works; here there is nothing to try.

        Raises:
            InitializationError: If the policy's attempts are used up, or none would help.
        """

    def initialize(self, proto: Any, parameters: Mapping[str, Any]) -> None:
        """Open the keeper session with ``proto`` and run the initialise op in it.

        Args:
            proto: The system's ``tf.ConfigProto``.
            parameters: The keys and values of its NpuOptimizer entry.
        """
        graph, self._initialize_op, self._shutdown_op = self._keeper_graph()
        self._keeper = self._tf.Session(self.target, graph=graph, config=proto)
        self.bring_up()

    def _keeper_graph(self) -> Tuple[Any, Any, Any]:
        """Return the graph of the two ops, built once a process: it takes as long as opening it."""
        build = type(self).system_ops
        if build not in _keeper_graphs:
            graph = self._tf.Graph()
            with graph.as_default():
                ops = self.system_ops()
            graph.finalize()
            _keeper_graphs[build] = (graph, *ops)
        return _keeper_graphs[build]

    def bring_up(self) -> None:
        """Run the initialise op again; it does nothing while the device is up.

        Raises:
            LifecycleError: If another thread has closed the backend meanwhile.
        """
        keeper = self._keeper
        if keeper is None:
            raise LifecycleError("This Ascend system was closed meanwhile, by another thread.")
        keeper.run(self._initialize_op)

    def session(self, graph: Any, proto: Any) -> Any:
        """Open a real ``tf.Session`` on this backend; nothing is wrapped around it."""
        return self._tf.Session(self.target, graph=graph, config=proto)

    def interrupt(  # noqa: B027  (a device has nothing to be freed)
        self, reason: str, error: Optional[BaseException] = None
    ) -> None:
        """Free threads that are blocked in what closing their session does not end.

        Args:
            reason: Why, for other ranks.
            error: The exception because of which, if it is one.
        """

    def destroy_failed(self, error: BaseException) -> None:
        """Close and free the sessions of calls that have failed, but not the keeper."""
        destroy_failed(error, self._keeper)

    def shutdown(self) -> None:
        """Run the shutdown op, unless the end of the keeper has taken the device down."""
        keeper = self._keeper
        if keeper is not None:
            keeper.run(self._shutdown_op)

    def close(self) -> None:
        """Close and free the keeper session, whatever state it is in; twice does nothing."""
        with self._closing:
            keeper, self._keeper = self._keeper, None
            if keeper is not None:
                destroy(keeper)

    def abandon(self) -> None:
        """Have a forked process, in which this runs, leave alone what belongs to its parent."""
        if self._keeper is not None:
            disown(self._keeper)
