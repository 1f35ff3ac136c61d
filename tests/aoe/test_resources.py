"""Disk, memory and CPUs against the manual's numbers and formulas."""

import os
import subprocess

import pytest

from ascend_session.aoe import machine as measured
from ascend_session.aoe.conditions import (
    KnownFacts,
    check_resources,
    count_cpus_needed,
    format_value,
)
from ascend_session.aoe.machine import (
    Parallel,
    count_compilers,
    count_tuners,
    measure_machine,
)
from ascend_session.errors import ConfigError
from tests.aoe.conftest import ROOM, planned
from tests.fake_host import FakeHost

GIB = 2**30


def _run(machine=ROOM, mode="2", processes=1, memory=4 * GIB, parallel=8, devices=1, **counts):
    """A run on that machine; ``counts`` are numbers of threads or processes as they are found."""
    known = Parallel(parallel, "aoe.ini has it" if parallel else "no aoe.ini was found")
    counts = {"tuners": known, "compilers": Parallel(8, "TE_PARALLEL_COMPILER is 8"), **counts}
    return planned(machine, mode, KnownFacts(processes, memory), devices, **counts)


def _found(machine=ROOM, **run):
    return {one.name: one for one in check_resources(_run(machine, **run))}


def test_a_machine_with_room_fulfils_everything():
    assert {one.verdict for one in _found().values()} == {"ok"}


# By hand, from the manual of AOE:
# P x (TE + TUNING + min(cores / 2, 8) + 50), P x (2 x TUNING + TE).
@pytest.mark.parametrize(
    ("mode", "processes", "tuning", "compiling", "cores", "needed"),
    [
        ("2", 1, 8, 8, 96, 74),
        ("2", 1, 8, 8, 16, 74),
        ("2", 1, 8, 8, 15, 74),  # 73.5
        ("2", 2, 8, 8, 15, 147),  # 2 x 73.5
        ("2", 1, 1, 1, 2, 53),
        ("2", 8, 64, 32, 192, 1232),
        ("1", 1, 8, 8, 96, 24),
        ("1", 3, 4, 1, 1, 27),
    ],
)
def test_cpus_follow_the_formulas(mode, processes, tuning, compiling, cores, needed):
    assert count_cpus_needed(mode, processes, tuning, compiling, cores) == needed


@pytest.mark.parametrize(("cpus", "verdict"), [(73, "fails"), (74, "ok")])
def test_as_many_cpus_as_recommended_are_enough(cpus, verdict):
    found = _found(ROOM._replace(cpus=cpus, all_cpus=cpus))["CPUs"]
    assert (found.verdict, found.measured, found.needed) == (verdict, cpus, 74)
    assert f"1 x (8 + 8 + min({cpus}/2, 8) + 50) = 74" in found.message


@pytest.mark.parametrize(("free", "verdict"), [(20 * GIB - 1, "fails"), (20 * GIB, "ok")])
def test_twenty_gigabytes_of_the_home_directory_are_enough(free, verdict):
    found = _found(ROOM._replace(home_free=free))["home disk"]
    assert (found.verdict, found.measured, found.needed) == (verdict, free, 20 * GIB)


def test_a_home_directory_that_cannot_be_looked_at_fails():
    machine = ROOM._replace(home_free=None, home_problem="cannot be looked at: Is a fault")
    found = _found(machine)["home disk"]
    assert found.verdict == "fails"
    assert found.message == "The home directory /home/tuner cannot be looked at: Is a fault."


@pytest.mark.parametrize(("memory", "verdict"), [(32 * GIB - 1, "fails"), (32 * GIB, "ok")])
def test_memory_is_needed_once_for_each_tuning_thread(memory, verdict):
    found = _found(ROOM._replace(memory=memory))["memory"]
    assert (found.verdict, found.measured, found.needed) == (verdict, memory, 32 * GIB)


