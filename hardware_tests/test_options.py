"""Options whose effect can be seen from outside."""

from pathlib import Path
from typing import Any

from ascend_session import AscendConfig, DumpConfig, ascend_session
from hardware_tests.graphs import product
from hardware_tests.running import run


def test_dumps_are_written_for_the_steps_asked_for_and_no_others(tf: Any, tmp_path: Path) -> None:
    config = AscendConfig(
        dump_config=DumpConfig(enable_dump=True, dump_path=str(tmp_path), dump_step="0|2")
    )
    fetch, feed, _ = product(tf)
    with ascend_session(config, backend="npu") as sess:
        for _ in range(4):
            sess.run(fetch, feed)
    # <path>/<time>/<device>/<model's name>/<model's number>/<step>/<operator's file>
    # as the vendor's manual of data dump has it.
    assert {file.parent.name for file in files_in(tmp_path)} == {"0", "2"}


def test_profiling_writes_data(tmp_path: Path) -> None:
    ended = run("profiling", str(tmp_path))
    assert (ended.code, ended.said) == (0, ["computed"]), ended.log
    assert files_in(tmp_path)


def files_in(folder: Path) -> Any:
    """All files below a folder."""
    return [path for path in folder.rglob("*") if path.is_file()]
