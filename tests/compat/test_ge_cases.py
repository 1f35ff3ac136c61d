"""Our rules against recorded answers of the vendor's own code, one by one.

Each record has options (for an option that points to a file: the file's text) and what GE's code
did with them: "taken", "refused" or "ignored". "compiled" records are answers of functions compiled
from hicann/ge and the msprof library as they are; "read" ones were only read there. What the
adapter's code does is in verdicts_sample.jsonl (test_verdicts.py).
"""

import json
import warnings
from pathlib import Path
from typing import Any, Dict, List

import pytest

from ascend_session import AscendConfig, AscendConfigWarning, ConfigError
from ascend_session.compat.verdicts import judge_entry
from ascend_session.config.types import TYPE_NAMES, file_type
from ascend_session.findings import errors_of
from tests.compat.test_verdicts import in_fields
from tests.config.protos import base

RECORDS = Path(__file__).parents[1] / "config" / "data" / "ge_cases.jsonl"

# The options without which the vendor does not look at the recorded one
NEEDED: Dict[str, Dict[str, Any]] = {
    "profiling_options": {"profiling_mode": True},
    "dump_step": {"enable_dump": True, "dump_path": "/tmp"},
    "dynamic_dims": {"dynamic_node_type": 1},
    "dynamic_inputs_shape_range": {
        "dynamic_input": True,
        "dynamic_graph_execute_mode": "dynamic_execute",
    },
}

KNOWN_DIFFERENCES: Dict[str, List[Dict[str, Any]]] = {
    "file": [],
    # GE's sources contradict each other about l3.
    "run": [{"profiling_options": '{"output": "./", "task_time": "l3"}'}],
    "definition": [{"graph_exec_timeout": 0}],  # read by GE's heterogeneous runs only
}


def records(judged: str, *, by: str = "compiled") -> List[Any]:
    """List the records of one kind, as parameters of a test."""
    params = []
    for line in RECORDS.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        is_of_file = bool(set(record["options"]) & set(TYPE_NAMES))
        if record["from"] == by and is_of_file == (judged == "file"):
            differs = record["options"] in KNOWN_DIFFERENCES[judged]
            marks = [pytest.mark.xfail(strict=True)] if differs else []
            params.append(pytest.param(record, marks=marks, id=json.dumps(record["options"])[:80]))
    return params


def completed(options: Dict[str, Any]) -> Dict[str, Any]:
    needed = [NEEDED.get(key, {}) for key in options]
    return {**{k: v for each in needed for k, v in each.items()}, **options}


def is_defined(options: Dict[str, Any]) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AscendConfigWarning)
        try:
            AscendConfig.from_parameter_map(completed(options)).check_host({})
        except ConfigError:
            return False
    return True


@pytest.mark.parametrize("record", records("file"))
def test_a_file_is_read_or_refused_as_by_ge(record: Dict[str, Any]) -> None:
    ((option, text),) = record["options"].items()
    try:
        is_refused = bool(errors_of(file_type(option).check_text(text.encode())))
    except ConfigError:
        is_refused = True
    assert is_refused == (record["verdict"] == "refused")


@pytest.mark.parametrize("record", records("run"))
def test_the_run_of_a_script_ends_if_the_device_ends_it(record: Dict[str, Any]) -> None:
    found = judge_entry(base(**in_fields(completed(record["options"]))), {})
    assert bool(found.refused) == (record["verdict"] == "refused"), found.refused


@pytest.mark.parametrize("record", [*records("definition"), *records("definition", by="read")])
def test_what_the_device_refuses_no_definition_takes(record: Dict[str, Any]) -> None:
    if record["verdict"] == "refused":
        assert not is_defined(record["options"])


def test_every_known_difference_is_a_record() -> None:
    lines = RECORDS.read_text(encoding="utf-8").splitlines()
    recorded = [json.loads(line)["options"] for line in lines]
    listed = [options for kind in KNOWN_DIFFERENCES.values() for options in kind]
    assert [options for options in listed if options not in recorded] == []
