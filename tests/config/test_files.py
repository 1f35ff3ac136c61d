"""Configurations in YAML and JSON files: what is read, and the line of everything that is wrong."""

import json
import time
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest

from ascend_session import AscendConfig, ConfigError, DumpConfig

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a file into the current directory, which is a new one."""
    monkeypatch.chdir(tmp_path)

    def write(content: Any, name: str = "config.yaml") -> Path:
        data = content if isinstance(content, bytes) else content.encode("utf-8")
        (tmp_path / name).write_bytes(data)
        return Path(name)

    return write


def refusal(path: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        AscendConfig.from_file(path)
    return caught.value


# What is read ---------------------------------------------------------------------------------


YAML = """\
# One option of each kind
precision_mode: allow_mix_precision
graph_run_mode: 1
mix_compile_mode: true
jit_compile: "true"
keep_checkpoint_every_n_hours: 2.5
dump_config:
  enable_dump: true
  dump_path: dump
  dump_step: [0, [3, 5]]
experimental_config: {graph_memory_optimize_config: {graph_slice: auto}}
"""


def test_a_yaml_file_is_read_with_the_constructors_names(write: Write) -> None:
    config = AscendConfig.from_file(write(YAML))
    assert config == AscendConfig(
        precision_mode="allow_mix_precision",
        graph_run_mode=1,
        mix_compile_mode=True,
        jit_compile="true",
        keep_checkpoint_every_n_hours=2.5,
        dump_config=DumpConfig(True, "dump", [0, (3, 5)]),
        experimental_config={"graph_memory_optimize_config": {"graph_slice": "auto"}},
    )


def test_a_json_file_is_read_with_the_constructors_names(write: Write) -> None:
    said: Dict[str, Any] = {
        "precision_mode": "force_fp32",
        "dump_config": {"enable_dump": True, "dump_path": "dump", "dump_step": [0, [3, 5]]},
    }
    expected = AscendConfig(**said)
    assert AscendConfig.from_file(write(json.dumps(said), "config.json")) == expected
    assert AscendConfig.from_file(write(json.dumps(said, indent="\t"), "tabs.json")) == expected
    assert AscendConfig.from_file(write(json.dumps(said), "config.yml")) == expected


@pytest.mark.parametrize("kind", [str, Path], ids=["str", "Path"])
def test_a_path_may_be_text_or_an_object(write: Write, kind: Any) -> None:
    path = write("deterministic: 1\n")
    assert AscendConfig.from_file(kind(path)).deterministic == 1


@pytest.mark.parametrize("name", ["config.yaml", "config.json"])
def test_a_byte_order_mark_is_no_part_of_the_first_name(write: Write, name: str) -> None:
    path = write('{"deterministic": 1}\n'.encode("utf-8-sig"), name)
    assert AscendConfig.from_file(path).deterministic == 1


def test_a_name_without_a_value_is_unset(write: Write) -> None:
    config = AscendConfig.from_file(write("precision_mode:\ndump_config:\ndeterministic: 1\n"))
    assert config == AscendConfig(deterministic=1)


def test_text_keeps_its_letters(write: Write) -> None:
    said = {"soc_config": "Ascend\u00e9\u4e2d"}
    expected = AscendConfig(soc_config="Ascend\u00e9\u4e2d")
    assert AscendConfig.from_file(write("soc_config: Ascend\u00e9\u4e2d\n")) == expected
    assert AscendConfig.from_file(write(json.dumps(said), "escaped.json")) == expected
    plain = json.dumps(said, ensure_ascii=False)
    assert AscendConfig.from_file(write(plain, "plain.json")) == expected


def test_json_text_beyond_the_first_plane_is_one_letter(write: Write) -> None:
    config = AscendConfig.from_file(write(r'{"soc_config": "\ud83d\ude00"}', "config.json"))
    assert config.soc_config == "\U0001f600"


def test_a_json_number_with_an_exponent_is_a_number(write: Write) -> None:
    config = AscendConfig.from_file(write('{"keep_checkpoint_every_n_hours": 1e3}', "config.json"))
    assert config.keep_checkpoint_every_n_hours == 1000


# Lines ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "deterministic: 1\n\n# why\niteration_per_loop: 10\n",
            "config.yaml:4: AscendConfig has no option 'iteration_per_loop'; the adapter would "
            "ignore it.\n  hint: Did you mean iterations_per_loop?",
        ),
        (
            "deterministic: 1\njit_compile: true\n",
            "config.yaml:2: jit_compile: true (bool) is not one of 'true', 'false', 'auto'.\n"
            "  hint: Write jit_compile: 'true'.",
        ),
        (
            "enable_dump: true\n",
            "config.yaml:1: AscendConfig has no option 'enable_dump'.\n"
            "  hint: Write dump_config: {enable_dump: true}.",
        ),
        (
            "dump_config:\n  dump_path: dump\n  dump_mode: both\n",
            "config.yaml:3: dump_mode: 'both' is not one of 'input', 'output', 'all'.",
        ),
        (
            "experimental_config:\n  graph_memory_optimize_config:\n    recompute: manul\n",
            "config.yaml:3: recompute: 'manul' is not one of 'auto', 'manual'.\n"
            "  hint: Write recompute: 'manual'.",
        ),
        (
            "deterministic: 1\nprecision_mode: force_fp16\nprecision_mode_v2: fp16\n",
            "config.yaml:2: precision_mode: 'force_fp16' and precision_mode_v2: 'fp16' exclude "
            "each other; the adapter fails on both.\n"
            "  hint: Keep precision_mode, which every release reads.",
        ),
        (
            'aoe_mode: "1"\nmemory_config:\n  static_memory_policy: 1\n',
            "config.yaml:3: static_memory_policy: 1 cannot be used while AOE tunes "
            "(aoe_mode: '1').\n  hint: Set static_memory_policy: 0 for the tuning run.",
        ),
        (
            "dump_config:\n- enable_dump\n",
            "config.yaml:1: dump_config: this must be a mapping, not list.\n"
            "  hint: Write dump_config: {...}.",
        ),
        (
            "dump_config:\n  enable_dump: true\n",
            "config.yaml:1: enable_dump: true needs dump_path, an existing folder that you may "
            'read and write.\n  hint: Write dump_config: {enable_dump: true, dump_path: "..."}.',
        ),
        (
            "fp_point: x\n",
            "config.yaml:1: fp_point is a known name, but no adapter reads this key; it is a "
            "member of profiling_options. Write profiling_config: {enable_profiling: true, "
            'profiling_options: {"fp_point": "..."}}.',
        ),
        (
            "recompute: auto\n",
            "config.yaml:1: AscendConfig has no option 'recompute'.\n  hint: Write "
            "experimental_config: {graph_memory_optimize_config: {recompute: 'auto'}}.",
        ),
        (
            "hcom_parallel: 1\n",
            "config.yaml:1: hcom_parallel: 1: this must be true or false, not int.\n"
            "  hint: Write hcom_parallel: true.",
        ),
        (
            "deterministic: 1\nsession_config: {}\n",
            "config.yaml:2: session_config takes a Python object and cannot be given in a file.",
        ),
        (
            "deterministic: 1\ngraph_run_mode: 1\ndeterministic: 1\n",
            "config.yaml:3: deterministic is already set in line 1.",
        ),
        (
            "dump_config:\n  dump_layer: a\n  dump_layer: b\n",
            "config.yaml:3: dump_config.dump_layer is already set in line 2.",
        ),
    ],
    ids=[
        "unknown name",
        "bool for text",
        "flat dump key",
        "value of a part",
        "value of a part of a part",
        "rule",
        "rule about a part",
        "list for a part",
        "rule that names a part",
        "former name",
        "name of a part of a part",
        "number for a bool",
        "object option",
        "given twice",
        "given twice in a part",
    ],
)
def test_a_problem_is_reported_with_its_line(write: Write, text: str, message: str) -> None:
    assert str(refusal(write(text))) == message


@pytest.mark.parametrize(
    "text",
    [
        "graph_slice: auto\n",
        "profiling_mode: true\n",
        "hcom_parallel: 1\n",
        "aoe_mode: 2\n",
        "soc_config: 310\n",
        "dump_config:\n  enable_dump_debug: true\n",
        "dump_config: yes\n",
    ],
)
def test_what_a_hint_writes_can_be_put_into_the_file(write: Write, text: str) -> None:
    hint = refusal(write(text)).hint or ""
    assert hint.startswith("Write ")
    assert hint.endswith(".")
    written = hint[len("Write ") : -1].replace("{...}", "{}")
    assert AscendConfig.from_file(write(written)) is not None


def test_several_problems_have_a_line_each(write: Write) -> None:
    error = refusal(write("jit_compile: true\nsession_config: x\n\naoe_mode: 2\n"))
    assert str(error) == (
        "3 problems in config.yaml:\n"
        "  1. config.yaml:2: session_config takes a Python object and cannot be given in a file.\n"
        "  2. config.yaml:4: aoe_mode: 2 (int) is not one of '1', '2', '4'. Write aoe_mode: '2'.\n"
        "  3. config.yaml:1: jit_compile: true (bool) is not one of 'true', 'false', 'auto'. "
        "Write jit_compile: 'true'."
    )


def test_a_json_file_has_lines_too(write: Write) -> None:
    text = '{\n\t"deterministic": 1,\n\t"iterations_per_loop": "10"\n}'
    assert str(refusal(write(text, "config.json"))) == (
        "config.json:3: iterations_per_loop: '10': this must be a whole number (int), not str.\n"
        "  hint: Write iterations_per_loop: 10, without quotes."
    )


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('aoe_mode: "1"\nprofiling_config:\n  enable_profiling: true\n', ["3"]),
        ("deterministic: 1\ndump_config:\n  enable_dump: true\n", ["2", "3"]),
    ],
    ids=["an option whose key has another name", "an option that is missing"],
)
def test_a_rule_has_a_line_whatever_it_is_about(write: Write, text: str, lines: List[str]) -> None:
    file, line, _ = str(refusal(write(text))).split(":", 2)
    assert file == "config.yaml"
    assert line in lines


# Files that hold no configuration -------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "config.yaml: this is empty; write options as 'name: value' lines."),
        ("# no more\n", "config.yaml: this is empty; write options as 'name: value' lines."),
        ("- a\n- b\n", "config.yaml: this is a list; write options as 'name: value' lines."),
        ("hello\n", "config.yaml: this is one value; write options as 'name: value' lines."),
    ],
    ids=["empty", "comment", "list", "word"],
)
def test_a_file_without_names_is_refused(write: Write, content: str, message: str) -> None:
    assert str(refusal(write(content))) == (
        f"{message}\n  hint: `ascend-session options` lists the names."
    )


@pytest.mark.parametrize(
    ("content", "name", "start"),
    [
        ("a: b: c\n", "config.yaml", "config.yaml:1: this is not YAML: "),
        ("dump_config:\n\tdump_path: dump\n", "config.yaml", "config.yaml:2: this is not YAML: "),
        ("deterministic: [1\n", "config.yaml", "config.yaml:2: this is not YAML: "),
        ("a: 1\n---\nb: 2\n", "config.yaml", "config.yaml:2: this is not YAML: "),
        ("a: !!python/object:os.system x\n", "config.yaml", "config.yaml:1: this is not YAML: "),
        ('{"a": 1,\n}', "config.json", "config.json:1: this is not JSON: "),
        ("deterministic: 1\n", "config.json", "config.json:1: this is not JSON: "),
        ("", "config.json", "config.json:1: this is not JSON: "),
    ],
    ids=["colon", "tab", "bracket", "two", "object", "comma", "YAML in JSON", "empty JSON"],
)
def test_a_file_that_cannot_be_parsed_is_refused_with_the_line(
    write: Write, content: str, name: str, start: str
) -> None:
    assert str(refusal(write(content, name))).startswith(start)


def test_a_file_in_another_encoding_is_refused(write: Write) -> None:
    path = write("# caf\u00e9\ndeterministic: 1\n".encode("latin-1"))
    assert str(refusal(path)) == "config.yaml: is not UTF-8 text (byte 5)."


def test_a_file_with_a_control_character_is_refused(write: Write) -> None:
    assert str(refusal(write("soc_config: a\0b\n"))).startswith("config.yaml")


def test_a_file_that_is_not_there_is_refused(write: Write) -> None:
    write("")
    assert str(refusal("missing.yaml")) == "missing.yaml: does not exist."


def test_a_directory_is_refused(tmp_path: Path) -> None:
    assert (
        str(refusal(tmp_path))
        == f"{tmp_path}: is a folder, not a file.\n  hint: Give the paths of the files in it."
    )


def test_what_has_no_end_is_refused_instead_of_read() -> None:
    assert str(refusal("/dev/zero")) == "/dev/zero: has more than 10,000,000 characters."


def test_an_alias_is_read_as_what_it_stands_for(write: Write) -> None:
    path = write("deterministic: &one 1\ngraph_run_mode: *one\n")
    assert AscendConfig.from_file(path) == AscendConfig(deterministic=1, graph_run_mode=1)


def test_what_a_merge_brings_in_can_be_overridden(write: Write) -> None:
    path = write("<<: {deterministic: 1, graph_run_mode: 1}\ndeterministic: 0\n")
    assert AscendConfig.from_file(path) == AscendConfig(deterministic=0, graph_run_mode=1)


def test_an_alias_inside_itself_is_refused(write: Write) -> None:
    error = refusal(write("dump_config: &all\n  enable_dump: *all\n"))
    assert str(error).startswith("config.yaml")


@pytest.mark.parametrize("key", ["[a]", "? {a: 1}\n"], ids=["list", "mapping"])
def test_a_key_that_is_no_name_is_refused_without_the_parsers_words(write: Write, key: str) -> None:
    error = refusal(write(f"{key}: 2\n"))
    assert str(error).startswith("config.yaml:1: ")
    assert "Node" not in str(error)


# Files that take long -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (f"deterministic: 1\nsoc_config: {'[' * 9000}\n", "a.yaml", "a.yaml:2: this is nested"),
        (f"soc_config: {'{a: ' * 3000}\n", "a.yaml", "a.yaml:1: this is nested"),
        ('{"soc_config":\n' + "[" * 9000, "a.json", "a.json:2: this is not JSON: this is nested"),
    ],
    ids=["lists", "mappings", "JSON"],
)
def test_deep_nesting_is_refused_at_once_with_its_line(
    write: Write, content: str, name: str, message: str
) -> None:
    path = write(content, name)
    start = time.process_time()
    assert str(refusal(path)).startswith(message)
    assert time.process_time() - start < 20  # half a second, where nothing else runs


def test_aliases_of_aliases_are_refused_before_they_fill_the_memory(write: Write) -> None:
    lines = ["l0: &l0 {x: 1}"]
    lines += [f"l{n}: &l{n} {{a: *l{n - 1}, b: *l{n - 1}}}" for n in range(1, 30)]
    assert "has more than 10,000 names" in str(refusal(write("\n".join(lines))))


def test_half_a_surrogate_pair_in_a_json_file_is_refused_with_its_line(write: Write) -> None:
    error = refusal(write('{\n"det\\ud800erministic": 1}', "config.json"))
    assert str(error).startswith("config.json:2: this is not JSON: this text has half a surrogate")
