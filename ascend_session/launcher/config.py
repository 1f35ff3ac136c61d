"""What a launch is asked."""

from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Sequence, Union

from ascend_session.errors import ConfigError
from ascend_session.launcher.config_checks import problems_of

__all__ = ["LaunchConfig"]


@dataclass(frozen=True)
class LaunchConfig:
    """One job, or its part on this node: what to start, how often, on what, and how to end it.

    Exactly one of ``script``, ``module`` and ``program`` is given.

    Attributes:
        script: A Python script, as after ``python``.
        module: A Python module, as after ``python -m``.
        program: Any other program, a path or a name on ``PATH``.
        args: What the script, module or program gets.
        processes: Number of ranks here; None means as many as there are devices to use.
        devices: Logical ids, rank 0 on the first: ``"0-3,6"`` or a list of numbers. None means the
            first ``processes`` that are visible, or all.
        backend: ``auto``, ``npu`` or ``stub``; decided once, for all ranks.
        rank_table: File that is passed on as ``RANK_TABLE_FILE``; a relative path, here and in
            ``log_dir``, counts from the launcher's working directory. Without it, and without
            ``no_rank_table``, the launcher's own ``RANK_TABLE_FILE`` counts on devices.
        no_rank_table: The ranks find each other at a chief (``CM_*``) instead of by a table.
        chief_ip: The chief's address on this server; None means that of the way out.
        chief_port: The chief's port; None means a free one.
        nnodes: Number of nodes, each with a launcher of its own; None means what the scheduler says
            that has started this one, else 1. All need the same ``processes``, unless the rank
            table says otherwise.
        node_rank: Number of this node, from 0, whose ranks come after those of the nodes before.
        coordinator: Where the ranks of several nodes meet on the stub, ``HOST:PORT``: an address
            of node 0 and a port that is free there.
        job_id: ``JOB_ID``, letters, digits, ``-`` and ``_``; None means a new one.
        env: Variables to add to each rank's environment.
        cwd: Working directory of the ranks; None means the launcher's.
        python: The interpreter; None means the one that runs the launcher.
        log_dir: Below it each launch makes a folder of its own; None means ``ascend-logs`` in the
            ranks' working directory.
        grace: Seconds from SIGTERM to SIGKILL.
        stall_timeout: Seconds without output and CPU use after which the job counts as stalled;
            None means never.
        max_restarts: How often the whole job may be tried again after a transient failure.
        bind: Which CPUs a rank may use: ``auto``, those near its device, as far as the launcher may
            use them, on the stub all; ``even``, an equal part of the launcher's; ``none``, all.
        show: Whose output is shown: ``all``, ``none`` or ranks as in ``0,4-7``.
        timestamps: Whether shown lines begin with the time.
        events: File for one JSON line per event; None means no such file.
        preflight: Whether to check first what the job needs, and to start nothing if it would fail.
        wait_for_devices: How many seconds to wait until no other process holds the devices; with 0
            a device that is held is in the way.
        wait_for_table: How many seconds to wait for a rank table at "initializing"; with 0 it is in
            the way. HCCL itself would wait half an hour, in silence.

    Raises:
        ConfigError: With everything that is wrong.
    """

    script: Optional[str] = None
    module: Optional[str] = None
    program: Optional[str] = None
    args: Sequence[str] = ()
    processes: Optional[int] = None
    devices: Union[str, Sequence[int], None] = None
    backend: str = "auto"
    rank_table: Optional[str] = None
    no_rank_table: bool = False
    chief_ip: Optional[str] = None
    chief_port: Optional[int] = None
    nnodes: Optional[int] = None
    node_rank: Optional[int] = None
    coordinator: Optional[str] = None
    job_id: Optional[str] = None
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Optional[str] = None
    python: Optional[str] = None
    log_dir: Optional[str] = None
    grace: float = 10
    stall_timeout: Optional[float] = None
    max_restarts: int = 0
    bind: str = "auto"
    show: str = "all"
    timestamps: bool = False
    events: Optional[str] = None
    preflight: bool = True
    wait_for_devices: float = 0
    wait_for_table: float = 300

    def __post_init__(self) -> None:
        # Copies, so that what was checked cannot be changed from outside.
        for name in ("args", "devices"):
            value: Any = getattr(self, name)
            if isinstance(value, (list, range)):
                object.__setattr__(self, name, tuple(value))
        if isinstance(self.env, Mapping):
            object.__setattr__(self, "env", dict(self.env))
        problems = list(problems_of(self))
        if problems:
            raise ConfigError.of(problems, "the launch")
