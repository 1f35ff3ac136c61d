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
        "A loop makes its steps on the device, and what is fetched beside it belongs to the last.",
        "The host makes the steps one by one; what is fetched belongs to the last of them, too.",
        "test",
        "test_what_is_fetched_beside_it_draws_no_batch_and_is_the_last_steps",
    ),
    Difference(
        None,
        "Whatever is fed beside a loop of steps is fed to each of them.",
        "Only what is fed to placeholders reaches the steps after the first.",
        "test",
        "test_what_is_fed_is_fed_to_each_step",
    ),
    Difference(
        None,
        "The steps of a loop share any batch that the host feeds, and all else that it computes.",
        "They share what Python can hold; without enable_data_pre_proc other batches are refused.",
        "refusal",
        "test_sparse_batches_are_refused_unless_the_device_draws_them",
    ),
    Difference(
        None,
        "A sharded saver may fail: uninitialized value. It depends on the list of operators.",
        "Each saver saves; SaveOnPreemptionHook takes one that is not sharded on both.",
        "test",
        "test_a_sharded_saver_is_not_used",
    ),
    Difference(
        None,
        "A device in saturation mode shows an overflow in its status, not in the values.",
        "It shows in the gradients: infinite, or no number.",
        "test",
        "test_a_step_with_one_updates_nothing_and_the_scale_goes_down",
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
        "The processes of a rank table are a job, whoever started them.",
        "Those on one machine are; a rank on another one than rank 0 is refused.",
        "refusal",
        "test_a_job_whose_first_rank_is_on_another_machine_names_both",
    ),
    Difference(
        None,
        "A rank that ended is waited for until HCCL_EXEC_TIMEOUT (1836 s), then EI0002 names it.",
        "It is named within seconds.",
        "test",
        "test_ranks_in_a_collective_name_the_one_that_was_killed_and_end",
    ),
    Difference(
        None,
        "Collectives of a group belong together by their order; others end in EI0005 or EI0002.",
        "They belong together by their place in the program; others are told so at once.",
        "test",
        "test_ranks_that_differ_are_told_which_and_in_what",
    ),
    Difference(
        None,
        "reduce leaves on the ranks that are not the root what was in memory.",
        "It gives them zeros.",
        "test",
        "test_who_is_not_the_root_of_a_reduction_gets_zeros",
    ),
    Difference(
        None,
        "all_to_all_v leaves places that nobody sends to as they were in memory.",
        "They are zero.",
        "test",
        "test_what_nobody_sends_is_zero",
    ),
    Difference(
        None,
        "Floats are added in an order of HCCL's, which may differ from run to run.",
        "The same numbers have the same sum, to the last bit.",
        "test",
        "test_the_same_sum_has_the_same_bits_again",
    ),
    Difference(
        None,
        "Half precision is added in half precision; no page says of more.",
        "It is added in single precision, and rounded once.",
        "test",
        "test_half_precision_is_added_in_single_precision",
    ),
    Difference(
        None,
        "No page says what becomes of a sum that is too large for its type.",
        "It wraps around.",
        "test",
        "test_whole_numbers_that_are_too_large_wrap_around",
    ),
    Difference(
        None,
        "Atlas training has no collectives of int16 and bfloat16.",
        "It has those of all products.",
        "test",
        "test_allreduce_is_the_reduction_on_each_rank",
    ),
    Difference(
        None,
        "No page says what collectives do with tensors without elements.",
        "They give such tensors.",
        "test",
        "test_nothing_of_nothing_is_nothing",
    ),
    Difference(
        None,
        "fusion and fusion_id make several collectives one, where they do not need each other.",
        "They are looked at, and have no effect.",
        "test",
        "test_fusion_changes_no_value",
    ),
    Difference(
        None,
        "A collective in a session that is not offloaded fails: Missing 0-th output.",
        "It runs in any session of the process.",
        "test",
        "test_a_session_without_the_entry_runs_collectives",
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
