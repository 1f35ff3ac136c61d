"""Each member of profiling_options says what its manual allows, and no more."""

import json

import pytest

from ascend_session.config.reference import find, members_of
from tests.config.written import profiling_fault, profiling_options

MEMBERS = list(members_of(find("profiling_options")))

SWITCHES = ["hccl", "aicpu", "l2", "msproftx", "runtime_api", "instr_profiling"]

LEGAL = [
    *[(name, value) for name in SWITCHES for value in ("on", "off")],
    *[(name, value) for name in ("task_trace", "task_time") for value in ("on", "l0", "l2", "")],
    ("training_trace", "on"),
    ("ge_api", "off"),
    ("ge_api", "l0"),
    ("ge_api", "l1"),
    ("output", "/home/test/output"),
    ("output", "./a b"),
    ("storage_limit", "200MB"),
    ("storage_limit", "4294967295MB"),
    ("fp_point", ""),
    ("bp_point", "scope/conv1"),
    ("aic_metrics", "PipeUtilization"),
    ("aic_metrics", "L2Cache"),
    ("aic_metrics", "Custom:0x49,0x8,0x15,0x1b,0x64,0x10"),
    ("aic_metrics", "Custom:1,110,0x6E"),
    ("sys_hardware_mem_freq", 1),
    ("sys_hardware_mem_freq", 100),
    ("sys_io_sampling_freq", 100),
    ("sys_interconnection_freq", 50),
    ("dvpp_freq", 100),
    ("instr_profiling_freq", 300),
    ("instr_profiling_freq", 30000),
    ("host_sys_usage_freq", 50),
    ("llc_profiling", "read"),
    ("llc_profiling", "write"),
    ("host_sys", "cpu"),
    ("host_sys", "cpu,mem,disk,network,osrt"),
    ("host_sys_usage", "cpu,mem"),
    ("aic_metrics", "ScalarRatio"),
    ("aic_metrics", "Custom: 0x1"),
    ("aic_metrics", ""),
    ("training_trace", ""),
    ("host_sys", "numa"),
    ("sys_hardware_mem_freq", 10000),
    ("task_block", "all"),
    ("task_tsfw", "on"),
    ("sys_cpu_freq", 50),
    ("sys_lp_freq", 100),
    ("task_memory", ""),
    ("sys_mem_serviceflow", "all"),
    ("storage_limit", ""),
    ("host_sys", ""),
    ("host_sys_usage", ""),
]


@pytest.mark.parametrize(("name", "value"), LEGAL)
def test_what_the_manual_allows_is_legal(name, value):
    assert json.loads(profiling_options({name: value})) == {name: value}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[(name, value) for name in SWITCHES for value in ("On", "l0", "on ")],
        ("training_trace", "l0"),
        ("task_trace", "l3"),
        ("task_block", ""),
        ("task_memory", "x"),
        ("task_tsfw", "all"),
        ("sys_cpu_freq", 0),
        ("sys_cpu_freq", 51),
        ("sys_lp_freq", 101),
        ("sys_mem_serviceflow", ""),
        ("ge_api", "on"),
        ("output", ""),
        ("output", "a\tb"),
        *[("output", f"/a{character}b") for character in "\"'\\%><|&$;`"],
        ("storage_limit", "200"),
        ("storage_limit", "0MB"),
        ("storage_limit", "4294967296MB"),
        ("storage_limit", "200 MB"),
        ("storage_limit", "1GB"),
        ("aic_metrics", "pipeutilization"),
        ("aic_metrics", "Custom:"),
        ("aic_metrics", "Custom:0x0"),
        ("aic_metrics", "Custom:0x6F"),
        ("aic_metrics", "Custom:111"),
        ("aic_metrics", "Custom:1,2,3,4,5,6,7,8,9"),
        ("sys_hardware_mem_freq", 0),
        ("sys_hardware_mem_freq", 10001),
        ("sys_hardware_mem_freq", 5.0),
        ("sys_interconnection_freq", 51),
        ("instr_profiling_freq", 299),
        ("instr_profiling_freq", 30001),
        ("host_sys_usage_freq", 51),
        ("llc_profiling", "on"),
        ("host_sys", "cpu,"),
        ("host_sys", "cpu mem"),
        ("host_sys", "cpu, mem"),
        ("host_sys", "cpu|mem"),
        ("host_sys_usage", "disk"),
    ],
)
def test_anything_else_is_named_with_what_is_accepted(name, value):
    wrong, right = profiling_fault(name, value)
    assert wrong.startswith(f"{name} is {value!r} and must be ")
    assert list(right) == [name]


def test_training_trace_off_gets_the_advice_to_leave_it_out():
    wrong, right = profiling_fault("training_trace", "off")
    assert wrong == "training_trace is 'off' and must be 'on' (leave it out to switch it off)"
    assert right == {"training_trace": "on"}


def test_a_bool_gets_the_word_about_yaml():
    wrong, right = profiling_fault("task_trace", True)
    assert "must be text in quotes (YAML reads a bare on as True)" in wrong
    assert right == {"task_trace": "on"}


@pytest.mark.parametrize("value", [50, None, ["on"], {}, 1.5])
def test_a_value_that_is_no_text_is_refused(value):
    wrong, right = profiling_fault("aicpu", value)
    assert wrong == f"aicpu is {value!r} and must be text in quotes (it is not a number)"
    assert right == {"aicpu": "on"}


@pytest.mark.parametrize("value", ["50Hz", "05", "", None, True, 5.0, [50]])
def test_a_frequency_in_json_is_a_whole_number_without_quotes(value):
    wrong, right = profiling_fault("dvpp_freq", value)
    assert wrong == (
        f"dvpp_freq is {value!r} and must be a whole number without quotes, 1 to 100 (Hz)"
    )
    assert right == {"dvpp_freq": 100}


@pytest.mark.parametrize("name", ["scale", "op_trace", "profile_memory", "ascendcl"])
def test_a_member_that_ge_does_not_know_is_refused(name):
    wrong, _ = profiling_fault(name, "on")
    assert wrong == f"there is no member {name!r} (GE aborts on one that it does not know)"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("traing_trace", "training_trace"),
        ("task_traces", "task_trace"),
        ("L2", "l2"),
        ("aicmetrics", "aic_metrics"),
        ("aiv_metrics", "aic_metrics"),
        ("sys_hardware_mem", "sys_hardware_mem_freq"),
    ],
)
def test_a_near_miss_is_refused_with_the_name_that_was_meant(name, meant):
    wrong, right = profiling_fault(name, "on")
    assert wrong == f"there is no member {name!r} (did you mean {meant!r}?)"
    assert list(right) == [meant]


def test_a_name_that_is_no_text_is_refused():
    wrong, _ = profiling_fault(1, "on")
    assert wrong == "1 is not a member name (text is needed)"


def test_no_known_member_is_a_near_miss_of_another_and_its_example_is_legal():
    for name in MEMBERS:
        wrong, right = profiling_fault(name, 5.5)
        assert wrong.startswith(f"{name} is 5.5 and must be ")
        assert list(right) == [name]
        assert json.loads(profiling_options(right)) == right
