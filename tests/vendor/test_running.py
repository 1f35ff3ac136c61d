"""What only an offloaded run refuses. Source: geop_npu.cc, ComputeAsync, CompileGraph and
CreateGeSession; guides/facts/options.md.
"""

from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import pytest

from tests.fake_host.vendor import Loaded

PROFILES = {"input_shape": "x:-1,2", "dynamic_dims": "1;2", "dynamic_node_type": 1}


def test_two_kinds_of_dump_are_refused_by_ge_when_it_makes_the_session(
    ge: Loaded, tf: Any, proto: Callable[..., Any], product: Any
) -> None:
    config = proto(enable_dump=True, enable_dump_debug=True, dump_path=".")
    with tf.Session(config=config) as sess:
        with pytest.raises(tf.errors.InternalError, match="E10001"):
            sess.run(product)
    assert "Run" not in ge.calls


@pytest.mark.parametrize(
    ("options", "variables"),
    [
        ({"profiling_mode": True}, {}),
        ({}, {"PROFILING_MODE": "true"}),
        ({"profiling_mode": False}, {"PROFILING_MODE": "true"}),
    ],
    ids=str,
)
def test_a_profiler_excludes_the_profiling_option(
    ge: Loaded,
    tf: Any,
    proto: Callable[..., Any],
    product: Any,
    monkeypatch: Any,
    tmp_path: Path,
    options: Dict[str, Any],
    variables: Dict[str, str],
) -> None:
    from npu_bridge.profiler import profiler

    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        with tf.Session(config=proto(**options)) as sess:
            with profiler.Profiler(output_path=str(tmp_path)):
                with pytest.raises(tf.errors.InvalidArgumentError, match=r"profiler\.Profiler"):
                    sess.run(product)
                assert sess.run(tf.constant(7)) == 7
            assert sess.run(product) == [[6.0]]


def test_a_profiler_alone_is_fine(
    ge: Loaded, tf: Any, proto: Callable[..., Any], product: Any
) -> None:
    from npu_bridge.profiler import profiler

    with tf.Session(config=proto()) as sess, profiler.Profiler(level="L1"):
        assert sess.run(product) == [[6.0]]


@pytest.mark.parametrize(
    ("given", "error", "reason"),
    [
        ({"level": 1}, ValueError, "Option level should be str"),
        ({"level": "L3"}, RuntimeError, "level cannot set to"),
        ({"level": "L0", "aic_metrics": "Memory"}, RuntimeError, "Please use L1 or L2"),
        ({"level": "L1", "aic_metrics": "Cache"}, RuntimeError, "aic_metrics cannot set to"),
    ],
)
def test_what_a_profiler_refuses(ge: Loaded, given: Any, error: Any, reason: str) -> None:
    from npu_bridge.profiler import profiler

    with pytest.raises(error, match=reason):
        profiler.Profiler(**given).start()


def test_profilers_cannot_be_nested(ge: Loaded) -> None:
    from npu_bridge.profiler import profiler

    with profiler.Profiler():
        with pytest.raises(RuntimeError, match="nested"):
            profiler.Profiler().start()


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        (PROFILES, True),
        ({"dynamic_input": True}, True),
        ({}, False),
    ],
    ids=str,
)
def test_dynamic_compilation_excludes_profiles_and_dynamic_input(
    ge: Loaded,
    tf: Any,
    proto: Callable[..., Any],
    product: Any,
    options: Dict[str, Any],
    refused: bool,
) -> None:
    with tf.Session(config=proto(compile_dynamic_mode=True, **options)) as sess:
        if refused:
            with pytest.raises(tf.errors.InternalError, match="compile_dynamic_mode cannot set"):
                sess.run(product)
        else:
            assert sess.run(product) == [[6.0]]
    # geop_npu.cc, ComputeAsync: what is asked first is that GE is up
    assert "GEInitialize" in ge.calls
    assert ("Run" in ge.calls) is not refused


def test_acceleration_wants_to_know_where_training_is(
    ge: Loaded, tf: Any, proto: Callable[..., Any], product: Any, monkeypatch: Any
) -> None:
    cases: List[Tuple[Dict[str, str], Any]] = [
        ({}, tf.errors.InvalidArgumentError),
        ({"TOTAL_STEP": "100", "STEP_NOW": "0"}, None),
    ]
    with tf.Session(config=proto(experimental_accelerate_train_mode="fast|step|0.9")) as sess:
        assert sess.run(tf.constant(7)) == 7
        for variables, error in cases:
            with monkeypatch.context() as patch:
                for name, value in variables.items():
                    patch.setenv(name, value)
                if error is None:
                    assert sess.run(product) == [[6.0]]
                else:
                    with pytest.raises(error, match="TOTAL_STEP"):
                        sess.run(product)


def test_acceleration_is_looked_at_when_a_graph_is_compiled(
    ge: Loaded, tf: Any, proto: Callable[..., Any], product: Any, monkeypatch: Any
) -> None:
    config = proto(experimental_accelerate_train_mode="fast|step|0.9")
    with tf.Session(config=config) as sess:
        with monkeypatch.context() as patch:
            patch.setenv("TOTAL_STEP", "100")
            patch.setenv("STEP_NOW", "1")
            sess.run(product)
        # guides/facts/precision.md#accelerated-training
        assert sess.run(product) == [[6.0]]
        with pytest.raises(tf.errors.InvalidArgumentError, match="TOTAL_STEP"):
            sess.run(tf.matmul(product, product))


@pytest.mark.parametrize(
    ("lines", "collected", "refused"),
    [
        ("op_debug_config=oom\n", "folder", True),
        ("op_debug_config = dump_cce, oom # both\n", "folder", True),
        ("op_debug_config=oom\nop_debug_config=dump_cce\n", "folder", False),
        ("# op_debug_config=oom\n", "folder", False),
        ("op_debug_config=oom\n", "file/folder", False),
        ("op_debug_config=oom\n", None, False),
    ],
)
def test_checks_of_memory_exclude_the_collection_of_files(
    ge: Loaded,
    tf: Any,
    proto: Callable[..., Any],
    product: Any,
    monkeypatch: Any,
    tmp_path: Path,
    lines: str,
    collected: Any,
    refused: bool,
) -> None:
    # guides/facts/dumps.md#data-dump; a path that cannot be made counts as none
    (tmp_path / "file").write_text("")
    config_file = tmp_path / "debug.cfg"
    config_file.write_text(lines)
    with monkeypatch.context() as patch:
        if collected is not None:
            patch.setenv("NPU_COLLECT_PATH", str(tmp_path / collected))
        with tf.Session(config=proto(op_debug_config=str(config_file))) as sess:
            if refused:
                with pytest.raises(tf.errors.InternalError, match="oom"):
                    sess.run(product)
            else:
                assert sess.run(product) == [[6.0]]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        # guides/facts/options.md#iterations-per-loop
        ({"dynamic_graph_execute_mode": "lazy_recompile", "dynamic_input": True}, "Invalid"),
        # read for dynamic_execute alone
        ({"dynamic_graph_execute_mode": "dynamic_execute", "dynamic_input": True}, None),
    ],
)
def test_lazy_recompilation_wants_one_iteration_per_loop(
    ge: Loaded, tf: Any, proto: Callable[..., Any], product: Any, options: Any, error: Any
) -> None:
    with tf.Session(config=proto(iterations_per_loop=2, **options)) as sess:
        if error is None:
            assert sess.run(product) == [[6.0]]
        else:
            with pytest.raises(tf.errors.InvalidArgumentError, match="iterations_per_loop"):
                sess.run(product)
