import subprocess
import sys
from pathlib import Path

import pytest

from ascend_session import process


def run(program):
    ended = subprocess.run(
        [sys.executable, "-c", f"import os, sys\nfrom ascend_session import process\n{program}"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    return ended.returncode, ended.stdout.split(), ended.stderr


def test_what_was_opened_is_closed_in_the_stated_order_whichever_came_first():
    _, words, errors = run(
        "for name in reversed(process.CLOSING_ORDER):\n"
        "    process.on_close(name, lambda name=name: print(name))\n"
    )
    assert (tuple(words), errors) == (process.CLOSING_ORDER, "")


def test_a_second_function_of_a_name_replaces_the_first():
    _, words, _ = run(
        "process.on_close('record', lambda: print('first'))\n"
        "process.on_close('record', lambda: print('second'))\n"
    )
    assert words == ["second"]


def test_functions_that_a_program_registers_after_the_last_opening_run_before_it_is_closed():
    _, words, _ = run(
        "import atexit\n"
        "process.on_close('record', lambda: None)\n"
        "atexit.register(print, 'before opening')\n"
        "process.on_close('exchange', lambda: print('closed'))\n"
        "atexit.register(print, 'after')\n"
    )
    assert " ".join(words) == "after closed before opening"


def test_the_report_comes_after_the_handlers_of_the_program_whenever_they_were_registered():
    _, words, _ = run(
        "import atexit\n"
        "process.on_close('report', lambda: print('reported'))\n"
        "atexit.register(print, 'before opening')\n"
        "process.on_close('system', lambda: print('closed'))\n"
        "atexit.register(print, 'after')\n"
    )
    assert " ".join(words) == "after closed before opening reported"


def test_what_a_handler_of_the_program_opens_at_exit_is_closed_as_well():
    _, words, _ = run(
        "import atexit\n"
        "def open_once_more():\n"
        "    print('opened')\n"
        "    process.on_close('system', lambda: print('closed'))\n"
        "atexit.register(open_once_more)\n"
        "process.on_close('system', lambda: print('first'))\n"
        "atexit.register(open_once_more)\n"
    )
    assert " ".join(words) == "opened closed opened closed"


def test_what_is_said_at_exit_closes_nothing_earlier_than_it_would_be():
    _, words, _ = run(
        "import atexit\n"
        "process.on_close('system', lambda: print('closed'))\n"
        "atexit.register(print, 'the script')\n"
        "process.on_close('advice', lambda: print('advice'))\n"
    )
    assert " ".join(words) == "advice the script closed"


def test_a_signal_in_an_exit_handler_does_not_take_the_others_out_of_their_places():
    _, words, _ = run(
        "import atexit\n"
        "atexit.register(print, 'the vendor')\n"
        "process.on_close('system', lambda: print('closed'))\n"
        "atexit.register(lambda: process.on_close('signal', lambda: print('signal')))\n"
    )
    assert " ".join(words) == "signal closed the vendor"


def test_what_is_closed_is_closed_once():
    _, words, errors = run(
        "process.on_close('exchange', lambda: print('closed'))\n"
        "process.on_close('system', lambda: 1 / 0)\n"
    )
    assert words == ["closed"]
    assert errors.count("ZeroDivisionError") == 1


def test_one_that_raises_keeps_the_others_from_nothing_and_is_shown():
    _, words, errors = run(
        "process.on_close('exchange', lambda: 1 / 0)\n"
        "process.on_close('record', lambda: print('recorded'))\n"
    )
    assert words == ["recorded"]
    assert "ZeroDivisionError" in errors


def test_a_name_without_a_place_in_the_order_is_refused():
    with pytest.raises(ValueError, match="'nothing' has no place in CLOSING_ORDER: advice, "):
        process.on_close("nothing", lambda: None)


def test_only_what_imports_nothing_and_what_the_vendor_registers_has_hooks_of_its_own():
    package = Path(process.__file__).parent
    hooks = ("atexit.register(", "register_at_fork(")
    files = [
        str(path.relative_to(package))
        for path in sorted(package.rglob("*.py"))
        if any(hook in path.read_text(encoding="utf-8") for hook in hooks)
    ]
    assert files == [
        "compat/npu_bridge/__init__.py",
        "process.py",
        "witness.py",
    ]


def test_a_forked_child_forgets_in_the_order_given_and_closes_nothing_of_its_parent():
    code, words, errors = run(
        "process.on_close('record', lambda: print('parent closed', flush=True))\n"
        "process.on_fork(lambda: print('one', flush=True))\n"
        "process.on_fork(lambda: print('two', flush=True))\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    print('child', flush=True)\n"
        "    sys.exit(3)\n"
        "_, status = os.waitpid(child, 0)\n"
        "sys.exit(os.WEXITSTATUS(status))\n"
    )
    assert " ".join(words) == "one two child parent closed"
    assert (code, errors) == (3, "")


def test_a_forked_child_forgets_everything_even_if_one_function_fails():
    code, words, errors = run(
        "process.on_fork(lambda: 1 / 0)\n"
        "process.on_fork(lambda: print('forgotten', flush=True))\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    sys.stderr.flush()\n"
        "    os._exit(0)\n"
        "os.waitpid(child, 0)\n"
    )
    assert (code, words) == (0, ["forgotten"])
    assert "ZeroDivisionError" in errors


def test_a_forked_child_closes_what_it_has_opened_itself():
    _, words, _ = run(
        "process.on_close('record', lambda: print('parent', flush=True))\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    process.on_close('exchange', lambda: print('child', flush=True))\n"
        "    sys.exit()\n"
        "os.waitpid(child, 0)\n"
    )
    assert words == ["child", "parent"]


# What a compiled library of the parent does at the end of a process: it removes the marker.
FORKED = """
import atexit, ctypes, threading, time
libc = ctypes.CDLL(None)
libc.strdup.restype = ctypes.c_void_p
path = libc.strdup(sys.argv[1].encode())  # which outlives Python
libc.__cxa_atexit(libc.remove, ctypes.c_void_p(path), None)
child = os.fork()
if not child:
    if sys.argv[2] == "skip":
        process.skip_exit_handlers_of_parent()
    exec(sys.argv[3])
else:
    status = os.waitpid(child, 0)[1]
    print("left", os.path.exists(sys.argv[1]), "status", status, flush=True)
    os._exit(0)
"""


def end_child(tmp_path, program, how="skip"):
    marker = tmp_path / "marker"
    marker.write_text("")
    begin = "import os, sys\nfrom ascend_session import process\n"
    ended = subprocess.run(
        [sys.executable, "-c", begin + FORKED, str(marker), how, program],
        capture_output=True,
        text=True,
        timeout=60,
    )
    return ended.stdout.splitlines(), ended.stderr


def test_a_forked_child_inherits_what_libraries_do_at_the_end(tmp_path):
    lines, _ = end_child(tmp_path, "pass", "inherit")
    assert lines == ["left False status 0"]


@pytest.mark.parametrize(
    ("program", "said", "code", "error"),
    [
        ("pass", [], 0, ""),
        ("sys.stdout.write('not flushed')", ["not flushed"], 0, ""),
        ("libc.printf(b'of C')", ["of C"], 0, ""),
        ("sys.exit(3)", [], 3, ""),
        ("sys.exit('no data')", [], 1, "no data"),
        ("raise KeyError('x')", [], 1, "KeyError: 'x'"),
        ("atexit.register(print, 'at exit')", ["at exit"], 0, ""),
        (
            "threading.Timer(0.2, print, ['thread']).start(); atexit.register(print, 'after')",
            ["thread", "after"],
            0,
            "",
        ),
        ("grandchild = os.fork(); grandchild and os.waitpid(grandchild, 0)", [], 0, ""),
    ],
)
def test_a_child_that_skips_it_ends_otherwise_as_any_process(tmp_path, program, said, code, error):
    lines, errors = end_child(tmp_path, program)
    *before, last = "\n".join(lines).replace("left", "\nleft").split("\n")
    assert last == f"left True status {code << 8}"
    assert [line for line in before if line] == said
    assert errors.strip().endswith(error)
    assert bool(errors) == bool(error)


def test_the_frames_of_all_threads_are_found_while_there_is_garbage_to_collect():
    program = """
import gc, threading
gc.set_threshold(1)
for _ in range(20):
    over = threading.Event()
    threads = [threading.Thread(target=over.wait) for _ in range(5)]
    for thread in threads:
        thread.start()
    gc.disable()
    ring = [threading.local()]  # what frees it takes the lock that is held while frames are made
    ring[0].value = 1
    ring.append(ring)
    del ring
    gc.enable()
    print(len(process.find_frames()), gc.isenabled())
    over.set()
    for thread in threads:
        thread.join()
"""
    assert run(program) == (0, ["6", "True"] * 20, "")


def test_a_child_that_skips_it_writes_what_c_holds_for_any_file(tmp_path):
    path = tmp_path / "of_c"
    program = (
        "libc.fopen.restype = ctypes.c_void_p\n"
        f"file = libc.fopen({str(path)!r}.encode(), b'w')\n"
        "libc.fputs(b'of C', ctypes.c_void_p(file))\n"
    )
    assert end_child(tmp_path, program) == (["left True status 0"], "")
    assert path.read_text() == "of C"
