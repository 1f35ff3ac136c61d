"""Sharing one system, leaving it in order, and what misuse is told."""

import contextlib
from pathlib import Path
from typing import Any, Iterator

import pytest

from ascend_session import (
    AscendConfig,
    ConfigError,
    LifecycleError,
    ascend_session,
    ascend_system,
    current_system,
)
from hardware_tests.backend_contract import entry, open_and_close, steps


class TestSharing:
    def test_there_is_no_system_outside_and_one_inside(self, tf: Any) -> None:
        assert current_system() is None
        with ascend_system() as system:
            assert current_system() is system
            assert system.is_open
        assert current_system() is None
        assert not system.is_open

    def test_a_session_opens_a_system_of_its_own(self, tf: Any) -> None:
        with ascend_session() as sess:
            system = current_system()
            assert sess.run(tf.constant(7)) == 7
        assert system is not None
        assert steps(system)[-2:] == ["session close", "shutdown"]

    def test_blocks_share_one_system_and_the_last_one_out_shuts_it_down(self, tf: Any) -> None:
        with ascend_system() as outer:
            with ascend_system() as inner, ascend_session():
                assert inner is outer
            assert outer.is_open
            assert "shutdown" not in steps(outer)
        assert steps(outer).count("shutdown") == 1

    def test_the_last_one_out_need_not_be_the_first_one_in(self, tf: Any) -> None:
        first, last = ascend_system(), ascend_system()
        system = first.__enter__()
        last.__enter__()
        first.__exit__(None, None, None)
        assert system.is_open
        last.__exit__(None, None, None)
        assert not system.is_open

    def test_a_second_config_may_differ_in_what_each_session_reads(self, system: Any) -> None:
        with ascend_session(AscendConfig(hcom_parallel=False)) as sess:
            assert entry(sess) == {"hcom_parallel": False}

    def test_a_session_carries_what_its_system_was_initialised_with(self, tf: Any) -> None:
        with ascend_system(AscendConfig(deterministic=1, hcom_parallel=True)):
            with ascend_session(AscendConfig(hcom_parallel=False)) as sess:
                assert entry(sess) == {"deterministic": 1, "hcom_parallel": False}

    def test_a_second_config_that_differs_in_init_options_is_refused_by_name(self, tf: Any) -> None:
        other = AscendConfig(deterministic=0, op_wait_timeout=7, hcom_parallel=False)
        with ascend_system(AscendConfig(deterministic=1)) as system:
            with pytest.raises(ConfigError) as refused:
                open_and_close(ascend_session(other))
            assert system.is_open
        assert {problem.option for problem in refused.value.problems} == {
            "deterministic",
            "op_wait_timeout",
        }
        assert "deterministic=0" in refused.value.message
        assert "initialised with 1" in refused.value.message
        assert "initialised with no op_wait_timeout" in refused.value.message
        assert "ascend_system(...)" in str(refused.value.hint)

    def test_asking_for_what_is_the_default_anyway_is_fine(self, system: Any) -> None:
        with ascend_session(AscendConfig(graph_run_mode=1, deterministic=0)) as sess:
            assert sess.graph is not None

    def test_another_backend_than_the_open_one_is_refused(self, system: Any) -> None:
        with pytest.raises(LifecycleError, match="npu backend was chosen"):
            open_and_close(ascend_system(backend="npu"))
        assert system.is_open

    def test_auto_shares_the_open_system_whatever_this_host_has(
        self, tf: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "dev").mkdir()
        (tmp_path / "dev" / "davinci0").touch()
        monkeypatch.setenv("ASCEND_SESSION_HOST_ROOT", str(tmp_path))
        with ascend_system(backend="stub") as system, ascend_session():
            assert current_system() is system

    def test_sessions_of_one_system_may_have_different_protos_of_their_own(self, tf: Any) -> None:
        first, second = (tf.ConfigProto(operation_timeout_in_ms=n) for n in (60000, 70000))
        with ascend_session(session_config=first):
            with ascend_session(session_config=second) as sess:
                assert sess._config.operation_timeout_in_ms == 70000

    def test_a_user_told_to_bring_its_options_in_a_base_proto_is_heard(self, tf: Any) -> None:
        base = AscendConfig(precision_mode="allow_mix_precision").to_config_proto()
        with ascend_session(AscendConfig(deterministic=1), session_config=base) as sess:
            both = {"precision_mode": "allow_mix_precision", "deterministic": 1}
            assert entry(sess) == both
            assert getattr(current_system(), "parameters", None) == both

    def test_what_stands_in_the_base_proto_and_differs_in_the_config_is_refused(
        self, tf: Any
    ) -> None:
        base = AscendConfig(deterministic=1).to_config_proto()
        with pytest.raises(ConfigError, match=r"deterministic is 0 .* 1 in the base"):
            open_and_close(ascend_session(AscendConfig(deterministic=0), session_config=base))
        assert current_system() is None

    def test_blocks_work_in_an_exit_stack(self, tf: Any) -> None:
        with contextlib.ExitStack() as stack:
            system = stack.enter_context(ascend_system())
            stack.enter_context(system.session())
            stack.enter_context(ascend_session())
        assert steps(system)[-3:] == ["session close", "session close", "shutdown"]

    def test_a_generator_that_is_closed_leaves_its_block(self, tf: Any) -> None:
        def sessions() -> Iterator[Any]:
            with ascend_session() as sess:
                yield sess

        generator: Any = sessions()
        next(generator)
        system: Any = current_system()
        generator.close()
        assert steps(system)[-1] == "shutdown"

    @pytest.mark.parametrize("error", [StopIteration, GeneratorExit, SystemExit, RuntimeError])
    def test_any_exception_of_the_body_comes_out_as_it_is(self, tf: Any, error: Any) -> None:
        raised = error("mine")
        caught = None
        try:
            with ascend_system(), ascend_session():
                raise raised
        except BaseException as now:
            caught = now
        assert caught is raised
        assert current_system() is None


