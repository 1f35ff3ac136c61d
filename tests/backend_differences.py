"""Every difference between the stub and the device that a user could observe, and its answer."""

from typing import NamedTuple, Optional


class Difference(NamedTuple):
    """Something that a user can observe to be different on the stub.

    Attributes:
        capability: Its name in ``AscendSystem.capabilities``, None if it is none of them.
        device: What the adapter and the device do.
        stub: What the stub does.
        answer: ``refusal``, ``warning`` or ``test``: how the user, or who changes it, learns of it.
        shown_by: The test that shows the answer.
    """

    capability: Optional[str]
    device: str
    stub: str
    answer: str
    shown_by: str


DIFFERENCES = (
    Difference(
        "offload",
        "The graph is compiled and runs on the device.",
        "The graph runs on the host CPU.",
        "test",
        "test_operators_run_on_the_cpu",
    ),
    Difference(
        "precision modes",
        "precision_mode changes the dtypes that operators compute in.",
        "Operators compute in the dtypes of the graph.",
        "test",
        "test_precision_modes_leave_the_dtypes_of_the_graph",
    ),
    Difference(
        "data dump",
        "enable_dump and enable_dump_debug write files.",
        "No file is written.",
        "warning",
        "test_options_without_effect_warn",
    ),
    Difference(
        "profiling",
        "profiling_mode writes data.",
        "Nothing is written.",
        "warning",
        "test_options_without_effect_warn",
    ),
    Difference(
        "AOE tuning",
        "aoe_mode tunes operators or sub-graphs.",
        "Nothing is tuned.",
        "warning",
        "test_options_without_effect_warn",
    ),
    Difference(
        "iterations per loop",
        "One run makes as many steps as a training helper has put into the graph.",
        "One run is one step.",
        "warning",
        "test_a_loop_count_that_nothing_applied_warns",
    ),
    Difference(
        "separate devices",
        "Each device has memory and processors of its own.",
        "All device ids share the host CPU.",
        "test",
        "test_all_devices_are_the_same_cpu",
    ),
    Difference(
        "collectives",
        "The processes of a job exchange tensors.",
        "A job of more than one process does not start, unless it was launched.",
        "refusal",
        "test_a_job_of_several_processes_is_refused",
    ),
    Difference(
        None,
        "The launched processes of a job exchange tensors.",
        "Each of them trains alone.",
        "warning",
        "test_the_first_launched_rank_says_that_all_train_alone",
    ),
    Difference(
        None,
        "The adapter has no upper limit for device ids; the driver has.",
        "There are ASCEND_SESSION_STUB_DEVICES devices, 8 if it is not set.",
        "refusal",
        "test_a_device_that_the_stub_does_not_have_is_refused",
    ),
    Difference(
        None,
        "A failing Assert is computed on the device: InternalError.",
        "The host computes it: InvalidArgumentError.",
        "test",
        "test_a_failing_assert_of_the_device_is_an_internal_error",
    ),
    Difference(
        None,
        "A failed initialisation aborts the process after three seconds.",
        "It raises InitializationError, and the process goes on.",
        "test",
        "test_nothing_is_open_after_a_failed_initialisation",
    ),
    Difference(
        None,
        "Sticky options of an earlier system stay in force until the process ends.",
        "Nothing stays; the same warning is given.",
        "warning",
        "test_an_option_that_stays_in_the_process_is_said",
    ),
    Difference(
        None,
        "After the shutdown the sessions that others made in the process fail.",
        "They go on running.",
        "test",
        "test_a_session_of_others_outlives_the_system",
    ),
    Difference(
        None,
        "wait_for_device waits while another process holds the device.",
        "Devices are never held, so it does not wait.",
        "test",
        "test_a_device_is_never_waited_for",
    ),
    Difference(
        None,
        "probe initialises in a process of its own first, and again after a failure that passes.",
        "There is nothing that could fail, so no process is started.",
        "test",
        "test_on_the_stub_there_is_nothing_to_try",
    ),
    Difference(
        None,
        "With npu_bridge imported, its adapter runs every session that has an NpuOptimizer entry.",
        "With npu_bridge imported the stub does not open, for its sessions have that entry, too.",
        "refusal",
        "test_the_stub_is_refused_once_the_adapter_is_loaded",
    ),
)
