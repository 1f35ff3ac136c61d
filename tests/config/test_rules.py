"""Every rule between options: a configuration that it speaks up about, and one that comes near."""

import warnings
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import pytest
import yaml

from ascend_session import AscendConfig, AscendConfigWarning, ConfigError
from ascend_session.config.entry import Entry
from ascend_session.config.option import options_by_key
from ascend_session.config.options import AdapterOptions
from ascend_session.config.rules import HOST_RULES, RULES
from ascend_session.config.rules._rule import Rule
from ascend_session.config.rules.paths import OPENING_RULES

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


@pytest.mark.parametrize("one", TRIGGERING, ids=str)
def test_a_rule_finds_what_it_is_about(one: Case) -> None:
    [finding] = BY_NAME[one.rule].check(Entry(one.given))
    assert finding.problem.option.split(".")[-1] == one.option
    assert finding.refuses == one.refuses
    assert [text for text in one.says if text not in str(finding.problem)] == []


@pytest.mark.parametrize("one", NEAR, ids=str)
def test_a_rule_says_nothing_of_what_comes_near(one: Case) -> None:
    assert list(BY_NAME[one.rule].check(Entry(one.given))) == []


@pytest.mark.parametrize("one", [c for c in TRIGGERING if c.refuses], ids=str)
def test_an_error_refuses_the_configuration_and_carries_its_source(one: Case) -> None:
    rule = BY_NAME[one.rule]
    [finding] = rule.check(Entry(one.given))
    with pytest.raises(ConfigError) as caught:
        configured(one.given)
    assert finding.problem._replace(source=rule.source) in caught.value.problems


@pytest.mark.parametrize("one", [c for c in TRIGGERING if not c.refuses], ids=str)
def test_a_warning_is_given_and_the_configuration_is_made(one: Case) -> None:
    [finding] = BY_NAME[one.rule].check(Entry(one.given))
    with pytest.warns(AscendConfigWarning) as caught:
        config = configured(one.given)
    assert str(finding.problem) in [str(one.message) for one in caught]
    assert config.values() == one.given


@pytest.mark.parametrize("one", NEAR, ids=str)
def test_what_comes_near_is_accepted(one: Case) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AscendConfigWarning)
        config = configured(one.given)
    assert config.values() == one.given


@pytest.mark.parametrize("one", TRIGGERING, ids=str)
def test_a_rule_looks_only_at_the_keys_that_the_reference_lists_it_under(one: Case) -> None:
    rule = BY_NAME[one.rule]
    listed = {key: one.given[key] for key in rule.keys or one.given if key in one.given}
    assert list(rule.check(Entry(listed))) == list(rule.check(Entry(one.given)))


def test_a_rule_with_no_keys_of_its_own_follows_from_the_definitions() -> None:
    assert [rule.check.__name__ for rule in RULES if not rule.keys] == ["deprecated_options"]


@pytest.mark.parametrize("key", sorted(k for k, option in KNOWN.items() if option.deprecated))
def test_every_deprecated_option_is_said_to_be(key: str) -> None:
    [finding] = BY_NAME["deprecated_options"].check(Entry({key: "x"}))
    assert not finding.refuses
    assert finding.problem.option == KNOWN[key].path
    assert f"{key} is deprecated" in finding.problem.message
    assert (KNOWN[key].use is None) == (finding.problem.hint is None)


ALL = RULES + HOST_RULES + list(OPENING_RULES)


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.check.__name__)
def test_a_rule_is_about_known_options_and_has_a_sentence_and_a_source(rule: Rule) -> None:
    assert [key for key in rule.keys if key not in KNOWN] == []
    assert rule.sentence.endswith(".")
    assert "\n" not in rule.sentence
    assert rule.source


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.check.__name__)
def test_a_rule_finds_nothing_in_an_empty_configuration(rule: Rule) -> None:
    assert list(rule.check(Entry({}))) == []
