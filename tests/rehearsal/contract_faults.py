"""For each test of the contract of backends something that makes it fail, see faults.py."""

from tests.rehearsal.fault import Fault

__all__ = ["CONTRACT_FAULTS"]

CONTRACT_FAULTS = (
    # What is said of the system
    Fault(
        "a capability is lost",
        ("contract::TestNpu::test_each_feature_is_a_capability_or_a_missing_one",),
        hole="a_capability_is_lost",
    ),
    Fault(
        "the reason for the backend is lost",
        ("contract::TestNpu::test_the_system_has_the_name_of_its_backend",),
        hole="the_reason_for_the_backend_is_lost",
    ),
    # Opening and closing
    Fault(
        "the shutdown comes before the sessions are closed",
        (
            "contract::TestNpu::test_one_session",
            "contract::TestNpu::test_nested_sessions_close_before_the_shutdown",
            "contract::TestNpu::test_a_raising_body_is_closed_in_order",
            "life_cycle::test_processes_follow_one_another",
            "life_cycle::test_a_process_that_ends_inside_the_block_shuts_down",
            "life_cycle::test_an_interrupted_process_shuts_down",
        ),
        hole="the_shutdown_comes_first",
    ),
    Fault(
        "the device is not brought up for a session",
        (
            "contract::TestNpu::test_one_session",
            "contract::TestNpu::test_the_device_is_brought_up_again_for_a_later_session",
        ),
        hole="the_device_is_not_brought_up_for_a_session",
    ),
    Fault(
        "a closed system stays the current one",
        ("contract::TestNpu::test_one_session",),
        hole="a_closed_system_stays_the_current_one",
        found_in="teardown",
    ),
    Fault(
        "a later system has the options of the first",
        ("contract::TestNpu::test_two_systems_in_sequence_share_nothing",),
        hole="a_later_system_has_the_options_of_the_first",
    ),
    Fault(
        "errors come out as others",
        (
            "contract::TestNpu::test_an_error_of_the_graph_reaches_the_caller",
            "contract::TestNpu::test_a_raising_body_is_closed_in_order",
            "life_cycle::test_another_process_gets_the_device_after_a_raising_body",
        ),
        hole="errors_come_out_as_others",
    ),
    # What a session is and has
    Fault(
        "a stray operator is added to the graph",
        ("contract::TestNpu::test_user_graphs_get_no_operator",),
        hole="a_stray_operator_is_added",
    ),
    Fault(
        "a stray operator is to be added to a finalized graph",
        ("contract::TestNpu::test_a_finalized_graph_works",),
        hole="a_stray_operator_is_added",
    ),
    Fault(
        "an entry gains a key",
        (
            "contract::TestNpu::test_the_proto_has_exactly_the_entry",
            "contract::TestNpu::test_nothing_is_written_for_what_was_not_said",
            "contract::TestNpu::test_an_own_proto_is_built_on_and_not_changed",
        ),
        hole="an_entry_gains_a_key",
    ),
    Fault(
        "an entry loses its device",
        ("contract::TestNpu::test_a_session_is_on_the_device_it_asks_for",),
        hole="an_entry_loses_its_device",
    ),
    Fault(
        "the caller's proto is changed",
        ("contract::TestNpu::test_an_own_proto_is_built_on_and_not_changed",),
        hole="the_callers_proto_is_changed",
    ),
    Fault(
        "run is wrapped",
        ("contract::TestNpu::test_it_is_a_session_with_nothing_wrapped_around_run",),
        hole="run_is_wrapped",
    ),
    Fault(
        "another session is the default",
        (
            "contract::TestNpu::test_session_and_graph_are_the_defaults_inside_the_block",
            "contract::TestNpu::test_nested_sessions_close_before_the_shutdown",
        ),
        hole="another_session_is_the_default",
    ),
    # Computing
    Fault(
        "what is fed is ignored",
        (
            "contract::TestNpu::test_feeds_and_several_fetches",
            "contract::TestNpu::test_partial_runs",
            "contract::TestNpu::test_callables",
        ),
        engine="feeds",
    ),
    Fault(
        "nothing is restored from a checkpoint",
        ("contract::TestNpu::test_a_checkpoint_is_restored_in_another_session",),
        hole="nothing_is_restored",
    ),
    Fault(
        "hooks are not called",
        ("contract::TestNpu::test_hooks_of_training",),
        hole="hooks_are_not_called",
    ),
    Fault(
        "all answers are off by one",
        (
            "contract::TestNpu::test_a_finalized_graph_works",
            "contract::TestNpu::test_two_systems_in_sequence_share_nothing",
            "contract::TestNpu::test_the_device_is_brought_up_again_for_a_later_session",
            "contract::TestNpu::test_session_and_graph_are_the_defaults_inside_the_block",
            "contract::TestNpu::test_a_checkpoint_is_restored_in_another_session",
            "contract::TestNpu::test_hooks_of_training",
            "contract::TestNpu::test_k_runs_of_a_loop_make_k_times_n_steps",
            "contract::TestNpu::test_in_a_job_of_one_a_distributed_optimizer_is_the_optimizer",
        ),
        engine="off-by-one",
    ),
)
