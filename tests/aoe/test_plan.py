"""AoePlan as a whole, and the conditions about configuration, device, folders and software."""

import json
import os
import subprocess
import sys

import pytest

from ascend_session import AscendConfig, MemoryConfig, ProfilingConfig
from ascend_session.aoe import AoePlan
from ascend_session.aoe.run import find_repository
from ascend_session.errors import ConfigError
from tests.fake_host import Reply, a2_chips, install, npu_smi_answers

KNOWN = {
    "training_memory": 2**30,
    "device_memory": 2**30,
    "device_cores": 24,
    "operator_cores": 24,
    "static_operators": True,
}


@pytest.fixture
def plan(tuning):
    """Measures the host that can tune, after the environment was changed."""

    def plan(config=None, mode="operator", known=(), **environ):
        config = AscendConfig(aoe_mode="2") if config is None else config
        given = {**tuning.environ, **environ}
        return AoePlan.measure(config, mode, given, **dict(known))

    return plan


def _one(made, name):
    return next(one for one in made.conditions if one.name == name)


def test_where_everything_is_as_the_manual_asks_all_is_ok(plan, tuning):
    tuning.add_devices()
    made = plan(known=KNOWN)
    assert [str(one) for one in made.conditions if one.verdict != "ok"] == []
    assert made.ok
    assert made.mode == "operator"


def test_what_nobody_can_measure_is_not_checked_and_names_what_supplies_it(plan, tuning):
    tuning.add_devices()
    made = plan()
    assert made.ok
    assert {one.name: one.asks for one in made.select_conditions("not checked")} == {
        "memory": ("training_memory",),
        "operators": ("static_operators",),
        "device cores": ("device_cores", "operator_cores"),
        "device memory": ("device_memory",),
    }


@pytest.mark.filterwarnings("ignore::ascend_session.AscendConfigWarning")
def test_every_condition_that_fails_says_what_to_do(plan, tuning):
    tuning.add_devices()
    tuning.host.process(4321, "python3 train.py", devices=[0])
    config = AscendConfig(
        memory_config=MemoryConfig(static_memory_policy=2),
        profiling_config=ProfilingConfig(enable_profiling=True),
        work_path=str(tuning.folder / "none"),
        dynamic_input=True,
    )
    environ = {"AOE_MODE": "1", "TUNE_BANK_PATH": "/nowhere", "RANK_SIZE": "8", "PATH": ""}
    small = {"device_memory": 2**50, "device_cores": 8, "operator_cores": 24}
    made = plan(config, known=small, TE_PARALLEL_COMPILER="0", ASCEND_OPP_PATH="", **environ)
    assert not made.ok
    failing = {one.name for one in made.select_conditions("fails")}
    assert failing == {
        "TE_PARALLEL_COMPILER",
        "Python",
        "device cores",
        "device memory",
        "devices",
        "mode",
        "one user",
        "operators",
        "profiling",
        "repository",
        "set_env.sh",
        "static memory",
        "work_path",
    }
    assert [one.name for one in made.select_conditions("fails") if not one.hint] == []


def test_the_json_form_has_everything(plan):
    made = plan()
    said = json.loads(json.dumps(made.as_dict()))
    assert (said["ok"], said["mode"], said["aoe_mode"]) == (True, "operator", "2")
    assert sum(said["counts"].values()) == len(said["conditions"])
    assert set(said["conditions"][0]) == {
        "name", "verdict", "measured", "needed", "unit", "said", "todo", "asks",
    }  # fmt: skip
    assert any("few steps" in advice for advice in said["advice"])


def test_it_is_frozen_and_equal_if_it_says_the_same(plan):
    made = plan()
    assert made == plan()
    with pytest.raises(AttributeError):
        made.mode = "subgraph"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("mode", "option", "variable", "found"),
    [
        ("subgraph", None, None, "subgraph"),
        ("1", "2", None, "subgraph"),
        (None, "1", "2", "subgraph"),
        (None, None, "1", "subgraph"),
        (None, None, None, "operator"),
    ],
)
def test_the_mode_is_what_is_asked_then_the_option_then_the_variable(
    plan, mode, option, variable, found
):
    environ = {"AOE_MODE": variable} if variable else {}
    assert plan(AscendConfig(aoe_mode=option), mode, **environ).mode == found


