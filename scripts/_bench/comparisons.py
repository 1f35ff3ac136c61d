"""Knows what is compared with what, and the limits that the package has set itself."""

from time import perf_counter, process_time
from typing import Any, Callable, Collection, Iterator, List, Mapping

from ascend_session import AscendConfig, MemoryConfig, ascend_session
from ascend_session.examples import digits
from collectives import collectives
from launching import launching
from output import showing
from ranktables import tables
from timing import Row, best, calls, fresh
from tuned import tuned

STEPS = 100
CLOCKS = {"by the clock": perf_counter, "processor time": process_time}


def rows(repeat: int, environ: Mapping[str, str], parts: Collection[str]) -> Iterator[Row]:
    """Measure one comparison after the other, each side ``repeat`` times."""
    if "session" in parts:
        yield importing(repeat, environ)
        yield building(repeat)
        for clock in CLOCKS:
            yield from training(repeat, clock)
        yield running(repeat)
    if "launching" in parts:
        yield from launching(repeat)
    if "output" in parts:
        yield showing(min(repeat, 5))
    if "tables" in parts:
        yield from tables(min(repeat, 5))
    if "tuned" in parts:
        yield from tuned(min(repeat, 10))
    if "collectives" in parts:
        yield from collectives(repeat)


def importing(repeat: int, environ: Mapping[str, str]) -> Row:
    """Compare the first line of a script with importing what it rests on."""
    ours = "from ascend_session import AscendConfig"
    theirs = "import attr\n@attr.define\nclass Model:\n    number: int"
    found = best({"ours": fresh(ours, environ), "theirs": fresh(theirs, environ)}, repeat)
    without = "attrs and a class of one field"
    return Row("import AscendConfig, new process", found["ours"], without, found["theirs"], 2.0)


def building(repeat: int) -> Row:
    """Compare a typical configuration and its proto with the proto alone, written by hand."""
    ours = calls(lambda: typical_config().to_config_proto(), 10)
    found = best({"ours": ours, "theirs": calls(proto_by_hand, 10)}, repeat)
    without = "the same proto by hand, with nothing checked"
    what = "a config of 13 options, and its proto"
    return Row(what, found["ours"], without, found["theirs"], 1.0, limits_ratio=False)


def training(repeat: int, clock_name: str) -> List[Row]:
    """Compare a whole training with the same in sessions that TensorFlow opens."""
    import tensorflow.compat.v1 as tf

    clock = CLOCKS[clock_name]
    model, proto = digits.Model(), digits.CONFIG.to_config_proto()
    examples, _ = digits.load_digits()
    feeds = [model.feed(b) for epoch in range(9) for b in digits.batches(examples, epoch)][:STEPS]

    def work(open_session: Callable[[], Any]) -> List[float]:
        times = [clock()]
        with open_session() as sess:
            times.append(clock())
            sess.run(model.initialize)
            times.append(clock())
            for feed in feeds:
                sess.run(model.train_step, feed)
                times.append(clock())
        times.append(clock())
        return [after - before for before, after in zip(times, times[1:])]

    works = {
        "ours": lambda: work(lambda: ascend_session(digits.CONFIG, graph=model.graph)),
        "tf.Session()": lambda: work(lambda: tf.Session(graph=model.graph)),
        "tf.Session(config=the same proto)": lambda: work(
            lambda: tf.Session(graph=model.graph, config=proto)
        ),
    }
    found = best(works, repeat)
    ours = found.pop("ours")
    what = f"open, {STEPS} steps, close; {clock_name}"
    return [Row(what, ours, without, theirs, 1.05) for without, theirs in found.items()]


def running(repeat: int) -> Row:
    """Compare ``sess.run`` in two open sessions; the margin is for the clock, nothing is added."""
    import tensorflow.compat.v1 as tf

    model, proto = digits.Model(), digits.CONFIG.to_config_proto()
    examples, _ = digits.load_digits()
    feed = model.feed(next(digits.batches(examples, 1)))
    bare = tf.Session(graph=model.graph, config=proto)
    with ascend_session(digits.CONFIG, graph=model.graph) as ours, bare as theirs:
        for sess in (ours, theirs):
            sess.run(model.initialize)
        works = {
            "ours": calls(lambda: ours.run(model.loss, feed), 10),
            "theirs": calls(lambda: theirs.run(model.loss, feed), 10),
        }
        found = best(works, 10 * repeat)
        is_same = ours.run.__func__ is theirs.run.__func__
    what = "sess.run, " + ("the same method" if is_same else "another method")
    limit = 1.05 if is_same else 0.0
    return Row(what, found["ours"], "tf.Session(config=the same proto)", found["theirs"], limit)


def typical_config() -> AscendConfig:
    """Give a configuration like that of the digits example."""
    return AscendConfig(
        graph_run_mode=1,
        precision_mode_v2="mixed_float16",
        deterministic=1,
        jit_compile="auto",
        op_compiler_cache_mode="enable",
        memory_config=MemoryConfig(atomic_clean_policy=1),
        input_fusion_size=131072,
        hcom_parallel=False,
        hccl_timeout=1836,
        op_wait_timeout=120,
        op_execute_timeout=90,
        enable_exception_dump=2,
        export_compile_stat=0,
    )


def proto_by_hand() -> Any:
    """Write what `typical_config` says in the way that is usual without this package."""
    from tensorflow.core.protobuf.config_pb2 import ConfigProto

    proto = ConfigProto(allow_soft_placement=True)
    options = proto.graph_options.rewrite_options
    options.remapping = options.OFF
    options.memory_optimization = options.OFF
    entry = options.custom_optimizers.add()
    entry.name = "NpuOptimizer"
    entry.parameter_map["graph_run_mode"].i = 1
    entry.parameter_map["precision_mode_v2"].s = b"mixed_float16"
    entry.parameter_map["deterministic"].i = 1
    entry.parameter_map["jit_compile"].s = b"auto"
    entry.parameter_map["op_compiler_cache_mode"].s = b"enable"
    entry.parameter_map["atomic_clean_policy"].i = 1
    entry.parameter_map["input_fusion_size"].i = 131072
    entry.parameter_map["hcom_parallel"].b = False
    entry.parameter_map["hccl_timeout"].i = 1836
    entry.parameter_map["op_wait_timeout"].i = 120
    entry.parameter_map["op_execute_timeout"].i = 90
    entry.parameter_map["enable_exception_dump"].i = 2
    entry.parameter_map["export_compile_stat"].i = 0
    return proto
