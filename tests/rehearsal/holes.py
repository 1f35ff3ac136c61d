"""What is wrong with a fake host, besides the faults that the fake graph engine has of its own.

Each is planted in the process that then runs the hardware tests, before it does; the programs that
those start have it, too.
"""

import importlib
import json
import os
import shutil
import sys
from typing import Any, Callable, Dict

from hardware_tests import limits
from tests.fake_host import (
    FakeHost,
    Reply,
    a2_chips,
    a3_chips,
    atlas_chips,
    npu_smi_answers,
)

__all__ = ["HOLES", "hole"]

HOLES: Dict[str, Callable[[FakeHost], None]] = {}


def hole(plant: Callable[[FakeHost], None]) -> Callable[[FakeHost], None]:
    """Makes it known by its name."""
    HOLES[plant.__name__] = plant
    return plant


@hole
def no_device(host: FakeHost) -> None:
    shutil.rmtree(str(host.root / "dev"))


@hole
def no_vendor_package(host: FakeHost) -> None:
    sys.path[:] = [path for path in sys.path if not path.endswith("fake_host/packages")]


@hole
def one_device(host: FakeHost) -> None:
    for number in range(1, 8):
        (host.root / "dev" / f"davinci{number}").unlink()


@hole
def four_devices(host: FakeHost) -> None:
    for number in range(4, 8):
        (host.root / "dev" / f"davinci{number}").unlink()
    host.npu_smi(npu_smi_answers("910B", a2_chips(4)))


@hole
def another_product(host: FakeHost) -> None:
    host.npu_smi(npu_smi_answers("A3", a3_chips(4)))


@hole
def atlas_training(host: FakeHost) -> None:
    host.npu_smi(npu_smi_answers("910A", atlas_chips()))


@hole
def a_rank_table_is_given(host: FakeHost) -> None:
    ranks = [
        {"device_id": str(n), "device_ip": f"192.168.1.{n}", "rank_id": str(n)} for n in range(2)
    ]
    servers = [{"server_id": "node_0", "device": ranks}]
    table = {"version": "1.0", "status": "completed", "server_count": "1", "server_list": servers}
    os.environ["RANK_TABLE_FILE"] = str(host.write("table.json", json.dumps(table)))


@hole
def a_node_is_gone(host: FakeHost) -> None:
    (host.root / "dev/davinci7").unlink()


@hole
def a_node_leads_nowhere(host: FakeHost) -> None:
    (host.root / "dev/davinci3").unlink()
    (host.root / "dev/davinci3").symlink_to("nowhere")


@hole
def a_control_node_is_gone(host: FakeHost) -> None:
    (host.root / "dev/hisi_hdc").unlink()


@hole
def no_version_is_said(host: FakeHost) -> None:
    shutil.rmtree(str(host.root / "usr/local/Ascend/driver"))
    shutil.rmtree(str(host.root / "usr/local/Ascend/ascend-toolkit"))
    (host.root / "usr/local/bin/npu-smi").unlink()


@hole
def no_npu_smi(host: FakeHost) -> None:
    (host.root / "usr/local/bin/npu-smi").unlink()


@hole
def npu_smi_hangs(host: FakeHost) -> None:
    limits.ANSWER = 0.5
    host.npu_smi({"": Reply(then="hang")})


@hole
def a_device_is_ill(host: FakeHost) -> None:
    chips = a2_chips()
    chips[5] = chips[5]._replace(health="Alarm")
    host.npu_smi(npu_smi_answers("910B", chips))


@hole
def no_list_of_operators(host: FakeHost) -> None:
    shutil.rmtree(str(host.root / "usr/local/Ascend/opp"))


@hole
def processes_are_hidden(host: FakeHost) -> None:
    (host.root / "proc").unlink()
    (host.root / "proc").mkdir()


@hole
def sessions_are_patched(host: FakeHost) -> None:
    importlib.import_module("npu_bridge.npu_init")


@hole
def nobody_waits_long(host: FakeHost) -> None:
    limits.RELEASE = 1.0


@hole
def every_step_is_dumped(host: FakeHost) -> None:
    outputs: Any = importlib.import_module("fake_ge.outputs")
    outputs._chosen = lambda step, dump_step: True


@hole
def the_adapter_writes_files(host: FakeHost) -> None:
    """guides/facts/process.md#the-end-of-a-process"""
    adapter: Any = importlib.import_module("fake_ge.adapter")
    run = adapter.Session.run

    def run_and_write(self: Any, *arguments: Any, **named: Any) -> Any:
        with open("check_result.tf.json", "w") as file:
            file.write("{}")
        return run(self, *arguments, **named)

    adapter.Session.run = run_and_write


@hole
def everything_is_offloaded(host: FakeHost) -> None:
    adapter: Any = importlib.import_module("fake_ge.adapter")
    op_type = importlib.import_module("fake_ge.graphs").op_type

    def offloaded(session: Any, needed: Any, known: Any) -> Any:
        return tuple((op_type(op), op.name) for op in needed if op_type(op) in known)

    adapter.Session._offloaded = offloaded


@hole
def an_operator_is_no_function(host: FakeHost) -> None:
    npu_ops: Any = importlib.import_module("npu_bridge.estimator.npu_ops")
    npu_ops.initialize_system = None


@hole
def nothing_is_restored(host: FakeHost) -> None:
    tf: Any = importlib.import_module("tensorflow.compat.v1")

    def restore(self: Any, sess: Any, path: str) -> None:
        sess.run(tf.global_variables_initializer())

    tf.train.Saver.restore = restore


@hole
def hooks_are_not_called(host: FakeHost) -> None:
    tf: Any = importlib.import_module("tensorflow.compat.v1")
    hooked: Any = sys.modules[tf.train.MonitoredSession.__module__]
    hooked._HookedSession.run = lambda self, fetches, *more, **named: self._sess.run(
        fetches, *more, **named
    )
