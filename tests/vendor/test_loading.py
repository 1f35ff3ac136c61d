"""How the fake gets into TensorFlow, and out again."""

import importlib
import inspect
import sys
from typing import Any, Callable

import pytest

from tests.fake_host import FakeHost
from tests.fake_host.signatures import NPU_BRIDGE, NPU_INIT, VENDOR_MODULES
from tests.fake_host.vendor import Loaded, loaded, recorded, run_on

FINALISED = ["GEFinalize", "ParserFinalize", "TdtOutFeedDestroy"]


@pytest.mark.parametrize("module", sorted(VENDOR_MODULES))
def test_the_signatures_are_the_table_of_the_vendors(ge: Loaded, module: str) -> None:
    imported = importlib.import_module(module)
    for name, text in VENDOR_MODULES[module].items():
        namespace: Any = {}
        exec(f"def wanted{text}: pass", namespace)
        assert plain(getattr(imported, name)) == plain(namespace["wanted"]), name


def plain(function: Any) -> Any:
    """Names, kinds and defaults of the parameters."""
    parameters = inspect.signature(function).parameters.values()
    return [(one.name, one.kind, one.default) for one in parameters]


def test_tensorflow_keeps_its_classes(tf: Any, host: FakeHost) -> None:
    before = (tf.Session.__init__, tf.Session.run, tf.Session.close)
    with loaded(host):
        importlib.import_module("npu_bridge")
        assert (tf.Session.__init__, tf.Session.run, tf.Session.close) == before
    assert (tf.Session.__init__, tf.Session.run, tf.Session.close) == before


def test_nothing_is_left(tf: Any, host: FakeHost, proto: Callable[..., Any], product: Any) -> None:
    from tensorflow.python.client import session

    real, path, constructor = session.tf_session, list(sys.path), tf.Session.__init__
    with loaded(host):
        importlib.import_module("npu_bridge.npu_init")
        assert session.tf_session is not real
        left_open = tf.Session(config=proto())
        left_open.run(product)
    assert (session.tf_session, tf.Session.__init__) == (real, constructor)
    assert sys.path == path
    assert not [n for n in sys.modules if n.split(".")[0] in ("npu_bridge", "hccl", "fake_ge")]
    assert left_open.run(product) == [[6.0]]
    left_open.close()


def test_each_loading_starts_fresh(
    tf: Any, host: FakeHost, proto: Callable[..., Any], product: Any
) -> None:
    for _ in range(2):
        with loaded(host) as ge:
            importlib.import_module("npu_bridge")
            with tf.Session(config=proto(op_debug_level=1)) as sess:
                sess.run(product)
            assert ge.calls[:3] == ["TdtOutFeedInit", "ParserInitialize", "GEInitialize"]
    assert [entry["call"] for entry in recorded(host)].count("GEInitialize") == 2


def test_without_the_package_an_entry_does_nothing(
    tf: Any, host: FakeHost, proto: Callable[..., Any], product: Any
) -> None:
    with loaded(host) as ge:
        with tf.Session(config=proto(precision_mode="bogus")) as sess:
            assert sess.run(product) == [[6.0]]
    assert ge.calls == []


def test_a_session_from_before_the_import_is_offloaded_too(
    tf: Any, host: FakeHost, proto: Callable[..., Any], product: Any
) -> None:
    with tf.Session(config=proto(session_device_id=1)) as sess:
        with loaded(host) as ge:
            importlib.import_module("npu_bridge")
            assert sess.run(product) == [[6.0]]
    assert ge.of("Run")[0]["device"] == 1


def test_a_library_that_cannot_be_loaded_is_only_printed_and_then_missing(
    tf: Any, host: FakeHost, capsys: Any
) -> None:
    with loaded(host, faults="library"):
        with pytest.raises(ImportError, match="npu_bridge_handle"):
            importlib.import_module("npu_bridge")
    assert "libge_runner.so: cannot open shared object file" in capsys.readouterr().out


