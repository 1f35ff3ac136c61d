"""Every rule between options and the host: what it speaks up about, and what comes near."""

import json
import os
import warnings
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple, cast

import pytest
import yaml

from ascend_session import AscendConfig, AscendConfigWarning, ConfigError, DumpConfig
from ascend_session.config.option import options_by_key
from ascend_session.config.options import AdapterOptions
from ascend_session.config.rules import HOST_RULES, RULES, validate_opening
from ascend_session.config.rules.paths import OPENING_RULES
from ascend_session.config.rules.rule import FlatOptions, Rule
from ascend_session.findings import ERROR, Finding
from ascend_session.option_files import AoeConfigFile, OpPrecision

TABLE: Dict[str, List[Dict[str, Any]]] = yaml.safe_load(
    (Path(__file__).parent / "data" / "host_rules.yaml").read_text(encoding="utf-8")
)
BY_NAME = {rule.check.__name__: rule for rule in HOST_RULES}
KNOWN = options_by_key(AdapterOptions)


class Case(NamedTuple):
    """A configuration by vendor keys, an environment, and what a rule has to say."""

    rule: str
    given: Dict[str, Any]
    environ: Dict[str, str]
    option: Optional[str]
    refuses: bool
    says: List[str]

    def __str__(self) -> str:
        return "-".join([self.rule, *self.given, *self.environ])

    def at(self, folder: Path) -> "Case":
        """The case with its paths in ``folder``."""
        values = json.loads(json.dumps(self[1:]).replace("{DIR}", str(folder)))
        return Case(self.rule, *values)

    def findings(self) -> List[Finding]:
        return BY_NAME[self.rule].findings(FlatOptions(self.given, environ=self.environ))


def case(rule: str, row: Dict[str, Any]) -> Case:
    given = row["near"] if "near" in row else row["given"]
    option = row.get("error", row.get("warning"))
    environ, says = row.get("environ", {}), row.get("says", [])
    return Case(rule, given, environ, option, "error" in row, says)


CASES = [case(rule, row) for rule, rows in TABLE.items() for row in rows if rule in BY_NAME]
TRIGGERING = [one for one in CASES if one.option is not None]
NEAR = [one for one in CASES if one.option is None]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "file.cfg").write_text("")
    (tmp_path / "typo.ini").write_text("[ByOpType]\nRelu=high_precison\n")
    (tmp_path / "many.ini").write_text("nonsense\n" * 7)
    (tmp_path / "oom.cfg").write_text("op_debug_config=oom\n")
    (tmp_path / "oom_of_a.cfg").write_text("op_debug_config=oom\nop_debug_list=a\n")
    (tmp_path / "deep.cfg").write_text('{"feature": ["deeper_opat"]}')
    (tmp_path / "gbk.ini").write_bytes("# 注释\n名=keep_fp16\n".encode("gbk"))
    (tmp_path / "large.cfg").touch()
    os.truncate(str(tmp_path / "large.cfg"), 100 << 20)
    os.mkfifo(str(tmp_path / "pipe"))
    return tmp_path


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Path]:
    """A folder that this process may not write, also when it runs as root."""
    path = tmp_path / "locked"
    path.mkdir()
    path.chmod(0o500)
    was_root = os.getuid() == 0
    if was_root:
        os.setresuid(65534, -1, -1)  # os.access asks on behalf of the real user
    yield path
    if was_root:
        os.setresuid(0, -1, -1)
    path.chmod(0o700)


def quiet(**said: Any) -> AscendConfig:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AscendConfigWarning)
        return AscendConfig(**said)


def configured(values: Dict[str, Any]) -> AscendConfig:
    """The configuration of a case, made without its warnings."""
    said: Dict[str, Any] = {}
    for key, value in values.items():
        container, _, name = KNOWN[key].path.rpartition(".")
        inside = said.setdefault(container, {}) if container else said
        inside[name] = value
    return quiet(**said)


def test_every_host_rule_has_a_triggering_case_and_a_near_one() -> None:
    assert len(BY_NAME) == len(HOST_RULES), "two rules have the same name"
    assert {one.rule for one in TRIGGERING} == set(BY_NAME)
    assert {one.rule for one in NEAR} == set(BY_NAME)
    assert set(TABLE) == set(BY_NAME)


