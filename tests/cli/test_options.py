"""``ascend-session options``, in pipes."""

import json

import pytest

from ascend_session.config.reference import all_options, describe_values


def test_without_a_name_each_option_is_one_line(call):
    called = call("options")
    heading, *lines = called.out.splitlines()
    assert called.code == 0
    assert heading.split() == ["OPTION", "VALUES", "SCOPE", "WHAT", "IT", "DOES"]
    assert [line.split()[0] for line in lines] == [option.path for option in all_options()]


@pytest.mark.parametrize("words", [(), ("mixed", "precision")], ids=["all", "some"])
def test_the_columns_of_the_list_are_aligned_in_a_pipe(call, words):
    heading, *lines = call("options", *words).out.splitlines()
    starts = [heading.index(head) for head in ("VALUES", "SCOPE", "WHAT")]
    assert lines
    for line in lines:
        assert all(line[start - 2 : start] == "  " != line[start] for start in starts), line


def test_nothing_is_cut_in_a_pipe(call):
    lines = {line.split()[0]: line for line in call("options").out.splitlines()}
    for option in all_options():
        assert describe_values(option.type) in lines[option.path]
        assert option.doc in lines[option.path]


def test_a_line_has_values_default_scope_and_a_sentence(call):
    [line] = [each for each in call("options").out.splitlines() if each.startswith("buffer_opt")]
    assert [cell.strip() for cell in line.split("  ") if cell.strip()] == [
        "buffer_optimize",
        "one of 2 values",
        "session",
        "L2 buffer optimisation switch. Default: 'l2_optimize'. "
        "Values: 'l2_optimize', 'off_optimize'.",
    ]


def test_deprecated_options_say_so_in_the_list(call):
    lines = {line.split()[0]: line for line in call("options").out.splitlines()}
    assert "debug info. Deprecated: use op_debug_config." in lines["op_debug_level"]
    assert "layout. Deprecated." in lines["variable_format_optimize"]
    assert "still writes. Deprecated." in lines["min_group_size"]


def test_a_name_prints_all_about_the_option(call):
    assert call("options", "hccl_timeout") == (
        0,
        """\
hccl_timeout
How long devices wait for each other in collectives.

Write       AscendConfig(hccl_timeout=...)
In a file   hccl_timeout: ...
Values      int, 0 to 2147483647
Unit        s
Default     product, when nothing is sent: 1836
Scope       init: read only by the first initialisation of a process; later values are ignored
            also sent at scope 'session'
Applies to  950/A3/A2: 0..2147483647, 0 = never; Atlas training and 300I Duo: 1..17340, \
rounded down to a multiple of 68 with a minimum of 68
Key         hccl_timeout in the NpuOptimizer entry, field i (integer)
Group       Time limits
Rules       Atlas training products round hccl_timeout down to a multiple of 68 seconds. \
[guides/facts/launch.md#hccl-timeouts]
            In a cluster stream_sync_timeout (ms) must be longer than hccl_timeout (s). \
[guides/facts/options.md#time-limits; manual, NPURunConfig Options]
            On this host: With several ranks stream_sync_timeout (ms) exceeds HCCL_EXEC_TIMEOUT \
(s), or is -1. [guides/facts/options.md#time-limits; manual, NPURunConfig Options]
            On this host: hccl_timeout takes precedence over HCCL_EXEC_TIMEOUT. \
[guides/facts/options.md#time-limits]
            On this host: HCCL takes the value of each of its variables. \
[guides/facts/launch.md#hccl-variables]
Manual      NPURunConfig Options
""",
        "",
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("enable_data_pre_proc", "Default     adapter: False\n            NPURunConfig: True\n"),
        ("enable_data_pre_proc", "Deprecated  yes\n"),
        ("op_debug_level", "Deprecated  yes; use op_debug_config\n"),
        ("op_debug_level", "its value stays in the process after its session is closed\n"),
        ("min_group_size", "Deprecated  yes, and it no longer has any effect\n"),
        ("precision_mode", "Newer       precision_mode_v2\n"),
        ("dump_step", 'Form       Steps to dump: "0|3-5|10", or ints,'),
        ("dump_step", "Default    none\n"),
        ("profiling_options", "           training_trace: 'on'\n"),
        ("profiling_mode", "Key        profiling_mode in the NpuOptimizer entry, field b (bool)\n"),
        ("op_debug_config", "At opening: When a system opens,"),
        ("jit_compile", "Values      'true': compiles operators, which then run faster\n"),
        (
            "op_select_implmode",
            "\n            'high_precision_for_all', 'high_performance_for_all'\n",
        ),
    ],
)
def test_what_is_special_about_an_option_is_said(call, name, said):
    called = call("options", name)
    assert called.code == 0
    assert said in called.out


def test_an_option_without_a_key_shows_none(call):
    assert "\nKey " not in call("options", "model_dir").out
    assert "\nIn a file" not in call("options", "session_config").out


def test_words_list_what_mentions_them(call):
    lines = call("options", "dump", "overflow").out.splitlines()
    assert [line.split()[0] for line in lines] == [
        "OPTION",
        "dump_config.enable_dump_debug",
        "dump_config.dump_debug_mode",
    ]


def test_several_names_list_these_options(call):
    lines = call("options", "work_path", "hccl_timeout").out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["work_path", "hccl_timeout"]


def test_words_that_only_one_option_has_print_all_about_it(call):
    assert call("options", "lazy_recompile") == call("options", "dynamic_graph_execute_mode")


def test_a_name_of_the_past_is_one_and_says_what_replaced_it(call):
    code, out, err = call("options", "auto_tune_mode")
    assert (code, out) == (1, "")
    assert err.startswith("ascend-session: error: auto_tune_mode is a known name, but ")
    assert err.endswith(" Use aoe_mode ('1', '2', '4').\n")


def test_an_unknown_name_is_one_and_gets_a_suggestion(call):
    assert call("options", "precison_mod") == (
        1,
        "",
        "ascend-session: error: No option is named 'precison_mod', and none mentions it.\n"
        "  hint: Did you mean precision_mode?\n",
    )


def test_json_is_an_array_of_options_however_many_there_are(call):
    assert [o["path"] for o in json.loads(call("options", "--json").out)] == [
        option.path for option in all_options()
    ]
    [option] = json.loads(call("options", "dump_path", "--json").out)
    assert option["write"] == "AscendConfig(dump_config=DumpConfig(dump_path=...))"
    assert [rule["when"] for rule in option["rules"]].count("host") == 1


def test_each_option_has_all_its_keys_in_json(call):
    options = json.loads(call("options", "--json").out)
    assert {tuple(option) for option in options} == {
        (
            *("name", "path", "group", "doc", "write", "write_file", "key", "field", "types"),
            *("values", "allowed", "low", "high", "unit", "grammar", "members"),
            "meanings",
            *("adapter_default", "run_config_default", "product_default", "scope", "also"),
            *("sticky", "applies_to", "deprecated", "dead", "use", "rules", "manual", "schema"),
            "scope_meaning",
        )
    }


def test_json_of_nothing_is_an_empty_array_and_one(call):
    code, out, err = call("options", "--json", "fp_point")
    assert (code, json.loads(out)) == (1, [])
    assert "it is a member of profiling_options" in err