@pytest.mark.parametrize("mode", ["3", "operators"])
def test_another_mode_is_refused(plan, mode):
    with pytest.raises(ConfigError, match="is not a mode of AOE"):
        plan(mode=mode)
    with pytest.raises(ConfigError, match="is not a mode of AOE"):
        plan(AscendConfig(), None, AOE_MODE=mode)


def test_the_option_hides_the_variable(plan):
    made = plan(AscendConfig(aoe_mode="2"), "subgraph", AOE_MODE="1")
    found = _one(made, "mode")
    assert (found.verdict, found.message) == ("fails", "aoe_mode=2 counts.")


def test_without_a_configuration_what_it_may_say_is_not_checked(tuning):
    made = AoePlan.measure(None, "operator", tuning.environ)
    assert _one(made, "static memory").asks == _one(made, "profiling").asks == ("config",)
    found = _one(made, "mode")
    assert (found.verdict, found.asks) == ("not checked", ("config",))
    assert "and no configuration was given" in found.message


def test_a_configuration_that_says_no_mode_needs_the_variable(plan):
    found = _one(plan(AscendConfig()), "mode")
    assert (found.verdict, found.asks) == ("not checked", ())
    assert "`ascend-session aoe run` sets AOE_MODE=2" in str(found.hint)


@pytest.mark.parametrize(
    ("name", "variable", "value"),
    [
        ("static memory", "GE_USE_STATIC_MEMORY", "2"),
        ("profiling", "PROFILING_MODE", "true"),
        ("devices", "RANK_SIZE", "2"),
        ("devices", "CM_WORKER_SIZE", "2"),
    ],
)
def test_variables_stand_in_the_way_as_options_do(plan, name, variable, value):
    assert {one.name for one in plan(**{variable: value}).select_conditions("fails")} == {name}


def test_what_is_on_is_said_with_what_turns_it_off_wherever_it_is(plan):
    config = AscendConfig(memory_config=MemoryConfig(static_memory_policy=2))
    found = _one(plan(config, GE_USE_STATIC_MEMORY="2"), "static memory")
    assert found.measured == "static_memory_policy=2 and GE_USE_STATIC_MEMORY=2"
    assert found.hint == (
        "Set static_memory_policy to 0 for this run, as cfg.for_tuning() does; "
        "unset GE_USE_STATIC_MEMORY."
    )


@pytest.mark.parametrize(
    ("given", "measured"),
    [
        ({}, "sourced"),
        ({"ASCEND_OPP_PATH": ""}, "in part"),
        ({"ASCEND_OPP_PATH": "", "ASCEND_TOOLKIT_HOME": ""}, "not"),
    ],
)
def test_whether_the_toolkit_was_sourced_is_said(plan, given, measured):
    found = _one(plan(**given), "set_env.sh")
    assert (found.measured, found.verdict == "ok") == (measured, not given)


@pytest.mark.parametrize(("variable", "value"), [("GE_USE_STATIC_MEMORY", "0"), ("RANK_SIZE", "1")])
def test_variables_that_say_what_holds_anyway_do_not(plan, variable, value):
    assert plan(**{variable: value}).ok


def test_the_configuration_to_tune_with_fulfils_what_the_users_own_does_not(plan, tuning):
    own = AscendConfig(
        memory_config=MemoryConfig(static_memory_policy=4),
        profiling_config=ProfilingConfig(enable_profiling=True),
    )
    before = {one.name for one in plan(own, AOE_MODE="2").select_conditions("fails")}
    assert before == {"static memory", "profiling"}
    assert plan(own.for_tuning("operator", str(tuning.folder))).ok


def test_gradients_are_tuned_by_several_ranks_and_have_no_repository(plan):
    made = plan(AscendConfig(), "gradient", AOE_MODE="4")
    assert {one.name for one in made.select_conditions("fails")} == {"devices"}
    assert plan(AscendConfig(), "gradient", AOE_MODE="4", RANK_SIZE="8").ok
    assert "repository" not in {one.name for one in made.conditions}


