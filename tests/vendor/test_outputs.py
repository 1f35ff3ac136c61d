"""What an offloaded run leaves: the executed graph, dump files, profiling data."""

import importlib
import json
import re
from pathlib import Path
from typing import Any, Callable, List

import pytest

from tests.fake_host import FakeHost
from tests.fake_host.vendor import Loaded, loaded


def executed(tf: Any, sess: Any, fetch: Any) -> List[str]:
    """The types of the operators in the graph that a run executed."""
    metadata = tf.RunMetadata()
    options = tf.RunOptions(output_partition_graphs=True)
    sess.run(fetch, options=options, run_metadata=metadata)
    return [node.op for graph in metadata.partition_graphs for node in graph.node]


def test_the_executed_graph_has_a_ge_op_in_place_of_what_was_offloaded(
    ge: Loaded, tf: Any, proto: Callable[..., Any]
) -> None:
    x = tf.placeholder(tf.float32, [1, 1])
    y = tf.matmul(x, x)
    options = tf.RunOptions(output_partition_graphs=True)
    for config, wanted in ((proto(), ["GeOp"]), (proto(use_off_line=False), ["MatMul"])):
        metadata = tf.RunMetadata()
        with tf.Session(config=config) as sess:
            sess.run(y, {x: [[2.0]]}, options=options, run_metadata=metadata)
        nodes = [node for graph in metadata.partition_graphs for node in graph.node]
        # TensorFlow may have made a faster operator of it, whose type has more in its name.
        found = [op for node in nodes for op in ("GeOp", "MatMul") if op in node.op]
        assert found == wanted
        assert [n.name[:4] for n in nodes if n.op == "GeOp"] == ["GeOp"] * wanted.count("GeOp")


def test_the_graph_is_shown_only_if_it_was_asked_for(
    ge: Loaded, tf: Any, proto: Callable[..., Any], product: Any
) -> None:
    with tf.Session(config=proto()) as sess:
        assert "GeOp" in executed(tf, sess, product)
        metadata = tf.RunMetadata()
        sess.run(product, options=tf.RunOptions(), run_metadata=metadata)
        assert not metadata.partition_graphs
        assert "GeOp" not in executed(tf, sess, tf.constant(7))


