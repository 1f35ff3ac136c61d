"""What misuse of the two context managers is told, and that it leaves nothing open."""

import contextlib
import inspect
from typing import Any, Callable, ForwardRef

import pytest

from ascend_session import (
    AscendConfig,
    AscendError,
    BackendError,
    ConfigError,
    DeviceError,
    LaunchConfig,
    LifecycleError,
    RankTable,
    ascend_session,
    ascend_system,
    current_system,
    device_count,
    devices,
    fan_out,
    hccl,
    is_available,
    launch,
)
from ascend_session.session.api import SessionContext
from hardware_tests.backend_contract import entry, open_and_close, steps
from tests.running import Host


class TestMisuse:
    @pytest.mark.parametrize("make", [ascend_system, ascend_session])
    def test_entering_twice_is_refused(self, tf: Any, make: Callable[[], Any]) -> None:
        block = make()
        with block:
            with pytest.raises(LifecycleError, match="is entered already"):
                open_and_close(block)
        with pytest.raises(LifecycleError, match="was used already") as refused:
            open_and_close(block)
        assert "again for each with block" in str(refused.value.hint)

    @pytest.mark.parametrize("make", [ascend_system, ascend_session])
    def test_leaving_without_entering_is_refused(self, make: Callable[[], Any]) -> None:
        with pytest.raises(LifecycleError, match="was not entered"):
            make().__exit__(None, None, None)

    @pytest.mark.parametrize("make", [ascend_system, ascend_session])
    def test_leaving_twice_does_nothing(self, tf: Any, make: Callable[[], Any]) -> None:
        block = make()
        with ascend_system() as system:
            with block:
                pass
            block.__exit__(None, None, None)
            assert system.is_open

    def test_a_closed_system_is_not_used(self, tf: Any) -> None:
        with ascend_system() as system:
            pass
        for use in (system.session, system.session_config, system.check_usable):
            with pytest.raises(LifecycleError, match="is closed") as refused:
                use()
            assert "inside the block" in str(refused.value.hint)

    def test_a_session_asked_for_before_but_opened_after_the_end_is_refused(self, tf: Any) -> None:
        with ascend_system() as system:
            late = system.session()
        with pytest.raises(LifecycleError, match="is closed"):
            open_and_close(late)
        with ascend_system(), pytest.raises(LifecycleError, match="used already"):
            open_and_close(late)

    @pytest.mark.parametrize("make", [ascend_system, ascend_session])
    def test_options_in_a_dict_are_refused_with_what_to_write(
        self, make: Callable[[Any], Any]
    ) -> None:
        with pytest.raises(ConfigError, match="this is dict") as refused:
            make({"deterministic": 1})
        assert "AscendConfig(**options)" in str(refused.value.hint)

    def test_a_proto_in_place_of_the_config_is_told_where_it_belongs(self, tf: Any) -> None:
        with pytest.raises(ConfigError, match="this is ConfigProto") as refused:
            ascend_session(tf.ConfigProto())
        assert "session_config=" in str(refused.value.hint)

    def test_a_config_in_place_of_the_proto_is_refused(self, tf: Any) -> None:
        with pytest.raises(ConfigError, match=r"must be a tf\.ConfigProto, this is AscendConfig"):
            open_and_close(ascend_session(session_config=AscendConfig()))
        assert current_system() is None

    # TensorFlow 2 cannot delete a session that it could not make.
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    def test_a_graph_that_is_no_graph_is_refused(self, tf: Any) -> None:
        with pytest.raises(TypeError, match="graph"):
            open_and_close(ascend_session(graph="my graph"))
        assert current_system() is None
        assert tf.get_default_session() is None

    def test_a_device_given_twice_is_refused(self, tf: Any) -> None:
        config = AscendConfig(session_device_id=1)
        with pytest.raises(ConfigError, match="device_id=2 here, session_device_id=1"):
            open_and_close(ascend_session(config, device_id=2))
        assert current_system() is None
        with ascend_session(config, device_id=1) as sess:
            assert entry(sess) == {"session_device_id": 1}

    @pytest.mark.parametrize("device", [-1, True, "0", 1.0])
    def test_a_device_that_is_no_device_id_is_refused(self, tf: Any, device: Any) -> None:
        with pytest.raises(ConfigError, match="session_device_id"):
            open_and_close(ascend_session(device_id=device))
        assert current_system() is None

    def test_a_device_that_is_not_there_is_refused(self, system: Any) -> None:
        with pytest.raises(DeviceError, match="session_device_id=8"):
            open_and_close(system.session(device_id=8))
        assert "session open" not in steps(system)

    @pytest.mark.parametrize("make", [ascend_system, ascend_session])
    def test_an_unknown_backend_is_refused(self, make: Callable[..., Any]) -> None:
        for backend in ("gpu", ""):
            with pytest.raises(BackendError, match="is not a backend"):
                open_and_close(make(backend=backend))

    def test_a_wait_that_is_no_number_of_seconds_is_refused(self) -> None:
        for wait in ("1", True, None):
            with pytest.raises(TypeError, match="number of seconds"):
                ascend_system(wait_for_device=wait)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="0 seconds or more"):
            ascend_system(wait_for_device=-1)

    def test_a_probe_that_is_no_policy_is_refused(self) -> None:
        for probe in (True, 3, object()):
            with pytest.raises(TypeError, match="probe must be a RetryPolicy"):
                ascend_system(probe=probe)  # type: ignore[arg-type]


