"""Configurations of this package, in all the ways in which scripts write them."""

import os

import pytest

import ascend_session
import ascend_session as asc
from ascend_session import AscendConfig, ConfigError, DumpConfig
from ascend_session import AscendConfig as Config

MODE = "allow_mix_precison"
first = AscendConfig(precison_mode="force_fp16")  # expect: unknown-argument
second = Config(precision_mode=MODE)  # expect: value-not-allowed
third = asc.AscendConfig(hcom_parallel=1)  # expect: value-not-allowed
fourth = ascend_session.AscendConfig(iterations_per_loop="10")  # expect: value-not-allowed
fifth = AscendConfig(static_memory_policy=1)  # expect: unknown-argument
sixth = AscendConfig(precision_mode="force_fp16", precision_mode_v2="fp16")  # expect: option-conflict
dump = DumpConfig(True, "dump", dump_mod="all")  # expect: unknown-argument
seventh = AscendConfig(dump_config=dump)
eighth = AscendConfig(dump_config=DumpConfig(enable_dump=True))  # expect: option-conflict
ninth = AscendConfig(
    dump_config=DumpConfig(enable_dump=True, dump_path=os.environ["DUMP"], dump_mode="al"),  # expect: value-not-allowed
)

right = AscendConfig(precision_mode="force_fp16", graph_run_mode=None)
other = right.replace(precision_mode_v2="fp16")  # expect: option-conflict
other = right.replace(precision_mode=None, precision_mode_v2="fp16")
worse = right.replace(graph_run_mode=2).replace(graph_run_mode=1)  # expect: value-not-allowed


def build(mode, **others):
    AscendConfig(precision_mode=mode, precision_mode_v2="fp16")
    AscendConfig(mix_compile_mode=True, iterations_per_loop=int(os.environ["STEPS"]))
    AscendConfig(dump_config=DumpConfig(enable_dump=True, **others))
    AscendConfig(precision_mode_v2="fp16", **others)
    return AscendConfig(precision_mode_v2="fp17", **others)  # expect: value-not-allowed


def expected_to_fail():
    with pytest.raises(ConfigError):
        AscendConfig(precison_mode="force_fp16")
    try:
        AscendConfig(aoe_mode="7")
    except ConfigError as error:
        print(error)
    return "text".replace("a", "b"), os.path.replace(precison_mode="x")


def not_expected_to_fail():
    try:
        import settings
    except ImportError:
        settings = AscendConfig(aoe_mode="7")  # expect: value-not-allowed
    else:
        AscendConfig(aoe_mode="8")  # expect: value-not-allowed
    finally:
        AscendConfig(aoe_mode="9")  # expect: value-not-allowed
    try:
        return AscendConfig(aoe_mode="7").replace(graph_run_mode=1), settings  # expect: value-not-allowed
    finally:
        print("nobody catches it")