@pytest.mark.parametrize("one", TRIGGERING, ids=str)
def test_a_host_rule_finds_what_it_is_about_and_refuses_or_warns(one: Case, folder: Path) -> None:
    one = one.at(folder)
    [finding] = one.findings()
    assert finding.option == one.option
    assert (finding.severity == ERROR) == one.refuses
    assert [text for text in one.says if text not in str(finding)] == []
    config = configured(one.given)
    if one.refuses:
        with pytest.raises(ConfigError) as refused:
            config.check_host(one.environ)
        source = BY_NAME[one.rule].source
        assert finding._replace(source=source) in refused.value.problems
        with pytest.raises(ConfigError) as not_opened:
            validate_opening(config.values(), one.environ)
        assert one.option in [problem.option for problem in not_opened.value.problems]
    else:
        with pytest.warns(AscendConfigWarning) as caught:
            config.check_host(one.environ)
        assert str(finding) in [str(warned.message) for warned in caught]


@pytest.mark.parametrize("one", NEAR, ids=str)
def test_a_host_rule_says_nothing_of_what_comes_near(one: Case, folder: Path) -> None:
    assert one.at(folder).findings() == []


def test_all_problems_of_a_host_are_reported_at_once(folder: Path) -> None:
    config = quiet(experimental_config={"graph_compiler_cache_dir": str(folder / "missing")})
    with pytest.raises(ConfigError) as caught:
        config.check_host({"AOE_MODE": "9", "ASCEND_DEVICE_ID": "x"})
    found = [problem.option for problem in caught.value.problems]
    assert found == ["graph_compiler_cache_dir", "ASCEND_DEVICE_ID", "AOE_MODE"]


def test_nothing_but_the_mapping_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOE_MODE", "9")
    AscendConfig().check_host({})
    with pytest.raises(ConfigError, match="AOE_MODE='9'"):
        AscendConfig().check_host(os.environ)


def test_a_default_time_limit_is_not_blamed_on_a_variable_that_is_not_set() -> None:
    with pytest.raises(ConfigError) as caught:
        AscendConfig(stream_sync_timeout=60000).check_host({"RANK_SIZE": "8"})
    assert "HCCL_EXEC_TIMEOUT=1836" not in str(caught.value)


@pytest.mark.parametrize(
    "said",
    [
        {"dump_config": {"enable_dump": True, "dump_path": "{DIR}"}},
        {"aoe_mode": "1", "work_path": "{DIR}"},
    ],
    ids=str,
)
def test_a_directory_that_may_not_be_written_is_refused(said: Dict[str, Any], locked: Path) -> None:
    config = quiet(**json.loads(json.dumps(said).replace("{DIR}", str(locked))))
    with pytest.raises(ConfigError, match="locked' is not readable and writable for you"):
        config.check_host({})


def test_a_cache_directory_that_may_not_be_written_is_warned_about(locked: Path) -> None:
    with pytest.warns(
        AscendConfigWarning, match="locked' is not a folder, and you cannot create it"
    ):
        AscendConfig(op_compiler_cache_dir=locked).check_host({})


# check_opening --------------------------------------------------------------------------------


def test_opening_demands_the_files_that_check_host_only_warns_about(folder: Path) -> None:
    config = AscendConfig(customize_dtypes=folder / "missing.cfg")
    with pytest.warns(AscendConfigWarning, match=r"missing\.cfg' does not exist yet"):
        config.check_host({})
    with pytest.raises(ConfigError, match=r"customize_dtypes='.*missing\.cfg' does not exist;"):
        validate_opening(config.values(), {})


def test_opening_takes_files_that_are_there(folder: Path) -> None:
    file = str(folder / "file.cfg")
    validate_opening({"customize_dtypes": file, "op_precision_mode": file}, {})


def test_opening_does_not_say_of_a_directory_that_it_does_not_exist(folder: Path) -> None:
    with pytest.raises(ConfigError, match="customize_dtypes=") as caught:
        validate_opening({"customize_dtypes": str(folder)}, {})
    assert "does not exist" not in str(caught.value)


def test_opening_names_every_file_that_is_missing_and_each_once(folder: Path) -> None:
    missing = str(folder / "none" / "file.cfg")
    config = AscendConfig(customize_dtypes=missing, op_precision_mode=missing)
    with pytest.raises(ConfigError) as caught:
        validate_opening(config.values(), {})
    found = [problem.option for problem in caught.value.problems]
    assert sorted(found) == ["customize_dtypes", "op_precision_mode"]