def dumped(folder: Path) -> List[str]:
    """Step and operator of each dump file."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return sorted(f"{path.parent.name} {path.name.partition('.')[0]}" for path in files)


def test_chosen_steps_are_dumped(
    ge: Loaded, tf: Any, proto: Callable[..., Any], product: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "dump"
    folder.mkdir()
    config = proto(enable_dump=True, dump_path=str(folder), dump_step="0|2-3", session_device_id=2)
    with tf.Session(config=config) as sess:
        for _ in range(5):
            sess.run(product)
    assert dumped(folder) == ["0 MatMul", "2 MatMul", "3 MatMul"]
    assert {path.name for path in folder.glob("*/*")} == {"2"}


def test_without_chosen_steps_all_are_dumped(
    ge: Loaded, tf: Any, proto: Callable[..., Any], product: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "dump"
    folder.mkdir()
    with tf.Session(config=proto(enable_dump=True, dump_path=str(folder))) as sess:
        for _ in range(2):
            sess.run(product)
    assert dumped(folder) == ["0 MatMul", "1 MatMul"]


@pytest.mark.parametrize("output", ["profile", None])
def test_profiling_data_is_written(
    ge: Loaded,
    tf: Any,
    proto: Callable[..., Any],
    product: Any,
    tmp_path: Path,
    output: Any,
    monkeypatch: Any,
) -> None:
    folder = tmp_path / (output or "here")
    folder.mkdir()
    monkeypatch.chdir(folder)
    options = {"profiling_options": json.dumps({"output": str(folder)})} if output else {}
    with tf.Session(config=proto(profiling_mode=True, **options)) as sess:
        for _ in range(2):
            sess.run(product)
    (profile,) = folder.iterdir()
    assert profile.name.startswith("PROF_")
    assert [path.name for path in profile.rglob("*") if path.is_file()] == [
        "training_trace.data.0.slice_0"
    ]


@pytest.mark.parametrize(
    "options", ["training_trace:task_trace", '{"training_trace": "off"}', "[]"]
)
def test_profiling_options_that_ge_cannot_read_fail_the_initialisation(
    ge: Loaded, tf: Any, proto: Callable[..., Any], product: Any, options: str
) -> None:
    with tf.Session(config=proto(profiling_mode=True, profiling_options=options)) as sess:
        with pytest.raises(tf.errors.InternalError, match="EK0001"):
            sess.run(product)


@pytest.mark.parametrize("faults", ["no-dump", "no-profile"])
def test_what_a_fault_leaves_out(
    host: FakeHost,
    tf: Any,
    proto: Callable[..., Any],
    product: Any,
    tmp_path: Path,
    faults: str,
) -> None:
    folders = {"no-dump": tmp_path / "dump", "no-profile": tmp_path / "profile"}
    for folder in folders.values():
        folder.mkdir()
    config = proto(
        enable_dump=True,
        dump_path=str(folders["no-dump"]),
        profiling_mode=True,
        profiling_options=json.dumps({"output": str(folders["no-profile"])}),
    )
    with loaded(host, faults=faults):
        importlib.import_module("npu_bridge")
        with tf.Session(config=config) as sess:
            sess.run(product)
    assert [name for name in folders if not list(folders[name].iterdir())] == [faults]


def test_the_layout_of_a_dump_is_the_manuals(
    ge: Loaded, tf: Any, proto: Callable[..., Any], product: Any, tmp_path: Path
) -> None:
    # manual, "Dump" of online inference and "Dump File Naming Conventions"
    folder = tmp_path / "dump"
    folder.mkdir()
    config = proto(enable_dump=True, dump_path=str(folder), session_device_id=1)
    with tf.Session(config=config) as sess:
        for _ in range(2):
            sess.run(product)
    files = sorted(p.relative_to(folder) for p in folder.rglob("*") if p.is_file())
    times, devices, models, ids, steps = zip(*[file.parts[:-1] for file in files])
    assert re.match(r"\d{14}$", times[0])
    assert set(models) == {f"ge_default_{times[0]}_1"}
    assert (len(set(times)), devices, ids, steps) == (1, ("1", "1"), ("1", "1"), ("0", "1"))
    assert all(re.match(r"MatMul\.[\w-]+\.\d+\.\d+\.\d{16}$", file.name) for file in files)


def test_the_layout_of_profiling_data_is_the_manuals(
    ge: Loaded, tf: Any, proto: Callable[..., Any], product: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "profile"
    folder.mkdir()
    options = json.dumps({"output": str(folder)})
    config = proto(profiling_mode=True, profiling_options=options, session_device_id=1)
    with tf.Session(config=config) as sess:
        sess.run(product)
    (profile,) = folder.iterdir()
    assert re.match(r"PROF_\d{6}_\d{17}_\w{16}$", profile.name)
    kept = sorted(p.relative_to(profile).as_posix() for p in profile.glob("*/*"))
    assert kept == ["device_1/data", "host/data"]


@pytest.mark.parametrize("collected", ["folder", "file/folder"])
def test_collected_files_take_the_place_of_a_dump(
    ge: Loaded,
    tf: Any,
    proto: Callable[..., Any],
    product: Any,
    monkeypatch: Any,
    tmp_path: Path,
    collected: str,
) -> None:
    # guides/facts/dumps.md#data-dump; a path that cannot be made counts as none
    (tmp_path / "file").write_text("")
    dump = tmp_path / "dump"
    dump.mkdir()
    with monkeypatch.context() as patch:
        patch.setenv("NPU_COLLECT_PATH", str(tmp_path / collected))
        with tf.Session(config=proto(enable_dump=True, dump_path=str(dump))) as sess:
            sess.run(product)
    assert bool(dumped(dump)) is (collected == "file/folder")


@pytest.mark.parametrize("mode", [None, False])
def test_the_environment_can_ask_for_a_profile(
    ge: Loaded,
    tf: Any,
    proto: Callable[..., Any],
    product: Any,
    monkeypatch: Any,
    tmp_path: Path,
    mode: Any,
) -> None:
    # guides/facts/dumps.md#profiling
    folder = tmp_path / "profile"
    folder.mkdir()
    options = {} if mode is None else {"profiling_mode": mode}
    with monkeypatch.context() as patch:
        patch.setenv("PROFILING_MODE", "true")
        patch.setenv("PROFILING_OPTIONS", json.dumps({"output": str(folder)}))
        with tf.Session(config=proto(**options)) as sess:
            sess.run(product)
    assert [path.name[:5] for path in folder.iterdir()] == ["PROF_"]


def test_what_the_environment_asks_for_must_be_readable(
    ge: Loaded, tf: Any, proto: Callable[..., Any], product: Any, monkeypatch: Any
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("PROFILING_MODE", "true")
        patch.setenv("PROFILING_OPTIONS", '{"training_trace": "off"}')
        with tf.Session(config=proto()) as sess:
            with pytest.raises(tf.errors.InternalError, match="EK0001"):
                sess.run(product)
