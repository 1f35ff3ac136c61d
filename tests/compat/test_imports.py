"""No import of the vendor's names fails; what only a device runs is refused when it is used.

``imports.txt`` has the different lines with which public scripts import them.
"""

import importlib
import json
import pickle
import sys
import unittest.mock
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from ascend_session import UnsupportedError
from ascend_session.compat import vendor_modules
from ascend_session.compat.finder import PACKAGES, install
from ascend_session.compat.vendor_modules import Placeholder, names_of
from tests.compat.run_scripts import run_script
from tests.compat.watching import unwatch_sessions

LINES = Path(__file__).with_name("imports.txt").read_text().splitlines()

GUIDES = Path(vendor_modules.__file__).parents[1] / "guides"
CUBE = "npu_bridge.tbe.npu_cube_ops"


@pytest.fixture
def installed(tf: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for kind in (tf.Session, tf.InteractiveSession):  # npu_init decorates them
        monkeypatch.setattr(kind, "__init__", kind.__init__)
    own = install()
    yield
    sys.meta_path.remove(own)  # type: ignore[arg-type]
    for name in [name for name in sys.modules if name.partition(".")[0] in PACKAGES]:
        del sys.modules[name]
    unwatch_sessions()


@pytest.fixture
def convolution(installed: None) -> Any:
    return importlib.import_module(CUBE).deformable_conv2d


def test_every_line_with_which_public_scripts_import_them_succeeds(tmp_path: Path) -> None:
    script = (
        f"import json\nfailed = []\nfor line in {LINES!r}:\n"
        "    try:\n        exec(line, {})\n"
        "    except BaseException as error:\n        failed.append([line, repr(error)])\n"
        "print(json.dumps(failed))\n"
    )
    ended = run_script(tmp_path, script)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == []


@pytest.mark.parametrize(
    "line",
    [
        "import npu_bridge.of_tomorrow as thing",
        "import npu_bridge.of_tomorrow.still_deeper as thing",
        "from npu_bridge import thing",
        "from npu_bridge.of_tomorrow import thing",
        "from npu_bridge.estimator.npu import thing",
        "from npu_bridge.estimator.npu_ops import thing",
        "import npu_bridge; thing = npu_bridge.npu_bridge_handle.of_tomorrow",
        "from npu_bridge._api.experimental import thing",
        "import hccl.of_tomorrow as thing",
        "from hccl.manage.api import thing",
    ],
)
def test_what_there_is_not_is_a_placeholder_that_refuses_by_name(
    installed: None, line: str
) -> None:
    names: Any = {}
    exec(line, names)
    thing = names["thing"]
    assert isinstance(thing, Placeholder)
    with pytest.raises(UnsupportedError) as refused:
        thing("anything", at=["all"])
    assert refused.value.message == (
        f"{thing.full_name} was used, but only a device runs it, and there is no Ascend processor "
        "here."
    )
    assert thing.full_name.startswith(("npu_bridge.", "hccl."))
    assert "on a machine with an Ascend processor" in str(refused.value.hint)
    with pytest.raises(UnsupportedError, match=rf"{thing.full_name}\.member was used"):
        thing.member()


def test_a_right_name_that_only_a_device_runs_is_not_doubted(installed: None) -> None:
    from npu_bridge.estimator.npu.keras_to_npu import model_to_npu_estimator  # type: ignore

    with pytest.raises(UnsupportedError) as refused:
        model_to_npu_estimator("model")
    hint = str(refused.value.hint)
    assert hint.startswith("The name is right, and not supported here. Train the Keras model with")
    assert "ascend-session guide migrate" in hint


def test_the_guide_lists_all_names_that_only_a_device_runs() -> None:
    page = (GUIDES / "migrate.md").read_text("utf-8")
    names = {name for module in vendor_modules._ON_DEVICE for name in names_of(module)}
    assert len(names) > 100
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []


def test_a_module_and_the_name_of_its_package_are_one_placeholder(installed: None) -> None:
    module = importlib.import_module("npu_bridge.profiler.profiler")
    assert importlib.import_module("npu_bridge.profiler").profiler is module
    assert importlib.import_module("npu_bridge.profiler.profiler").Profiler is module.Profiler


def test_a_star_gives_names_of_what_only_a_device_runs(installed: None) -> None:
    given: Any = {}
    for module in (CUBE, "npu_bridge.hccl.hccl_ops", "npu_bridge.npu_init"):
        exec(f"from {module} import *", given)
    for name in ("deformable_conv2d", "remote_read", "profiler", "scoped_graph_manager"):
        assert isinstance(given[name], Placeholder), name
    assert not isinstance(given["allreduce"], Placeholder)


def test_asking_what_a_placeholder_is_does_no_harm(tf: Any, convolution: Any) -> None:
    assert not isinstance(1, convolution)
    assert not isinstance(1, (str, convolution))
    assert not hasattr(convolution, "__wrapped__")
    assert not hasattr(convolution, "_as_graph_element")
    assert not hasattr(importlib.import_module("npu_bridge.estimator.npu_ops"), "__wrapped__")
    assert not hasattr(importlib.import_module(CUBE), "__file__")
    assert pickle.loads(pickle.dumps(convolution)) is convolution
    unittest.mock.create_autospec(convolution)
    one = tf.constant(1)
    with tf.Session() as session, pytest.raises(TypeError, match=rf"{CUBE}\.deformable_conv2d"):
        session.run([one, convolution])
    with pytest.raises(KeyError, match="of the script's own"):
        catch(convolution)


def catch(placeholder: Any) -> str:
    """Fail with another error than one that a script expects of the vendor's."""
    try:
        raise KeyError("of the script's own")
    except placeholder:
        return "caught"


def derive(convolution: Any) -> Any:
    """Make an object of a class that a script has derived from the placeholder."""

    class Mine(convolution):  # type: ignore[misc]
        def __init__(self) -> None:
            """Take nothing."""

    return Mine()


def decorate(convolution: Any) -> Any:
    """Use the placeholder as a decorator."""

    @convolution  # type: ignore[misc]
    def function() -> None:
        """Do nothing."""

    return function


def configure(convolution: Any) -> Any:
    """Use a member of the placeholder as a block."""
    with convolution.block(1):
        return None


@pytest.mark.parametrize("use", [derive, decorate, configure])
def test_every_use_is_refused_by_name(convolution: Any, use: Callable[[Any], Any]) -> None:
    with pytest.raises(UnsupportedError, match=rf"{CUBE}\.deformable_conv2d(\.block)? was used"):
        use(convolution)


def test_a_script_that_tries_an_import_goes_on_as_on_a_device(tmp_path: Path) -> None:
    script = (
        "try:\n"
        f"    from {CUBE} import deformable_conv2d\n"
        "    way = 'device'\n"
        "except ImportError:\n"
        "    way = 'fallback'\n"
        "print(way)\n"
        "if way == 'device':\n"
        "    deformable_conv2d(1, 2, 3)\n"
    )
    ended = run_script(tmp_path, script)
    assert ended.stdout == "device\n"
    assert ended.returncode == 1
    assert f"UnsupportedError: {CUBE}.deformable_conv2d was used" in ended.stderr
    assert 'train.py", line 8' in ended.stderr