def test_what_is_not_known_is_asked_for():
    found = _found(memory=None, parallel=None)
    asked = {name: one.asks for name, one in found.items() if one.verdict == "not checked"}
    assert asked == {
        "TUNING_PARALLEL_NUM": ("tuning_parallel_num",),
        "memory": ("training_memory", "tuning_parallel_num"),
        "CPUs": ("tuning_parallel_num",),
    }
    assert found["memory"].measured == ROOM.memory


def test_too_little_for_one_thread_fails_however_many_there_are():
    small = ROOM._replace(cpus=16, all_cpus=16, memory=GIB)
    found = _found(small, parallel=None)
    assert found["CPUs"].verdict == found["memory"].verdict == "fails"
    assert found["CPUs"].message.endswith("50) = 67 or more.")


def test_gradients_have_no_formula():
    assert _found(mode="4")["CPUs"].verdict == "not checked"


def test_a_process_that_is_bound_to_some_cpus_is_said_with_both_numbers():
    found = _found(ROOM._replace(cpus=80))["CPU pinning"]
    assert (found.verdict, found.measured, found.needed) == ("fails", 80, 96)
    assert "taskset" in str(found.hint)


def test_the_numbers_are_those_of_df_free_and_nproc(monkeypatch):
    # Of a control group, which may limit this very test, `free` knows nothing.
    monkeypatch.setattr(measured, "measure_memory_left", lambda: None)

    def asked(*words):
        ran = subprocess.run(words, stdout=subprocess.PIPE, check=True, env={**os.environ})
        return ran.stdout.decode()

    machine = measure_machine({"HOME": "/tmp"})
    slack = 256 * 2**20  # others write, and take memory, meanwhile
    df = int(asked("df", "-B1", "--output=avail", "/tmp").split()[-1])
    assert machine.home_free == pytest.approx(df, abs=slack)
    free = int(asked("free", "-b").splitlines()[1].split()[-1])
    assert machine.memory == pytest.approx(free, abs=slack)
    assert machine.cpus == int(asked("nproc"))
    assert machine.all_cpus == int(asked("nproc", "--all"))


def test_a_home_that_is_not_there_is_no_crash(tmp_path):
    machine = measure_machine({"HOME": str(tmp_path / "none")})
    assert machine.home_free is None
    assert machine.home_problem == "cannot be looked at: No such file or directory"


def test_room_in_a_home_that_this_user_cannot_write_to_is_none(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, rights: path != str(tmp_path))
    machine = measure_machine({"HOME": str(tmp_path)})
    assert machine.home_free is None
    assert machine.home_problem == "cannot be written to by this user"


@pytest.mark.parametrize(
    ("given", "number", "legal"),
    [
        (None, 8, True),
        ("", 8, True),
        ("1", 1, True),
        ("32", 32, True),
        ("33", 33, False),
        ("0", 0, False),
        ("-1", -1, False),
        ("8.5", None, False),
    ],
)
def test_compilers_are_as_many_as_the_variable_says(given, number, legal):
    environ = {} if given is None else {"TE_PARALLEL_COMPILER": given}
    found = count_compilers(environ)
    assert (found.number, found.legal) == (number, legal)


def test_a_number_that_the_compiler_does_not_take_fails_and_is_not_counted_with():
    found = _found(compilers=count_compilers({"TE_PARALLEL_COMPILER": "99"}))
    assert found["TE_PARALLEL_COMPILER"].verdict == "fails"
    assert found["CPUs"].verdict == "not checked"


@pytest.mark.parametrize(("devices", "verdict"), [(1, "ok"), (3, "ok"), (4, "fails")])
def test_compilers_are_few_enough_for_each_device(devices, verdict):
    # guides/facts/aoe.md#resources-of-aoe: at most cores x 0.8 / devices;
    # 96 x 0.8 / 4 = 19.2
    twenty = count_compilers({"TE_PARALLEL_COMPILER": "20"})
    found = _found(devices=devices, compilers=twenty)["TE_PARALLEL_COMPILER"]
    assert found.verdict == verdict
    assert verdict == "ok" or found.hint == "export TE_PARALLEL_COMPILER=19"


