"""What is said of one configuration file."""

import json
import os
import threading

import pytest

from ascend_session.config.file_report import report_file, resolved_entry
from ascend_session.config.files import spell_as_in_file
from ascend_session.findings import ERROR, Finding


@pytest.fixture
def report(tmp_path):
    def report(text, environ=None, name="config.yaml"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return report_file(str(path), environ)

    return report


def test_a_right_file_has_a_configuration_and_no_remarks(report):
    found = report("deterministic: 1\n")
    assert found.ok
    assert found.config.values() == {"deterministic": 1}
    assert (found.problems, found.warnings) == ((), ())


def test_problems_have_line_option_and_hint_apart_from_the_message(report):
    found = report("deterministic: 1\nprecision_mode: Force_fp32\n")
    assert not found.ok
    assert found.config is None
    [problem] = found.problems
    assert (problem.place.line, problem.option) == (2, "precision_mode")
    assert problem.message.startswith("precision_mode='Force_fp32' is not one of ")
    assert problem.hint == "Write precision_mode='force_fp32'."


def test_all_problems_are_there_with_their_sources(report):
    found = report("precision_mode: force_fp16\nprecision_mode_v2: fp16\nhccl_timout: 3\n")
    assert [problem.place.line for problem in found.problems] == [3, 1]
    assert found.problems[1].source == "guides/facts/precision.md#precision-modes; npu_attrs.cc"


def test_a_value_that_yaml_misreads_hides_no_other_line(report):
    found = report("""\
precison_mode: x
iterations_per_loop: 010
graph_run_mode: 7
job: 1:30
soc_config: 2020-99-99
dump_config:
  dump_step:
    - 0
    - 010
itertions_per_loop: 010
[a]: 1
[b]: 1
""")
    lines = sorted((problem.place.line, problem.option) for problem in found.problems)
    assert lines == [
        (1, "precison_mode"),
        (2, "iterations_per_loop"),
        (3, "graph_run_mode"),
        (4, "job"),
        (5, "soc_config"),
        (9, "dump_config.dump_step"),
        (10, "itertions_per_loop"),
        (10, "itertions_per_loop"),
        (11, ""),
        (12, ""),
    ]
    [job] = [problem for problem in found.problems if problem.option == "job"]
    assert str(job) == "4:6: YAML reads 1:30 as 90. Write 90, or '1:30' if it is text."


def test_text_and_names_that_are_not_utf_8_hide_no_other_line(report):
    text = 'job: "\\udc80"\nprecison_mode: x\nmemory_config: {"\\udc80": 1}\n"\\udc81": 2\n'
    found = report(f"{text}graph_run_mode: 7\n")
    lines = {problem.place.line: problem.option for problem in found.problems}
    assert lines == {
        1: "job",
        2: "precison_mode",
        3: "memory_config.\udc80",
        4: "\udc81",
        5: "graph_run_mode",
    }
    assert json.loads(json.dumps(found.to_dict()))["ok"] is False


def test_rules_name_options_as_the_file_does(report):
    def messages(text):
        found = report(text)
        return [str(spell_as_in_file(each)) for each in (*found.problems, *found.warnings)]

    assert messages("variable_placement: Host\n") == [
        "1:1: variable_placement: 'Host' needs mixed computing; mix_compile_mode is off. "
        "Add mix_compile_mode: true."
    ]
    assert messages("profiling_config: {profiling_options: {task_trace: 'on'}}\n") == [
        "1:20: profiling_options have no effect: they are read with profiling_mode: true, which is "
        "enable_profiling: true in a profiling_config. Turn profiling on, or leave "
        "profiling_options out.",
        "1:20: profiling_options: task_trace: 'on' asks for training_trace: 'on' too. "
        'Add "training_trace":"on".',
    ]
    assert messages("dynamic_input_config: {input_shape: 'a:-1'}\n") == [
        "1:24: input_shape without dynamic_dims and dynamic_node_type: the adapter aborts the "
        "process unless all three are there. Add dynamic_dims and dynamic_node_type to the "
        "dynamic_input_config."
    ]


def test_warnings_have_lines_and_do_not_refuse(report):
    found = report("deterministic: 1\nhccl_timeout: 600\n")
    assert found.ok
    assert [(each.place.line, each.option) for each in found.warnings] == [(2, "hccl_timeout")]
    assert found.warnings[0].message.startswith("hccl_timeout=600 becomes 544 s")


def test_a_rule_that_names_the_key_gets_the_line_of_the_option(report):
    text = "profiling_config:\n  enable_profiling: false\n"
    found = report(text, {"PROFILING_MODE": "true"})
    assert [(each.place.line, each.option) for each in found.warnings] == [(2, "profiling_mode")]


def test_the_host_is_checked_only_with_an_environment(report):
    text = "dump_config:\n  enable_dump: true\n  dump_path: no/such/folder\n"
    assert report(text).ok
    [problem] = report(text, {}).problems
    assert problem.place.line == 3
    assert "does not exist" in problem.message


def test_problems_of_the_host_leave_the_configuration_readable(report):
    found = report("aoe_mode: '2'\nwork_path: no/such/folder\n", {})
    assert not found.ok
    assert found.config.values() == {"aoe_mode": "2", "work_path": "no/such/folder"}


def test_the_environment_given_is_the_one_that_is_read(report):
    assert report("deterministic: 1\n", {"AOE_MODE": "9"}).problems[0].option == "AOE_MODE"
    assert report("deterministic: 1\n", {}).ok


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a: [1\n", 2, "this is not YAML"),
        ("", None, "this is empty; write options as 'name: value' lines."),
        ("- 1\n", None, "this is a list; write options as 'name: value' lines."),
    ],
)
def test_text_that_is_no_configuration_is_one_problem_of_the_file(report, text, line, said):
    [problem] = report(text).problems
    assert (problem.place and problem.place.line, problem.option) == (line, None)
    assert problem.message.startswith(said)


def test_a_missing_file_is_a_problem_and_no_exception(tmp_path):
    name = str(tmp_path / "missing.yaml")
    assert report_file(name).problems == (Finding(ERROR, "does not exist."),)


def test_a_file_name_full_of_signs_does_not_confuse_the_lines(report):
    [problem] = report("deterministic: 7\n", name="a+(b):3: c.yaml").problems
    assert problem.place.line == 1
    assert problem.message == "deterministic=7 is not one of 0, 1."


def test_a_pipe_is_read_once(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(str(pipe))
    writer = threading.Thread(target=pipe.write_text, args=("hccl_timeout: 600\n",))
    writer.start()
    found = report_file(str(pipe))
    writer.join()
    assert found.ok
    assert [each.place.line for each in found.warnings] == [1]


def test_the_report_can_be_written_as_json(report):
    data = json.loads(json.dumps(report("hccl_timeout: 600\n").to_dict()))
    assert data["ok"] is True
    assert data["problems"] == []
    assert set(data["warnings"][0]) == {"line", "option", "message", "hint", "source"}


def test_the_entry_has_keys_values_fields_and_scopes(report):
    text = "experimental_config: {accelerate_train_mode: [fast, step, 0.9]}\nmodel_dir: out\n"
    config = report(text + "quant_dumpable: '1'\nmin_group_size: true\n").config
    entry = [tuple(each.values()) for each in resolved_entry(config)]
    assert entry == [
        ("quant_dumpable", "1", "s", "session"),
        ("experimental_accelerate_train_mode", "fast|step|0.9", "s", "pass"),
        ("min_group_size", True, "b", "unread"),
    ]
