"""Holds the mirrored modules against the table of the vendor's, and prints what differs."""

import importlib
import inspect
import json
import sys
from pathlib import Path
from typing import Any, Iterator

from ascend_session.compat.finder import install
from ascend_session.compat.vendor_modules import signature_of

TABLE = json.loads((Path(__file__).parents[1] / "compat/vendor_surface.json").read_text())
EMPTY = inspect.Parameter.empty


def differences(release: str) -> Iterator[str]:
    for module_name, names in TABLE[release].items():
        module = importlib.import_module(module_name)
        for name, signature in names.items():
            where = f"{release} {module_name}.{name}"
            found: Any = module
            for part in name.split("."):
                found = getattr(found, part, EMPTY)
            if found is EMPTY:
                yield f"{where}: missing"
            elif signature is not None:
                yield from of_signature(where, signature_of(signature), found, release == "new")


def of_signature(where: str, vendors: Any, found: Any, exact: bool) -> Iterator[str]:
    """What calls that the vendor's takes would find different here."""
    try:
        ours = list(inspect.signature(found).parameters.values())
    except (TypeError, ValueError) as error:
        yield f"{where}: {error}"
        return
    by_name = {one.name: one for one in ours}
    theirs = list(vendors.parameters.values())
    for place, one in enumerate(theirs):
        mine = by_name.pop(one.name, None)
        if mine is None:
            yield f"{where}: no {one.name}"
        elif one.default is not EMPTY and mine.default is EMPTY:
            yield f"{where}: {one.name} must be given"
        elif exact and place < len(ours) and ours[place] is not mine:
            yield f"{where}: {one.name} is at another place"
        elif exact and one.kind is not mine.kind:
            yield f"{where}: {one.name} is {mine.kind}, not {one.kind}"
        elif exact and one.default not in (EMPTY, "...") and one.default != mine.default:
            yield f"{where}: {one.name}={mine.default!r}, not {one.default!r}"
    for one in by_name.values():
        if one.default is EMPTY and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            yield f"{where}: {one.name} is none of the vendor's, and must be given"


def star() -> Iterator[str]:
    """What ``import *`` gives, of npu_init against the two releases, of others as far as seen."""
    given: Any = {}
    exec("from ascend_session.compat.npu_bridge.npu_init import *", given)
    del given["__builtins__"]
    vendors = {name for release in TABLE.values() for name in release["npu_bridge.npu_init"]}
    yield from (f"import *: no {name}" for name in sorted(vendors - set(given)))
    yield from (f"import *: {name} is not the vendor's" for name in sorted(set(given) - vendors))
    for module in ("npu_config", "npu_estimator", "npu_hook", "npu_optimizer", "util"):
        full = f"npu_bridge.estimator.npu.{module}"
        given = {}
        exec(f"from ascend_session.compat.{full} import *", given)
        del given["__builtins__"]
        vendors = {name for release in TABLE.values() for name in release.get(full, {})}
        yield from (f"{full} *: {name} is not the vendor's" for name in set(given) - vendors)
        if "tf" in given and given["tf"] is not of_scripts():
            yield f"{full} *: tf is {given['tf'].__name__}"


def of_scripts() -> Any:
    """What ``import tensorflow as tf`` is in a script for TensorFlow 1."""
    import tensorflow

    return tensorflow if tensorflow.__version__.startswith("1.") else tensorflow.compat.v1


install()
found = [*differences("new"), *differences("old"), *star()]
sys.stdout.write("".join(f"{line}\n" for line in found) + "compared\n")