def test_the_patching_module_makes_every_session_an_npu_session(
    ge: Loaded, tf: Any, product: Any
) -> None:
    constructor = tf.Session.__init__
    importlib.import_module(NPU_INIT)
    assert tf.Session.__init__ is not constructor
    mine = tf.ConfigProto(log_device_placement=True)
    with tf.Session(config=mine) as sess:
        assert sess.run(product) == [[6.0]]
    rewriter = mine.graph_options.rewrite_options
    assert [one.name for one in rewriter.custom_optimizers] == ["NpuOptimizer"]
    assert (mine.allow_soft_placement, mine.log_device_placement) == (True, False)
    assert rewriter.memory_optimization == rewriter.remapping == rewriter.OFF
    assert ge.calls[0] == "import npu_bridge.npu_init"
    assert ge.of("Run")[0]["offloaded"] is True


def test_the_plain_import_patches_nothing(ge: Loaded, tf: Any, product: Any) -> None:
    assert NPU_BRIDGE in sys.modules
    assert NPU_INIT not in sys.modules
    with tf.Session() as sess:
        sess.run(product)
    assert ge.of("Run")[0]["offloaded"] is False


_LEFT_OPEN = """
import sys, npu_bridge, tensorflow.compat.v1 as tf
from ascend_session.config.proto import add_to_entry
tf.disable_eager_execution()
proto = tf.ConfigProto()
add_to_entry(proto, {})
x = tf.placeholder(tf.float32, [1, 1])
sess = tf.Session(config=proto)
print(sess.run(tf.matmul(x, x), {x: [[2]]}))
"""


def test_at_exit_ge_is_finalised_with_sessions_still_open(host: FakeHost) -> None:
    ended = run_on(host, _LEFT_OPEN)
    assert ended.returncode == 0, ended.stderr
    assert "Exception ignored" not in ended.stderr
    names = [entry["call"] for entry in recorded(host)]
    closed = ["exit handler", "GEFinalize", "ParserFinalize"]
    assert names[names.index("Run") + 1 :][:3] == closed
    # ge_plugin.cc: NpuClose leaves isInit_ as it is, so ~GePlugin finalises what is left.
    assert names[-2:] == ["destructor", "TdtOutFeedDestroy"]


def test_the_destructor_finalises_ge_where_the_handler_has_been_removed(host: FakeHost) -> None:
    ended = run_on(host, _LEFT_OPEN + "import atexit; atexit.unregister(npu_bridge.npu_close)")
    assert (ended.returncode, ended.stdout) == (0, "[[4.]]\n")
    names = [entry["call"] for entry in recorded(host)]
    assert names[-4:] == ["destructor", *FINALISED]
    assert "exit handler" not in names


_FORKS = """
import os
child = os.fork()
if not child:
    npu_bridge.atexit.unregister(npu_bridge.npu_close)
    sys.exit()
os.waitpid(child, 0)
sess.close()
del sess
print(child)
"""


def test_the_destructor_of_a_forked_child_finalises_ge_as_well(host: FakeHost) -> None:
    ended = run_on(host, _LEFT_OPEN + _FORKS)
    assert ended.returncode == 0, ended.stderr
    child = int(ended.stdout.splitlines()[-1])
    calls = [(entry["call"], entry["pid"] == child) for entry in recorded(host)]
    assert [name for name, of_child in calls if of_child] == ["destructor", *FINALISED]
    # The state of the parent is its own: GE was up there, and goes down with its last session.
    assert [name for name, of_child in calls if not of_child][-4:] == [*FINALISED, "exit handler"]


def test_an_exit_that_skips_handlers_cleans_up_nothing(host: FakeHost) -> None:
    ended = run_on(host, _LEFT_OPEN + "import os; sys.stdout.flush(); os._exit(3)")
    assert (ended.returncode, ended.stdout) == (3, "[[4.]]\n")
    assert recorded(host)[-1]["call"] == "Run"