class TestOrder:
    def test_an_outer_session_left_first_closes_the_inner_one(self, tf: Any) -> None:
        outer, inner = ascend_session(), ascend_session()
        outer.__enter__()
        sess = inner.__enter__()
        system: Any = current_system()
        with pytest.raises(LifecycleError) as refused:
            outer.__exit__(None, None, None)
        assert "1 session(s) opened inside it were still open" in refused.value.message
        assert tf.get_default_session() is None
        with pytest.raises(RuntimeError, match="closed"):
            sess.run(tf.no_op())
        inner.__exit__(None, None, None)
        assert steps(system)[-3:] == ["session close", "session close", "shutdown"]

    def test_a_system_left_first_closes_its_sessions(self, tf: Any) -> None:
        outer, inner = ascend_system(), ascend_session()
        system = outer.__enter__()
        sess = inner.__enter__()
        with pytest.raises(LifecycleError, match="1 session"):
            outer.__exit__(None, None, None)
        assert tf.get_default_session() is None
        with pytest.raises(RuntimeError, match="closed"):
            sess.run(tf.no_op())
        inner.__exit__(None, None, None)
        assert steps(system)[-2:] == ["session close", "shutdown"]

    def test_the_order_of_neighbours_is_free(self, tf: Any) -> None:
        with ascend_system() as system:
            with ascend_session() as first:
                assert tf.get_default_session() is first
            with ascend_session() as second:
                assert tf.get_default_session() is second
        assert system.events[-1].name == "shutdown"

    def test_sessions_of_an_outer_block_are_none_of_an_inner_ones_business(self, tf: Any) -> None:
        with ascend_session() as outer:
            with ascend_system():
                pass
            assert outer.run(tf.constant(7)) == 7

    def test_a_body_error_counts_more_than_the_order(self, tf: Any) -> None:
        inner = ascend_session()
        with pytest.raises(ZeroDivisionError) as raised, ascend_system():
            raise ZeroDivisionError(inner.__enter__())
        inner.__exit__(None, None, None)
        assert "still open" in str(raised.value.closing_errors)  # type: ignore[attr-defined]

    def test_a_session_that_is_never_left_does_not_keep_the_device(self, tf: Any) -> None:
        with pytest.raises(LifecycleError, match="1 session"):
            with ascend_system() as system:
                system.session().__enter__()
        assert not system.is_open
        assert steps(system)[-2:] == ["session close", "shutdown"]
