"""A graph engine and a device that are not there, for the fake ``npu_bridge`` and ``hccl``.

Each behaviour cites the fact that says so (guides/facts); one without is a defect, and what is
ASSUMED says so in this word. Files of the vendor's adapter are named without their folder
(hicann/tensorflow, tf_adapter). guides/facts/adapter.md line by line, and where it is shown
(tests/vendor):

Reading the entry
    validated by the first run, read for each signature   adapter.py; test_options
    GE starts only with something offloaded or NPUInit    adapter.py; test_life
    without package or list all is on the CPU             operators.py; test_options, test_loading
What a bad option does
    aborts, exceptions                                    not modelled: this GE takes any option;
                                                          recorded answers of the vendor's code are
                                                          the judge (tests/compat/test_ge_cases.py,
                                                          tests/compat/test_verdicts.py)
    ASCEND_DEVICE_ID, DEVICE_ID                           environment.py; test_options
    accepted: unknown names, wrong fields, above int32,
    jobs, two entries                                     entry.py; test_options
Defaults of an empty entry                                entry.py; test_options
    iterations_per_loop and jit_compile                   not modelled: they go to the graph, whose
                                                          options this GE does not record
Life of GE in a process                                   engine.py, adapter.py; test_life
    NPUInit synchronous, runs asynchronous, failures      engine.py
    kernels end with the session object                   proxy.py
    npu_resource_init                                     npu_plugin.py; test_life
    exit handler, destructor, os._exit                    engine.py, destructor.py; test_loading
    what is said without JOB_ID                           environment.py; test_life
The device of a process
    session_device_id, own device                         adapter.py, environment.py; test_life
    the last session's id names the data channels         not modelled: there are no channels
    no upper limit of the adapter                         nodes.py: the device refuses
Importing npu_bridge
    npu_init patches sessions, plain import does not      npu_init.py; test_loading
    memory_optimization = OFF is MANUAL                   npu_init.py; test_loading (the number)
    the distributed optimizer without JOB_ID              not modelled: there is no optimizer
    a collective outside an offloaded graph               adapter.py
    stock TensorFlow ignores an entry                     test_loading
Collectives between processes (guides/facts/launch.md, guides/facts/failures.md)
    ranks, with a table and without                       ranks.py, negotiation.py; test_ranks
    what is sent, in which order, time limits, failures   communicator.py, turns.py; test_ranks
    what each operator computes                           values.py; test_ranks

Checkpoints, and graphs that fail (guides/facts/adapter.md)
    a sharded saver, reports, an unfed placeholder        parts.py; test_parts
    which parts a graph falls into                        not modelled: see parts.py

Training
    a loop of steps in one run                            loops.py, npu/util.py; test_training
    what the host feeds in it                             loops.py; test_training
    mode and status of overflow                           float_status.py; test_training

Not modelled beside it: data-transfer channels and datasets on the device; sessions
of another job ("worker"), which share one GE session (geop_npu.cc, ps_worker_session); AOE itself,
and that AOE_MODE, too, makes an initialisation synchronous; mixed computing, which leaves "gray"
operators on the host (npu_ops_identifier.cc); NPUInit in a session with use_off_line=False, which
takes default options (om_partition_subgraphs_pass.cc); a queue of the device that blocks; rules
that need what the graph has in it (in_out_pair, several IteratorGetNext, OneShotIterator).
"""

import sys

from fake_ge import proxy
from fake_ge.engine import ENGINE
from fake_ge.fatal import abort
from fake_ge.faults import KNOWN, fault, host_root
from fake_ge.float_status import GenOps
from fake_ge.graphs import mark
from fake_ge.journal import calls, note, record
from fake_ge.nodes import release_all

__all__ = [
    "ENGINE",
    "KNOWN",
    "abort",
    "calls",
    "host_root",
    "load_library",
    "mark",
    "note",
    "record",
    "uninstall",
]

_PACKAGES = ("npu_bridge", "hccl", "fake_ge")


def load_library(path: str) -> GenOps:
    """What ``tf.load_op_library`` does with the adapter's library: it gets into TensorFlow.

    Raises:
        NotFoundError: With the fault ``library``.
    """
    if fault("library") is not None:
        from tensorflow.python.framework import errors

        reason = "libge_runner.so: cannot open shared object file: No such file or directory"
        raise errors.NotFoundError(None, None, reason)
    proxy.install()
    return GenOps()


def uninstall() -> None:
    """Leaves TensorFlow, the exit handlers and ``sys.modules`` as if nothing had been imported."""
    import atexit

    plugin = sys.modules.get("npu_bridge.estimator.npu.npu_plugin")
    if plugin is not None:
        atexit.unregister(plugin.npu_close)
    patched = sys.modules.get("npu_bridge.npu_init")
    if patched is not None:
        patched.unpatch()
    proxy.uninstall()
    ENGINE.unload()
    release_all()
    for name in [n for n in sys.modules if n.partition(".")[0] in _PACKAGES]:
        del sys.modules[name]
