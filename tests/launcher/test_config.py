"""What a launch may be asked, and how a wrong wish is refused."""

import os
from typing import Any, Dict

import pytest

from ascend_session.errors import ConfigError
from ascend_session.launcher.plan.config import OWNED, LaunchConfig


def test_what_is_not_asked_has_the_documented_default() -> None:
    config = LaunchConfig(script="train.py")
    assert (config.grace, config.max_restarts, config.show, config.backend) == (
        10,
        0,
        "all",
        "auto",
    )
    assert config.processes is config.devices is config.stall_timeout is None


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "exactly one of script, module and program; given: none"),
        ({"script": "a.py", "module": "b"}, "given: script and module"),
        ({"script": ""}, "script takes a text that is not empty, not ''"),
        ({"script": 3}, "script takes a text that is not empty, not 3"),
        (
            {"module": "a/b.py"},
            "module takes a module's name, such as package.module, not 'a/b.py'",
        ),
        ({"program": "true", "python": "python3"}, "a program is started without Python"),
        ({"args": "--epochs 3"}, "args takes a list of texts, not '--epochs 3'"),
        (
            {"args": ["--epochs", 3]},
            "args takes a text without NUL characters in each place, not 3",
        ),
        ({"processes": 0}, "processes takes a number of processes, 1 to 10000, not 0"),
        ({"processes": True}, "processes takes a number of processes, 1 to 10000, not True"),
        ({"processes": 10001}, "processes takes a number of processes, 1 to 10000, not 10001"),
        ({"grace": -1}, "grace takes a number of seconds, 0 or more, not -1"),
        ({"grace": float("nan")}, "grace takes a number of seconds, 0 or more, not nan"),
        ({"stall_timeout": 0}, "stall_timeout takes a number of seconds above 0, not 0"),
        ({"max_restarts": 1.5}, "max_restarts takes a number of restarts, 0 or more, not 1.5"),
        ({"timestamps": 1}, "timestamps takes True or False, not 1"),
        ({"show": ""}, "show takes a text that is not empty"),
        ({"env": ["A=1"]}, "env takes a mapping of names to values"),
        ({"env": {"A=B": "1"}}, "env takes a variable's name without = in each place, not 'A=B'"),
        ({"env": {"A": 1}}, "env takes a text as the value of A, not 1"),
        ({"rank_table": "t.json", "no_rank_table": True}, "and no_rank_table are both given"),
        ({"chief_port": 4000}, "chief_port=4000 has no effect: only a job without"),
        ({"chief_port": 65521, "no_rank_table": True}, "chief_port takes a port, 1 to 65520"),
        ({"chief_ip": "here", "no_rank_table": True}, "chief_ip takes an IPv4 or IPv6 address"),
        ({"job_id": "my job"}, "job_id='my job' has characters other than letters, digits"),
        ({"job_id": "0815"}, "job_id='0815' is a number that begins with 0"),
        ({"job_id": "a" * 121}, "has 121 characters; it may have 120"),
    ],
)
def test_a_wrong_wish_is_refused(asked: Dict[str, Any], said: str) -> None:
    command = (
        {} if {"script", "module", "program"} & set(asked) or not asked else {"script": "a.py"}
    )
    with pytest.raises(ConfigError) as refused:
        LaunchConfig(**{**command, **asked})
    assert said in refused.value.message
    assert len(refused.value.problems) == 1


@pytest.mark.parametrize("text", ["a\0", "\ud800"])
@pytest.mark.parametrize("name", ["args", "env", "cwd", "log_dir", "events", "python"])
def test_what_no_program_can_be_given_is_refused(name: str, text: str) -> None:
    value: Any = {"args": [text], "env": {"A": text}}.get(name, text)
    with pytest.raises(ConfigError, match=f"^{name} takes a text") as refused:
        LaunchConfig(script="a.py", **{name: value})
    assert "NUL characters" in str(refused.value.hint)


def test_bytes_that_are_no_text_can_be_passed_on() -> None:
    name = os.fsdecode(b"\xff")
    assert LaunchConfig(script=name, args=[name], env={name: name}).script == name


def test_all_problems_are_said_at_once() -> None:
    wrong: Dict[str, Any] = {"processes": -1, "grace": "long", "env": {"A": 1}}
    with pytest.raises(ConfigError, match="3 problems in the launch") as refused:
        LaunchConfig(script="a.py", **wrong)
    assert [problem.option for problem in refused.value.problems] == ["processes", "grace", "env"]


@pytest.mark.parametrize("name", sorted(OWNED))
def test_what_the_launcher_itself_says_cannot_be_added(name: str) -> None:
    with pytest.raises(ConfigError, match=f"env sets {name}, which the launcher") as refused:
        LaunchConfig(script="a.py", env={name: "1"})
    assert refused.value.hint == OWNED[name]


def test_a_config_does_not_change_with_what_it_was_made_of() -> None:
    args, env, devices = ["--epochs"], {"A": "1"}, [0, 1]
    config = LaunchConfig(script="a.py", args=args, env=env, devices=devices)
    args.append("3")
    env["B"] = "2"
    devices.append(2)
    assert (config.args, config.env, config.devices) == (("--epochs",), {"A": "1"}, (0, 1))
