"""The rules on an entry against the verdicts of the adapter's own code.

The file has combinations of options, and what SetNpuOptimizerAttr and GetPassOptions, compiled from
the adapter's source, did with each: "ok", "error" or "abort".
"""

import importlib
import json
from pathlib import Path
from typing import Any, Callable, Dict, List

import pytest

from ascend_session.config.option import adapter_options
from ascend_session.config.options import AdapterOptions
from tests.fake_host.vendor import Loaded

VERDICTS = Path(__file__).parents[1] / "config/data/verdicts_sample.jsonl"
PROFILES = {"input_shape", "dynamic_dims", "dynamic_node_type"}


def kept(options: Dict[str, Any]) -> bool:
    """Whether the rules on an entry alone give the verdict."""
    # looked at when a graph is compiled: fake_ge/acceleration.py
    if "experimental_accelerate_train_mode" in options:
        return False
    # only GetPassOptions refuses these two together, and these rows are of the other function
    return not (set(options) >= PROFILES and options.get("mix_compile_mode"))


def verdict(checks: Any, entry: Any) -> str:
    """What the fake does with an entry."""
    broken = checks.first_broken(entry)
    if broken is None:
        return "ok"
    return "abort" if broken[0].aborts else "error"


@pytest.fixture
def rows(tmp_path: Path) -> List[Dict[str, Any]]:
    """The verdicts, with this test's folder in them."""
    (tmp_path / "file.cfg").write_text("")
    text = VERDICTS.read_text(encoding="utf-8").replace("{DIR}", str(tmp_path))
    return [row for row in map(json.loads, text.splitlines()) if kept(row["options"])]


def test_each_entry_ends_as_the_adapters_code_says(
    ge: Loaded, proto: Callable[..., Any], rows: List[Dict[str, Any]]
) -> None:
    checks = importlib.import_module("fake_ge.checks")
    read = importlib.import_module("fake_ge.entry").entries
    fields = {option.key: option.field for option in adapter_options(AdapterOptions)}
    differ = []
    for row in rows:
        given = {key: v for key, v in row["options"].items() if fields.get(key) is not None}
        found = verdict(checks, read(proto(**given))[-1])
        if found != row["status"]:
            differ.append((found, row))
    assert not differ
    assert {row["status"] for row in rows} == {"ok", "error", "abort"}
    assert len(rows) > 300