def test_files_that_are_read_only_while_aoe_tunes_need_not_be_there_otherwise(folder: Path) -> None:
    entry = {"aoe_config_file": "none.cfg", "distribute_config": "none.json"}
    validate_opening(entry, {})
    with pytest.raises(ConfigError) as caught:
        validate_opening(entry, {"AOE_MODE": "2"})
    found = [problem.option for problem in caught.value.problems]
    assert sorted(found) == ["aoe_config_file", "distribute_config"]


def test_what_is_there_and_no_directory_is_a_file_to_ge() -> None:
    AscendConfig(op_precision_mode="/dev/null").check_host({})
    validate_opening({"op_precision_mode": "/dev/null"}, {})


def test_opening_warns_like_check_host() -> None:
    with pytest.warns(AscendConfigWarning, match="HCCL_DETERMINISTIC=true takes precedence"):
        validate_opening({"deterministic": 1}, {"HCCL_DETERMINISTIC": "true"})


def test_a_path_that_only_a_shell_would_expand_is_explained() -> None:
    config = AscendConfig(dump_config=DumpConfig(enable_dump=True, dump_path="~/no_such_dump"))
    with pytest.raises(ConfigError, match="'~' is not expanded here"):
        config.check_host({})


def test_an_environment_that_is_no_mapping_is_refused() -> None:
    with pytest.raises(TypeError, match=r"os\.environ"):
        AscendConfig().check_host(None)  # type: ignore[arg-type]


def test_at_most_five_remarks_about_a_file_are_told(folder: Path) -> None:
    values = {"op_precision_mode": f"{folder}/many.ini"}
    found = BY_NAME["files_say_what_ge_reads"].findings(FlatOptions(values, environ={}))
    assert len(found) == 6
    assert "has 2 more such remarks" in str(found[-1])


def test_a_file_that_is_given_as_an_object_is_checked_without_a_path() -> None:
    config = quiet(aoe_mode="1", aoe_config_file=AoeConfigFile(feature=("deeper_opat",)))
    with pytest.raises(ConfigError, match="aoe_config_file: feature deeper_opat needs aoe_mode 2"):
        config.check_host({})
    AscendConfig(op_precision_mode=OpPrecision()).check_host({})


class NotingOptions(FlatOptions):
    """Options that note which keys and variables a rule asks for."""

    def __init__(self, given: Dict[str, Any], environ: Dict[str, str]) -> None:
        super().__init__(given, environ=NotingEnviron(environ))
        self.keys_read: Set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.keys_read.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.keys_read.add(str(key))
        return super().__contains__(key)

    def text(self, key: str) -> str:
        self.keys_read.add(key)
        return super().text(key)


class NotingEnviron(Dict[str, str]):
    def __init__(self, environ: Dict[str, str]) -> None:
        super().__init__(environ)
        self.names_read: Set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.names_read.add(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.names_read.add(str(name))
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.names_read.add(name)
        return super().get(name, default)


def note_what_is_read(rule: Rule, folder: Path) -> Tuple[Set[str], Set[str]]:
    """The keys and the variables that a rule asks for in any of the cases."""
    keys: Set[str] = set()
    names: Set[str] = set()
    for each in CASES:
        _, given, environ, *_ = each.at(folder)
        options = NotingOptions(given, environ)
        rule.findings(options)
        keys |= options.keys_read
        names |= cast(NotingEnviron, options.environ).names_read
    return keys, names


@pytest.mark.parametrize("value", [True, False, 0, 1, 2**40, "1", "/nowhere", "true"])
def test_rules_find_nothing_where_nothing_is_set_that_they_are_about(
    value: Any, tmp_path: Path
) -> None:
    rules = HOST_RULES + OPENING_RULES
    options = {key for rule in RULES + HOST_RULES for key in rule.keys}
    names = [note_what_is_read(rule, tmp_path)[1] for rule in rules]
    variables = set().union(*names)
    assert {"AOE_MODE", "HCCL_CONNECT_TIMEOUT", "HCCL_WHITELIST_FILE"} <= variables
    for rule, own in zip(rules, names):
        others = dict.fromkeys(options - {*rule.keys}, value)
        environ = dict.fromkeys(variables - own, str(value))
        assert list(rule.check(FlatOptions(others, environ=environ))) == [], rule.sentence


@pytest.mark.parametrize(
    "rule", [*HOST_RULES, *OPENING_RULES], ids=lambda rule: rule.check.__name__
)
def test_a_rule_about_the_host_names_all_options_that_it_reads(rule: Rule, tmp_path: Path) -> None:
    # The reference of an option lists the rules that name it.
    keys, names = note_what_is_read(rule, tmp_path)
    assert keys or names
    assert keys <= set(rule.keys)
