"""For each hardware test something that makes it fail: what cannot fail shows nothing."""

from typing import NamedTuple, Tuple

__all__ = ["FAULTS", "Fault"]


class Fault(NamedTuple):
    """Something that is wrong, and the tests that have to find it.

    Attributes:
        name: For the test that checks this row.
        tests: ``module::test`` or ``module::Class``; a name stands for all that is below it.
        engine: Faults of the fake graph engine, as in ``FAKE_GE_FAULTS``.
        hole: One of tests/rehearsal/holes.py.
        in_setup: Those of the tests whose fixtures already fail.
    """

    name: str
    tests: Tuple[str, ...]
    engine: str = ""
    hole: str = ""
    in_setup: Tuple[str, ...] = ()


FAULTS = (
    # What is not there, or not well
    Fault(
        "a node leads nowhere",
        ("presence::test_every_device_node_can_be_opened",),
        hole="a_node_leads_nowhere",
    ),
    Fault(
        "a control node is gone",
        ("presence::test_the_control_nodes_can_be_opened",),
        hole="a_control_node_is_gone",
    ),
    Fault(
        "no version is said",
        (
            "presence::test_the_version_of_the_driver_is_known",
            "presence::test_the_version_of_the_toolkit_is_known",
        ),
        hole="no_version_is_said",
    ),
    Fault("npu-smi hangs", ("presence::test_npu_smi_answers",), hole="npu_smi_hangs"),
    Fault(
        "a node is gone",
        ("presence::test_npu_smi_and_the_nodes_agree_on_the_number_of_devices",),
        hole="a_node_is_gone",
    ),
    Fault("a device is ill", ("presence::test_every_device_is_healthy",), hole="a_device_is_ill"),
    Fault(
        "the vendor's library cannot be loaded",
        (
            "presence::test_the_vendor_packages_can_be_imported",
            "fan_out::test_an_absent_device_is_refused_before_anything_is_built",
        ),
        engine="library",
    ),
    Fault(
        "there is no list of operators",
        ("presence::test_the_list_of_supported_operators_is_found",),
        hole="no_list_of_operators",
    ),
    # Opening and closing
    Fault(
        "initialising fails",
        (
            "contract::TestNpu",
            "recovery::test_a_device_that_was_tried_in_another_process_opens",
        ),
        engine="init-raises=EI0004",  # not one that is tried again, after a wait
        in_setup=(
            "contract::TestNpu::test_the_system_has_the_name_of_its_backend",
            "contract::TestNpu::test_each_feature_is_a_capability_or_a_missing_one",
        ),
    ),
    Fault(
        "initialising ends the process",
        (
            "life_cycle::test_processes_follow_one_another",
            "offload::test_it_is_offloaded",
            "contract::TestNpu::test_one_session",
        ),
        engine="init=EJ0001",
        # One process was tried beforehand, so that the run goes on and says why.
        in_setup=("life_cycle", "offload", "contract"),
    ),
    Fault(
        "the device comes up once",
        (
            "life_cycle::test_the_device_opens_several_times_in_a_process",
            "life_cycle::test_nested_and_sequential_sessions_compute",
            "contract::TestNpu::test_two_systems_in_sequence_share_nothing",
        ),
        engine="no-reinit",
    ),
    Fault(
        "the shutdown fails",
        (
            "life_cycle::test_a_process_that_ends_inside_the_block_shuts_down",
            "life_cycle::test_an_interrupted_process_shuts_down",
            "contract::TestNpu::test_one_session",
            "contract::TestNpu::test_nested_sessions_close_before_the_shutdown",
        ),
        engine="shutdown",
    ),
    Fault(
        "the device is kept",
        (
            "life_cycle::test_the_device_is_not_held_after_the_shutdown",
            "life_cycle::test_a_raising_body_leaves_the_device_free",
        ),
        engine="keeps-device",
    ),
    Fault(
        "sessions are patched",
        ("life_cycle::test_no_session_is_patched",),
        hole="sessions_are_patched",
    ),
    # Computing
    Fault(
        "runs fail",
        (
            "contract::TestNpu::test_feeds_and_several_fetches",
            "contract::TestNpu::test_partial_runs",
            "contract::TestNpu::test_callables",
            "contract::TestNpu::test_hooks_of_training",
        ),
        engine="run",
    ),
    Fault("everything stays on the CPU", ("offload::test_it_is_offloaded",), engine="no-offload"),
    Fault(
        "everything is offloaded",
        ("offload::test_nothing_is_offloaded_where_that_is_switched_off",),
        hole="everything_is_offloaded",
    ),
    Fault(
        "results are wrong",
        (
            "results::TestAgainstTheCpu",
            "fan_out::test_every_device_has_its_own_result_at_the_same_time",
            "life_cycle::test_nested_and_sequential_sessions_compute",
        ),
        engine="values",
    ),
    Fault(
        "results differ from run to run",
        (
            "results::test_a_session_repeats_its_results",
            "results::test_a_later_system_repeats_the_results",
            "results::test_deterministic_results_are_equal_to_the_last_bit",
        ),
        engine="noise",
    ),
    Fault(
        "nothing is written",
        (
            "options::test_dumps_are_written_for_the_steps_asked_for_and_no_others",
            "options::test_profiling_writes_data",
        ),
        engine="no-dump,no-profile",
    ),
    Fault(
        "every step is dumped",
        ("options::test_dumps_are_written_for_the_steps_asked_for_and_no_others",),
        hole="every_step_is_dumped",
    ),
    # Several devices, several processes
    Fault(
        "all sessions are on one device",
        ("fan_out::test_every_device_is_held_by_this_process",),
        engine="same-device",
    ),
    Fault(
        "a process is left that holds the device",
        ("recovery::test_the_device_can_be_had_again_after_its_holder_was_killed",),
        engine="orphan",
        hole="nobody_waits_long",
    ),
    Fault(
        "who holds a device cannot be seen",
        ("recovery::test_a_device_that_stays_held_is_refused_with_the_name_of_its_holder",),
        hole="processes_are_hidden",
    ),
)
