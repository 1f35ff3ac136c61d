"""The AscendConfig that --port prints for a script."""

from pathlib import Path

import pytest

from ascend_session.audit import port_script

BLOCK = """\
from npu_bridge.npu_init import *
config = tf.ConfigProto()
op = config.graph_options.rewrite_options.custom_optimizers.add()
op.name = "NpuOptimizer"
op.parameter_map["precision_mode"].s = tf.compat.as_bytes("allow_mix_precision")
op.parameter_map["iterations_per_loop"].i = 10
op.parameter_map["enable_data_pre_proc"].b = True
op.parameter_map["profiling_mode"].b = 1
op.parameter_map["graph_slice"].s = b"auto"
op.parameter_map["dump_path"].s = tf.compat.as_bytes(args.path)
op.parameter_map["no_such_key"].b = True
op.parameter_map["min_group_size"].b = True
if args.dump:
    op.parameter_map["enable_dump"].b = True
sess = tf.Session(config=config)
"""


def made(code):
    """The configuration that the printed code makes."""
    names = {}
    exec(code.partition("\nwith ")[0], names)
    return names["cfg"]


@pytest.mark.filterwarnings("ignore::ascend_session.AscendConfigWarning")
def test_what_the_script_surely_says_is_carried_over_and_the_rest_is_named():
    ((line, code),) = port_script("a.py", BLOCK.encode())
    assert line == 3
    assert made(code).parameter_map() == {
        "iterations_per_loop": 10,
        "precision_mode": "allow_mix_precision",
        "profiling_mode": True,
        "graph_slice": "auto",
        "enable_data_pre_proc": True,
    }
    remarks = [each for each in code.split("\n") if each.startswith("#")]
    assert remarks == [
        "# line 10, dump_path: Give dump_config.dump_path what the script gives it.",
        "# line 11, no_such_key: The adapter has no key 'no_such_key' and silently ignores it.",
        "# line 12, min_group_size: It no longer has any effect.",
        "# line 14, enable_dump: The script sets it in one branch only: "
        "dump_config.enable_dump=True.",
    ]


@pytest.mark.parametrize(
    "script", sorted((Path(__file__).parent / "data").glob("*.py")), ids=lambda path: path.stem
)
def test_what_is_printed_is_always_a_script(script):
    for entry in port_script(script.name, script.read_bytes()):
        compile(entry.code, script.name, "exec")


def test_a_script_without_options_gives_nothing():
    assert port_script("a.py", b"print(1)\n") == []
