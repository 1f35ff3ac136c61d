"""For each hardware test something that makes it fail: what cannot fail shows nothing.

A fault changes an answer, so that it is an assertion of the test that fails. The few that do not
are in `RAISING`, each with the reason.
"""

from tests.rehearsal.collective_faults import COLLECTIVE_FAULTS
from tests.rehearsal.contract_faults import CONTRACT_FAULTS
from tests.rehearsal.fault import Fault, Raising

__all__ = ["FAULTS", "RAISING"]

FAULTS = (
    *CONTRACT_FAULTS,
    *COLLECTIVE_FAULTS,
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
        ("presence::test_the_vendor_packages_can_be_imported",),
        engine="library",
    ),
    Fault(
        "an operator of the vendor's is no function",
        ("presence::test_the_vendor_packages_can_be_imported",),
        hole="an_operator_is_no_function",
    ),
    Fault(
        "there is not a list of operators",
        ("presence::test_the_list_of_supported_operators_is_found",),
        hole="no_list_of_operators",
    ),
    # Opening and closing
    Fault(
        "the shutdown fails",
        (
            "life_cycle::test_a_process_that_ends_inside_the_block_shuts_down",
            "life_cycle::test_an_interrupted_process_shuts_down",
        ),
        engine="shutdown",
    ),
    Fault(
        "the graph engine is not finalised",
        (
            "life_cycle::test_the_device_opens_several_times_in_a_process",
            "life_cycle::test_a_process_that_ends_inside_the_block_shuts_down",
        ),
        engine="finalize",
        found_in="teardown",
    ),
    Fault(
        "what is computed once the device came up again is wrong",
        (
            "life_cycle::test_the_device_opens_several_times_in_a_process",
            "life_cycle::test_nested_and_sequential_sessions_compute",
            "results::test_a_later_system_repeats_the_results",
        ),
        engine="later-values",
    ),
    Fault(
        "no other process gets the device",
        (
            "life_cycle::test_another_process_gets_the_device_after_the_block",
            "life_cycle::test_another_process_gets_the_device_after_a_raising_body",
        ),
        engine="keeps-device",
    ),
    # What a session is and has
    Fault(
        "sessions are patched",
        ("life_cycle::test_no_session_is_patched",),
        hole="sessions_are_patched",
    ),
    # Computing
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
            "recovery::test_the_device_can_be_had_again_after_its_holder_was_killed",
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
        "deterministic is ignored",
        ("results::test_deterministic_results_are_equal_to_the_last_bit",),
        engine="no-deterministic",
    ),
    Fault(
        "the precision mode is ignored",
        ("results::TestAgainstTheCpu::test_half_precision_rounds_to_half_precision",),
        engine="no-precision",
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
        "devices are not checked",
        ("fan_out::test_an_absent_device_is_refused_before_anything_is_built",),
        hole="devices_are_not_checked",
    ),
    Fault(
        "a process is left that holds the device",
        ("recovery::test_the_device_can_be_had_again_after_its_holder_was_killed",),
        engine="orphan",
        hole="nobody_waits_long",
    ),
    Fault(
        "nobody is waited for",
        ("recovery::test_a_device_that_stays_held_is_refused_with_the_name_of_its_holder",),
        hole="nobody_is_waited_for",
    ),
    Fault(
        "nothing is tried first",
        ("recovery::test_a_device_that_was_tried_in_another_process_opens",),
        hole="nothing_is_tried_first",
    ),
)

RAISING = (
    Raising(
        "the vendor's library cannot be loaded",
        "presence::test_the_vendor_packages_can_be_imported",
        "That the import raises nothing is what is tested.",
    ),
    Raising(
        "a stray operator is to be added to a finalized graph",
        "contract::TestNpu::test_a_finalized_graph_works",
        "That nothing is added, which would raise, is what is tested.",
    ),
    Raising(
        "a process is left that holds the device",
        "recovery::test_the_device_can_be_had_again_after_its_holder_was_killed",
        "That the wait for the device does not end in an error is what is tested.",
    ),
)
