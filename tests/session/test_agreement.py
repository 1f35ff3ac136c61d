"""What systems of one process cannot disagree about, and what they leave behind."""

import warnings
from typing import Any

import pytest

from ascend_session import AscendConfig, AscendConfigWarning, ConfigError, ascend_system
from ascend_session.session.options import Leftovers, check_init_options, init_options


class TestInitOptions:
    def test_they_are_those_that_only_the_first_initialisation_reads(self) -> None:
        parameters = {"deterministic": 1, "session_device_id": 3, "iterations_per_loop": 2}
        assert init_options(parameters) == {"deterministic": 1}

    @pytest.mark.parametrize(
        ("of_system", "wanted"),
        [
            ({}, {}),
            ({"deterministic": 1}, {}),
            ({"deterministic": 1}, {"deterministic": 1}),
            ({}, {"deterministic": 0}),
            ({"deterministic": 0}, {"hcom_parallel": False}),
        ],
    )
    def test_what_agrees_is_let_through(self, of_system: Any, wanted: Any) -> None:
        before = dict(wanted)
        check_init_options(of_system, wanted)
        assert wanted == before

    @pytest.mark.parametrize(
        ("of_system", "wanted", "said"),
        [
            ({"deterministic": 1}, {"deterministic": 0}, "initialised with 1"),
            ({}, {"deterministic": 1}, "initialised with the default 0"),
            ({}, {"op_wait_timeout": 7}, "initialised with no op_wait_timeout"),
        ],
    )
    def test_what_differs_is_refused_with_what_the_system_has(
        self, of_system: Any, wanted: Any, said: str
    ) -> None:
        with pytest.raises(ConfigError, match=said) as refused:
            check_init_options(of_system, wanted)
        (problem,) = refused.value.problems
        assert problem.option in wanted

    def test_a_sub_configs_option_is_named_as_the_user_wrote_it(self) -> None:
        with pytest.raises(ConfigError) as refused:
            check_init_options({}, {"static_memory_policy": 1})
        (problem,) = refused.value.problems
        assert problem.option == "memory_config.static_memory_policy"


class TestLeftovers:
    def test_an_option_that_stays_in_the_process_is_said(self, tf: Any) -> None:
        with ascend_system(AscendConfig(oo_level="O1", deterministic=1)):
            pass
        with pytest.warns(AscendConfigWarning, match="oo_level='O1' of an earlier system") as said:
            with ascend_system() as system:
                assert system.parameters == {}
        assert len(said) == 1
        assert said[0].filename == __file__

    def test_an_option_that_is_said_again_is_no_surprise(self, tf: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for level in ("O1", "O3"):
                with ascend_system(AscendConfig(oo_level=level)) as system:
                    assert system.parameters == {"oo_level": level}

    @pytest.mark.parametrize(
        ("first", "second"),
        [
            ({"precision_mode": "allow_mix_precision"}, {"precision_mode_v2": "origin"}),
            ({"precision_mode_v2": "origin"}, {"precision_mode": "allow_mix_precision"}),
        ],
    )
    def test_the_two_precision_modes_do_not_follow_each_other(
        self, tf: Any, first: Any, second: Any
    ) -> None:
        with ascend_system(AscendConfig(**first)):
            pass
        with pytest.raises(ConfigError, match="cannot follow") as refused:
            with ascend_system(AscendConfig(**second)):
                pass
        assert "a new process" in str(refused.value.hint)

    def test_they_are_kept_until_the_process_ends(self) -> None:
        leftovers = Leftovers()
        leftovers.remember({"oo_level": "O1"})
        leftovers.remember({"deterministic": 1})
        for _ in range(2):
            with pytest.warns(AscendConfigWarning, match="oo_level"):
                leftovers.check({"deterministic": 1})

    def test_a_system_that_never_opened_leaves_nothing_behind(self, tf: Any) -> None:
        config = AscendConfig(oo_level="O1", session_device_id=99)
        with pytest.raises(ValueError, match="session_device_id=99"), ascend_system(config):
            pass
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with ascend_system() as system:
                assert system.parameters == {}