def test_the_default_number_of_compilers_is_nobodys_fault():
    small = ROOM._replace(cpus=2, all_cpus=2)
    found = _found(small, compilers=count_compilers({}))
    assert found["TE_PARALLEL_COMPILER"].verdict == "ok"


class TestTuners:
    """Where TUNING_PARALLEL_NUM is from."""

    @pytest.fixture
    def host(self, tmp_path):
        return FakeHost(tmp_path / "host")

    def test_what_is_given_counts_before_the_file(self, host):
        host.aoe_ini("4")
        found = count_tuners(2, host.environ, str(host.root))
        assert found.number == 2

    @pytest.mark.parametrize(("text", "number"), [("4", 4), ("64", 64)])
    def test_the_toolkits_file_says_it(self, host, text, number):
        host.aoe_ini(text)
        found = count_tuners(None, host.environ, str(host.root))
        assert (found.number, found.legal) == (number, True)
        assert "aoe.ini has" in found.origin

    def test_the_file_of_the_toolkit_that_the_environment_names_comes_first(self, host):
        host.aoe_ini("4")
        host.write("opt/cann/conf/aoe.ini", "TUNING_PARALLEL_NUM=16\n")
        environ = {**host.environ, "ASCEND_TOOLKIT_HOME": "/opt/cann"}
        assert count_tuners(None, environ, str(host.root)).number == 16

    def test_a_file_without_the_number_means_the_default(self, host):
        host.write("usr/local/Ascend/cann/conf/aoe.ini", "RUN_LOOP = 10\n")
        assert count_tuners(None, host.environ, str(host.root)).number == 8

    @pytest.mark.parametrize("text", ["0", "65", "many", ""])
    def test_a_number_that_aoe_does_not_take_fails(self, host, text):
        host.aoe_ini(text)
        found = count_tuners(None, host.environ, str(host.root))
        assert not found.legal
        conditions = _found(tuners=found)
        assert conditions["TUNING_PARALLEL_NUM"].verdict == "fails"
        assert conditions["CPUs"].verdict == "not checked"

    @pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
    def test_what_is_no_file_does_not_say_it(self, host, make):
        path = host.aoe_ini("4")
        path.unlink()
        make(str(path))
        assert count_tuners(None, host.environ, str(host.root)).number is None

    def test_without_a_file_it_is_not_known(self, host):
        assert count_tuners(None, host.environ, str(host.root)).number is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("processes", 0),
        ("processes", None),
        ("training_memory", -1),
        ("device_cores", 1.5),
        ("tuning_parallel_num", 65),
        ("tuning_parallel_num", True),
        ("static_operators", "yes"),
    ],
)
def test_numbers_that_cannot_be_are_refused_by_name(name, value):
    with pytest.raises(ConfigError) as failed:
        KnownFacts(**{name: value})
    assert f"{name}={value!r}" in str(failed.value) or f"{name}={value}" in str(failed.value)


def test_sizes_are_shown_rounded_down():
    assert format_value(20 * GIB - 1, "bytes") == "19.9 GiB"
    assert format_value(20 * GIB, "bytes") == "20 GiB"
    assert [format_value(74, "CPUs"), format_value("off"), format_value(None, "bytes")] == [
        "74 CPUs",
        "off",
        "-",
    ]


def test_one_is_no_plural():
    assert [format_value(1, "CPUs"), format_value(1, "cores"), format_value(1, "")] == [
        "1 CPU",
        "1 core",
        "1",
    ]
    found = _found(ROOM._replace(cpus=1, all_cpus=1))["CPUs"]
    assert found.message.startswith("This process may use 1 CPU. Recommended are ")
