"""Disk, memory and CPUs against the manual's numbers and formulas."""

import os
import subprocess

import pytest

from ascend_session.aoe import AoePlan
from ascend_session.errors import ConfigError
from tests.aoe.conftest import GIB, MEMORY, TuningHost

RESOURCES = (
    "CPU pinning",
    "CPUs",
    "TE_PARALLEL_COMPILER",
    "TUNING_PARALLEL_NUM",
    "home disk",
    "memory",
)


@pytest.fixture
def found(tuning):
    """The conditions of a training that needs 4 GiB, with eight tuning threads and compilers."""

    def found(mode="operator", **known):
        environ = {name: known.pop(name) for name in list(known) if name.isupper()}
        return tuning.conditions(None, mode, environ, **{"training_memory": 4 * GIB, **known})

    return found


def test_a_machine_with_room_fulfils_everything(found):
    conditions = found()
    assert {conditions[name].verdict for name in RESOURCES} == {"ok"}


# By hand, from the manual of AOE:
# P x (TE + TUNING + min(cores / 2, 8) + 50), P x (2 x TUNING + TE).
@pytest.mark.parametrize(
    ("mode", "processes", "tuning_threads", "compiling", "cores", "needed"),
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
def test_cpus_follow_the_formulas(
    found, furnish, mode, processes, tuning_threads, compiling, cores, needed
):
    furnish(cpus=cores)
    known = {"processes": processes, "tuning_parallel_num": tuning_threads}
    assert found(mode, TE_PARALLEL_COMPILER=str(compiling), **known)["CPUs"].needed == needed


@pytest.mark.parametrize(("cpus", "verdict"), [(73, "fails"), (74, "ok")])
def test_as_many_cpus_as_recommended_are_enough(found, furnish, cpus, verdict):
    furnish(cpus=cpus)
    cpu = found()["CPUs"]
    assert (cpu.verdict, cpu.measured, cpu.needed) == (verdict, cpus, 74)
    assert f"1 x (8 + 8 + min({cpus}/2, 8) + 50) = 74" in cpu.message


@pytest.mark.parametrize(
    ("free", "verdict", "shown"), [(20 * GIB - 1, "fails", "19.9 GiB"), (20 * GIB, "ok", "20 GiB")]
)
def test_twenty_gigabytes_of_the_home_directory_are_enough_and_shown_rounded_down(
    found, furnish, free, verdict, shown
):
    furnish(free=free)
    home = found()["home disk"]
    assert (home.verdict, home.measured, home.needed) == (verdict, free, 20 * GIB)
    assert f" has {shown} free." in home.message


def test_a_home_that_is_not_there_fails(tuning, found):
    none = str(tuning.folder / "none")
    home = found(HOME=none)["home disk"]
    assert (home.verdict, home.measured) == ("fails", None)
    assert home.message == (
        f"The home directory {none} cannot be looked at: No such file or directory."
    )


def test_room_in_a_home_that_this_user_cannot_write_to_is_none(tuning, found, monkeypatch):
    allows = os.access
    monkeypatch.setattr(
        os, "access", lambda path, rights: path != str(tuning.home) and allows(path, rights)
    )
    home = found()["home disk"]
    assert (home.verdict, home.measured) == ("fails", None)
    assert home.message == (f"The home directory {tuning.home} cannot be written to by this user.")


@pytest.mark.parametrize(("memory", "verdict"), [(32 * GIB - 1, "fails"), (32 * GIB, "ok")])
def test_memory_is_needed_once_for_each_tuning_thread(found, furnish, memory, verdict):
    furnish(memory=memory)
    condition = found()["memory"]
    assert (condition.verdict, condition.measured, condition.needed) == (
        verdict,
        memory,
        32 * GIB,
    )


def test_what_is_not_known_is_asked_for(found):
    conditions = found(training_memory=None)
    assert {name: conditions[name].asks for name in RESOURCES if conditions[name].asks} == {
        "memory": ("training_memory",)
    }
    assert conditions["memory"].measured == MEMORY


def test_too_little_for_one_thread_fails_though_their_number_is_wrong(tuning, found, furnish):
    tuning.host.aoe_ini("many")
    furnish(cpus=16, memory=GIB)
    conditions = found()
    assert conditions["CPUs"].verdict == conditions["memory"].verdict == "fails"
    assert conditions["CPUs"].message.endswith("50) = 67 or more.")


def test_gradients_have_no_formula(found):
    assert found(mode="4")["CPUs"].verdict == "not checked"


def test_a_process_that_is_bound_to_some_cpus_is_said_with_both_numbers(found, furnish):
    furnish(cpus=80, online=96)
    pinning = found()["CPU pinning"]
    assert (pinning.verdict, pinning.measured, pinning.needed) == ("fails", 80, 96)
    assert "taskset" in str(pinning.hint)


def test_one_cpu_is_no_plural(found, furnish):
    furnish(cpus=1)
    assert found()["CPUs"].message.startswith("This process may use 1 CPU. Recommended: ")


def test_the_numbers_are_those_of_df_free_and_nproc(tmp_path):
    def asked(*words):
        ran = subprocess.run(words, stdout=subprocess.PIPE, check=True, env={**os.environ})
        return ran.stdout.decode()

    conditions = TuningHost(tmp_path).conditions(environ={"HOME": "/tmp"})
    slack = 256 * 2**20  # others write, and take memory, meanwhile
    df = int(asked("df", "-B1", "--output=avail", "/tmp").split()[-1])
    assert conditions["home disk"].measured == pytest.approx(df, abs=slack)
    free = int(asked("free", "-b").splitlines()[1].split()[-1])
    assert conditions["memory"].measured == pytest.approx(free, abs=slack)
    pinning = conditions["CPU pinning"]
    assert (pinning.measured, pinning.needed) == (int(asked("nproc")), int(asked("nproc", "--all")))


@pytest.mark.parametrize(
    ("given", "number", "verdict"),
    [
        (None, 8, "ok"),
        ("", 8, "ok"),
        ("1", 1, "ok"),
        ("32", 32, "ok"),
        ("33", 33, "fails"),
        ("0", 0, "fails"),
        ("-1", -1, "fails"),
        ("8.5", None, "fails"),
    ],
)
def test_compilers_are_as_many_as_the_variable_says(found, given, number, verdict):
    environ = {} if given is None else {"TE_PARALLEL_COMPILER": given}
    compilers = found(**environ)["TE_PARALLEL_COMPILER"]
    assert (compilers.measured, compilers.verdict) == (number, verdict)


def test_a_number_that_the_compiler_does_not_take_is_not_counted_with(found):
    assert found(TE_PARALLEL_COMPILER="99")["CPUs"].verdict == "not checked"


@pytest.mark.parametrize(("devices", "verdict"), [(1, "ok"), (3, "ok"), (4, "fails")])
def test_compilers_are_few_enough_for_each_device(tuning, found, devices, verdict):
    # guides/facts/aoe.md#resources-of-aoe: at most cores x 0.8 / devices;
    # 96 x 0.8 / 4 = 19.2
    tuning.add_devices(devices)
    compilers = found(TE_PARALLEL_COMPILER="20")["TE_PARALLEL_COMPILER"]
    assert compilers.verdict == verdict
    assert verdict == "ok" or compilers.hint == "export TE_PARALLEL_COMPILER=19"


def test_the_default_number_of_compilers_is_nobodys_fault(found, furnish):
    furnish(cpus=2)
    assert found()["TE_PARALLEL_COMPILER"].verdict == "ok"


class TestTuners:
    """Where TUNING_PARALLEL_NUM is from."""

    @pytest.fixture
    def tuners(self, found):
        """The condition, with what else is said."""

        def tuners(**given):
            return found(**given)["TUNING_PARALLEL_NUM"]

        return tuners

    def test_what_is_given_counts_before_the_file(self, tuners):
        assert tuners(tuning_parallel_num=2).measured == 2

    @pytest.mark.parametrize(("text", "number"), [("4", 4), ("64", 64)])
    def test_the_toolkits_file_says_it(self, tuning, tuners, text, number):
        tuning.host.aoe_ini(text)
        condition = tuners()
        assert (condition.measured, condition.verdict) == (number, "ok")
        assert "aoe.ini has" in condition.message

    def test_the_file_of_the_toolkit_that_the_environment_names_comes_first(self, tuning, tuners):
        tuning.host.write("opt/cann/conf/aoe.ini", "TUNING_PARALLEL_NUM=16\n")
        assert tuners(ASCEND_TOOLKIT_HOME="/opt/cann").measured == 16
        assert tuners(ASCEND_TOOLKIT_HOME="").measured == 8

    def test_a_file_without_the_number_means_the_default(self, tuning, tuners):
        tuning.aoe_ini.unlink()
        tuning.host.write("usr/local/Ascend/cann/conf/aoe.ini", "RUN_LOOP = 10\n")
        assert tuners().measured == 8

    @pytest.mark.parametrize("text", ["0", "65", "many", ""])
    def test_a_number_that_aoe_does_not_take_fails(self, tuning, found, text):
        tuning.host.aoe_ini(text)
        conditions = found()
        assert conditions["TUNING_PARALLEL_NUM"].verdict == "fails"
        assert conditions["CPUs"].verdict == "not checked"

    @pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, None])
    def test_without_a_file_it_is_the_default(self, tuning, tuners, make):
        tuning.aoe_ini.unlink()
        if make is not None:
            make(str(tuning.aoe_ini))
        condition = tuners()
        assert (condition.measured, condition.verdict) == (8, "ok")
        assert condition.message == "No aoe.ini of the toolkit was found; the default is 8."


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
        AoePlan.measure(**{name: value})
    assert f"{name}={value!r}" in str(failed.value) or f"{name}={value}" in str(failed.value)
