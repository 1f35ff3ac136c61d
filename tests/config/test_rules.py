"""Every rule between options: a configuration that it speaks up about, and one that comes near."""

import warnings
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import pytest
import yaml

from ascend_session import AscendConfig, AscendConfigWarning, ConfigError
from ascend_session.config.option import options_by_key
from ascend_session.config.options import AdapterOptions
from ascend_session.config.rules import HOST_RULES, RULES
from ascend_session.config.rules.paths import OPENING_RULES
from ascend_session.config.rules.rule import FlatOptions, Rule, RuleBook, apply_rules
from ascend_session.findings import ERROR

Values = Dict[str, Any]

TABLE: Dict[str, List[Dict[str, Any]]] = yaml.safe_load(
    (Path(__file__).parent / "data" / "rules.yaml").read_text(encoding="utf-8")
)
BY_NAME = {rule.check.__name__: rule for rule in RULES}
KNOWN = options_by_key(AdapterOptions)
LONG = {f"PROFILES_{n}": ";".join(str(i + 1) for i in range(n)) for n in (100, 101)}


class Case(NamedTuple):
    """One configuration, by vendor keys, and what a rule has to say about it."""

    rule: str
    given: Values
    option: Optional[str]
    refuses: bool
    says: Tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.rule}-{','.join(self.given)}"


def case(rule: str, row: Dict[str, Any]) -> Case:
    values = row["near"] if "near" in row else row["given"]
    given = {key: LONG.get(str(value), value) for key, value in values.items()}
    option = row.get("error", row.get("warning"))
    return Case(rule, given, option, "error" in row, tuple(row.get("says", ())))


CASES = [case(rule, row) for rule, rows in TABLE.items() for row in rows if rule in BY_NAME]
TRIGGERING = [one for one in CASES if one.option is not None]
NEAR = [one for one in CASES if one.option is None]


def configured(values: Values) -> AscendConfig:
    """An AscendConfig with each key where it belongs."""
    said: Dict[str, Any] = {}
    for key, value in values.items():
        inside = said
        *parts, name = KNOWN[key].path.split(".")
        for part in parts:
            inside = inside.setdefault(part, {})
        inside[name] = value
    return AscendConfig(**said)


def test_every_rule_has_a_triggering_case_and_a_near_one_and_no_case_lacks_its_rule() -> None:
    assert len(BY_NAME) == len(RULES), "two rules have the same name"
    assert {one.rule for one in TRIGGERING} == set(BY_NAME)
    assert {one.rule for one in NEAR} == set(BY_NAME)
    assert set(TABLE) == set(BY_NAME)


def test_a_missing_file_is_found_beside_an_aoe_mode_that_is_refused() -> None:
    entry = FlatOptions({"insert_op_file": "no/such/file"}, refused={"aoe_mode"})
    found = [finding.option for finding in apply_rules(OPENING_RULES, entry)]
    assert found == ["insert_op_file"]


def test_a_rule_about_a_key_that_no_option_has_is_refused_when_it_is_registered() -> None:
    with pytest.raises(ValueError, match="about precison_mode, which"):
        RuleBook().add("aoe_mode", "precison_mode")


@pytest.mark.parametrize("one", TRIGGERING, ids=str)
def test_a_rule_finds_what_it_is_about_and_the_configuration_says_it(one: Case) -> None:
    rule = BY_NAME[one.rule]
    [finding] = rule.findings(FlatOptions(one.given))
    assert finding.option.split(".")[-1] == one.option
    assert (finding.severity == ERROR) == one.refuses
    assert [text for text in one.says if text not in str(finding)] == []
    listed = {key: one.given[key] for key in rule.keys or one.given if key in one.given}
    found = rule.findings(FlatOptions(listed))
    assert found == [finding], "it looks at a key that the reference does not list it under"
    if one.refuses:
        with pytest.raises(ConfigError) as refused:
            configured(one.given)
        assert finding in refused.value.problems
    else:
        with pytest.warns(AscendConfigWarning) as caught:
            config = configured(one.given)
        assert str(finding) in [str(warned.message) for warned in caught]
        assert config.values() == one.given


@pytest.mark.parametrize("one", NEAR, ids=str)
def test_a_rule_says_nothing_of_what_comes_near_and_is_accepted(one: Case) -> None:
    assert BY_NAME[one.rule].findings(FlatOptions(one.given)) == []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AscendConfigWarning)
        config = configured(one.given)
    assert config.values() == one.given


def test_a_rule_with_no_keys_of_its_own_follows_from_the_definitions() -> None:
    assert [rule.check.__name__ for rule in RULES if not rule.keys] == ["deprecated_options"]


@pytest.mark.parametrize("key", sorted(k for k, option in KNOWN.items() if option.deprecated))
def test_every_deprecated_option_is_said_to_be(key: str) -> None:
    [finding] = BY_NAME["deprecated_options"].findings(FlatOptions({key: "x"}))
    assert finding.severity != ERROR
    assert finding.option == KNOWN[key].path
    assert f"{key} is deprecated" in finding.message
    assert (KNOWN[key].replacement is None) == (finding.hint is None)


ALL = RULES + HOST_RULES + list(OPENING_RULES)


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.check.__name__)
def test_a_rule_has_known_options_a_sentence_and_a_source_and_no_complaint_without_options(
    rule: Rule,
) -> None:
    assert [key for key in rule.keys if key not in KNOWN] == []
    assert rule.sentence.endswith(".")
    assert "\n" not in rule.sentence
    assert rule.source
    assert rule.findings(FlatOptions({})) == []


def test_what_loops_need_is_not_called_deprecated_with_them() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        AscendConfig(iterations_per_loop=10, enable_data_pre_proc=True)
    with pytest.warns(AscendConfigWarning, match="enable_data_pre_proc is deprecated"):
        AscendConfig(enable_data_pre_proc=True)