def test_subgraphs_are_not_tuned_on_this_product(plan, tuning):
    tuning.add_devices()
    found = _one(plan(AscendConfig(aoe_mode="1"), "subgraph"), "product")
    assert (found.verdict, found.measured) == ("fails", "A2 (910B)")


@pytest.mark.parametrize(
    ("product", "mode", "verdict"),
    [
        ("910A", "subgraph", "ok"),
        ("910A", "operator", "ok"),
        ("910C", "operator", "ok"),
        ("910C", "subgraph", "fails"),
        ("310P3", "operator", "fails"),
        ("nobody knows", "operator", "not checked"),
    ],
)
def test_each_product_tunes_what_the_manual_says(tuning, product, mode, verdict):
    tuning.add_devices(chip=product)
    assert tuning.conditions(mode=mode)["product"].verdict == verdict


def test_a_device_without_an_id_is_none_that_a_process_can_have(tuning):
    tuning.host.npu_smi(npu_smi_answers("910B", a2_chips(1)))  # a container without its node
    assert tuning.conditions()["product"].verdict == "not checked"


def test_the_users_of_the_device_are_named(plan, tuning):
    tuning.add_devices()
    tuning.host.process(77, "python3 other.py", devices=[0])
    tuning.host.process(78, "python3 third.py", devices=[0])
    found = _one(plan(), "one user")
    assert (found.verdict, found.measured) == ("fails", "2 on it")
    assert "process 77 (python3 other.py) of user " in found.message
    assert " and process 78 (python3 third.py) of user " in found.message


def test_where_there_is_no_device_its_conditions_are_not_checked(plan):
    made = plan(known=KNOWN)
    assert {one.name for one in made.select_conditions("not checked")} == {
        "product",
        "one user",
        "device memory",
    }


@pytest.mark.parametrize(
    ("feature", "verdict"), [("deeper_opat", "ok"), ("nonhomo_split", "fails")]
)
def test_the_file_of_operators_goes_with_the_mode(plan, tuning, feature, verdict):
    file = tuning.folder / "tuning.cfg"
    file.write_text(json.dumps({"tune_ops_type": ["Add"], "feature": [feature]}))
    config = AscendConfig(aoe_mode="2", aoe_config_file=str(file))
    assert _one(plan(config), "aoe_config_file").verdict == verdict


@pytest.mark.parametrize("content", [None, "{", "[]"])
def test_a_file_of_operators_that_cannot_be_read_fails(plan, tuning, content):
    file = tuning.folder / "tuning.cfg"
    if content is not None:
        file.write_text(content)
    config = AscendConfig(aoe_mode="2", aoe_config_file=str(file))
    assert _one(plan(config), "aoe_config_file").verdict == "fails"


def test_what_else_the_rules_find_is_said(plan):
    made = plan(ASCEND_DEVICE_ID="x")
    found = _one(made, "options")
    assert found.verdict == "fails"
    assert "ASCEND_DEVICE_ID='x'" in found.message


@pytest.mark.parametrize("made", ["nothing", "file", "folder"])
def test_the_repository_has_to_be_there_if_it_is_named(plan, tuning, made):
    path = tuning.folder / "bank"
    if made == "file":
        path.write_text("")
    elif made == "folder":
        path.mkdir()
    found = _one(plan(TUNE_BANK_PATH=str(path)), "repository")
    assert found.verdict == ("ok" if made == "folder" else "fails")
    if made == "nothing":
        assert found.message.startswith(
            f"{path}, which TUNE_BANK_PATH names, does not exist; AOE exits"
        )
        assert found.hint == f"mkdir -p {path}"


@pytest.mark.parametrize(
    ("mode", "environ", "path"),
    [
        ("operator", {"HOME": "/h"}, "/h/Ascend/latest/data/aoe/custom/op/${soc_version}"),
        ("subgraph", {"HOME": "/h"}, "/h/Ascend/latest/data/aoe/custom/graph/${soc_version}"),
        ("operator", {"ASCEND_CACHE_PATH": "/c"}, "/c/aoe_data/${soc_version}"),
        ("subgraph", {"ASCEND_CACHE_PATH": "/c"}, "/c/aoe_data"),
        ("operator", {"ASCEND_CACHE_PATH": "/c", "TUNE_BANK_PATH": "/b"}, "/b/${soc_version}"),
        ("subgraph", {"ASCEND_CACHE_PATH": "/c", "TUNE_BANK_PATH": "/b"}, "/b"),
    ],
)
def test_the_repository_is_found_by_its_priority(mode, environ, path):
    assert find_repository(mode, environ).path == path