class TestEagerExecution:
    def test_it_needs_a_graph(self, programs: Host) -> None:
        ended = programs.run("eager")
        assert ended.code == 0, ended.log
        refusal, with_graph, with_default = ended.lines
        assert refusal.startswith("LifecycleError Eager execution is on and no graph was given")
        assert "tf.disable_eager_execution()" in refusal
        assert with_graph == "7"
        assert with_default == "7"


class TestWhatANewcomerTries:
    @pytest.mark.parametrize(
        ("make", "hint"),
        [
            (ascend_session, "with ascend_session(...) as sess: sess.run"),
            (ascend_system, "with ascend_system(...) as system: system.run"),
        ],
    )
    def test_running_without_a_with_block_says_what_is_missing(
        self, make: Callable[[], Any], hint: str
    ) -> None:
        with pytest.raises(AttributeError, match="it is a context manager") as refused:
            make().run  # noqa: B018
        assert hint in str(refused.value)

    @pytest.mark.parametrize(
        ("name", "hint"),
        [
            ("precision_mode", "ascend_session(AscendConfig(precision_mode=...))"),
            ("precision_mod", "ascend_session(AscendConfig(precision_mode=...))"),
            ("devise_id", "Did you mean device_id?"),
            ("xyzzy", "config, graph, device_id, session_config, backend"),
        ],
    )
    def test_an_unknown_keyword_is_told_where_it_belongs(self, name: str, hint: str) -> None:
        with pytest.raises(TypeError, match=f"no argument '{name}'") as refused:
            ascend_session(**{name: "x"})
        assert hint in str(refused.value)

    def test_the_signature_and_the_doc_are_the_functions_own(self) -> None:
        assert list(inspect.signature(ascend_session).parameters) == [
            *("config", "graph", "device_id", "session_config", "backend")
        ]
        assert "tf.Session" in str(ascend_session.__doc__)

    def test_a_session_is_typed_as_tensorflows(self) -> None:
        (block,) = SessionContext.__dict__["__orig_bases__"]
        assert block.__args__ == (ForwardRef("Session"),)

    def test_a_system_shows_what_it_is(self, tf: Any) -> None:
        with ascend_system(backend="stub") as system, system.session():
            assert repr(system) == (
                "<AscendSystem on the stub: open, rank 0 of 1, device 0, 1 session>"
            )
        assert repr(system) == "<AscendSystem on the stub: closed>"


ERRORS = {
    "a configuration": lambda: AscendConfig(precision_mod="x"),
    "two options": lambda: AscendConfig(precision_mode_v2="fp16", precision_mode="force_fp32"),
    "a changed copy": lambda: AscendConfig().replace(precision_mod="x"),
    "a dict": lambda: ascend_session({}),
    "a backend": lambda: ascend_system(backend="gpu"),
    "opening": lambda: open_and_close(ascend_session(backend="npu")),
    "a device": lambda: open_and_close(ascend_session(backend="stub", device_id=99)),
    "a session of a system": lambda: open_and_close(current_system().session(device_id=99)),
    "a proto of a system": lambda: current_system().session_config({}),
    "a launch": lambda: launch(LaunchConfig(script="missing.py", backend="stub")),
    "devices": lambda: fan_out(None, [0, 0], len),
    "devices that are not here": lambda: open_and_close(
        fan_out(None, [0, 99], len, backend="stub")
    ),
    "a rank table": lambda: RankTable.read("missing.json"),
    "options of a launch": lambda: LaunchConfig(processes=0),
    "a launch without options": lambda: launch("train.py"),  # type: ignore[arg-type]
    "a machine": lambda: devices(8),  # type: ignore[arg-type]
    "a number of devices": lambda: device_count(8),  # type: ignore[arg-type]
    "any devices": lambda: is_available(8),  # type: ignore[arg-type]
    "a group": lambda: hccl.size(),
    "a late option": lambda: open_and_close(
        ascend_session(AscendConfig(precision_mode="force_fp32"))
    ),
}


class TestErrors:
    @pytest.mark.parametrize("what", ERRORS)
    def test_each_is_of_the_package_and_opens_nothing(self, tf: Any, what: str) -> None:
        with contextlib.ExitStack() as stack:
            if "system" in what or "late" in what:
                stack.enter_context(ascend_system(backend="stub"))
            before = current_system()
            with pytest.raises(AscendError) as refused:
                ERRORS[what]()
            assert current_system() is before
        assert str(refused.value)

    def test_what_the_user_handles_meanwhile_stays(self, tf: Any) -> None:
        def handle() -> None:
            try:
                raise KeyError("theirs")
            except KeyError:
                open_and_close(ascend_session(backend="stub", device_id=99))

        with pytest.raises(AscendError) as refused:
            handle()
        assert isinstance(refused.value.__context__, KeyError)
        assert not refused.value.__suppress_context__