def test_gradients_have_no_repository():
    with pytest.raises(ValueError, match="no repository"):
        find_repository("gradient", {})


def test_result_files_need_a_folder(plan, tuning):
    found = _one(plan(ASCEND_WORK_PATH=str(tuning.folder / "none")), "result folder")
    assert (found.verdict, found.hint) == ("fails", f"mkdir -p {tuning.folder / 'none'}")


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ("Python 3.7.5\n", "ok"),
        ("Python 3.11.9+\n", "ok"),
        ("Python 3.6.8\n", "fails"),
        ("Python 2.7.18\n", "fails"),
        ("nonsense\n", "not checked"),
    ],
)
def test_the_first_python_on_the_path_counts(plan, tuning, said, verdict):
    install(tuning.folder / "bin" / "python3", {"--version": Reply(said)})
    assert _one(plan(), "Python").verdict == verdict


@pytest.mark.parametrize(("opp", "verdict"), [("/usr/local/Ascend/opp", "ok"), ("", "fails")])
def test_of_a_script_that_cannot_be_read_nothing_is_claimed(plan, tuning, opp, verdict):
    script = tuning.host.root / "usr/local/Ascend/ascend-toolkit/set_env.sh"
    script.write_text(". ./setenv.bash\n")  # as good as unreadable: it exports nothing itself
    found = _one(plan(ASCEND_TOOLKIT_HOME="", ASCEND_OPP_PATH=opp), "set_env.sh")
    assert found.verdict == verdict
    assert "which this environment lacks" not in found.message
    assert found.hint == (None if opp else f"source /{script.relative_to(tuning.host.root)}")


def test_commands_that_are_said_can_be_copied_whatever_the_path(plan, tuning):
    path = str(tuning.folder / "my bank")
    assert _one(plan(TUNE_BANK_PATH=path), "repository").hint == f"mkdir -p '{path}'"


def test_a_toolkit_of_ones_own_is_found_in_the_home_directory(plan, tuning):
    script = tuning.host.root / "usr/local/Ascend/ascend-toolkit/set_env.sh"
    text = script.read_text()
    script.unlink()
    tuning.host.write("home/tuner/Ascend/ascend-toolkit/set_env.sh", text)
    found = _one(plan(HOME="/home/tuner", ASCEND_OPP_PATH="", ASCEND_TOOLKIT_HOME=""), "set_env.sh")
    assert (found.verdict, found.hint) == (
        "fails",
        "source /home/tuner/Ascend/ascend-toolkit/set_env.sh",
    )


def test_without_a_configuration_its_definitions_are_not_loaded(tuning):
    code = (
        "import sys; from ascend_session.aoe import AoePlan; AoePlan.measure(); "
        "print([name for name in ('attr', 'tensorflow') if name in sys.modules])"
    )
    environ = {**tuning.environ, "PYTHONPATH": os.getcwd()}
    ran = subprocess.run([sys.executable, "-c", code], env=environ, stdout=subprocess.PIPE)
    assert (ran.returncode, ran.stdout) == (0, b"[]\n")


@pytest.mark.parametrize(
    ("word", "verdict", "text"),
    [
        ("", "ok", "AOE skips what the repository already has"),
        ("False", "ok", "AOE skips what the repository already has"),
        ("True", "ok", "AOE tunes again what the repository already has"),
        ("yes", "not checked", "REPEAT_TUNE='yes' is neither of the manual's two values"),
    ],
)
def test_whether_the_repository_is_tuned_again_is_said(plan, word, verdict, text) -> None:
    found = _one(plan(REPEAT_TUNE=word), "REPEAT_TUNE")
    assert found.verdict == verdict
    assert text in found.message
