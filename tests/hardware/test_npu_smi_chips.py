"""``npu-smi info -t usages``, ``-t health`` and ``-t proc-mem``."""

from ascend_session.hardware.npu_smi_chips import (
    ChipHealth,
    ChipUsage,
    MemoryHolder,
    parse_health,
    parse_process_memory,
    parse_usages,
)
from tests.fake_host.chips import FakeProcess, a2_chips, a3_chips, inference_chips
from tests.fake_host.npu_smi import said_health, said_process_memory, said_usages


def test_usages_are_those_of_the_hbm_where_there_is_some() -> None:
    chip = a2_chips(1)[0]._replace(load="55", hbm=(2622, 65536))
    assert parse_usages(said_usages([chip])) == (ChipUsage(0, 55, 4, 65536),)


def test_usages_without_hbm_are_those_of_the_ddr() -> None:
    (chip,) = inference_chips((8,))
    assert parse_usages(said_usages([chip])) == (ChipUsage(0, 0, 4, 21534),)


def test_usages_of_a_board_are_those_of_its_memory() -> None:
    text = "Memory Capacity(MB) : 3456\nMemory Usage Rate(%) : 30\nAicore Usage Rate(%) : 12\n"
    assert parse_usages(text) == (ChipUsage(0, 12, 30, 3456),)


def test_usages_of_two_chips_are_kept_apart() -> None:
    first, second = a3_chips(1)
    chips = [first._replace(load="7"), second._replace(load="9")]
    assert [(usage.chip_id, usage.load) for usage in parse_usages(said_usages(chips))] == [
        (0, 7),
        (1, 9),
    ]


def test_rates_above_a_hundred_are_not_believed() -> None:
    (usage,) = parse_usages("HBM Capacity(MB) : 65536\nHBM Usage Rate(%) : 101\n")
    assert usage.memory is None


def test_what_has_no_rate_is_no_usage() -> None:
    assert parse_usages("NPU ID : 0\nChip Count : 1\n") == ()


def test_health_comes_with_its_error_codes() -> None:
    first, second = a3_chips(1)
    said = said_health([first, second._replace(health="Alarm")])
    assert parse_health(said) == (
        ChipHealth(0, "OK", "", ""),
        ChipHealth(1, "Alarm", "80E01801", "node type=HBM: ECC"),
    )


def test_health_of_one_chip_has_another_key() -> None:
    assert parse_health("Health Status : Warning\nError Code : NA\n") == (
        ChipHealth(0, "Warning", "", ""),
    )


def test_holders_of_memory_belong_to_the_chip_named_below_them() -> None:
    processes = [
        FakeProcess(0, 0, 4321, "python3", 177),
        FakeProcess(0, 1, 4322, "", 48208),
        FakeProcess(0, 1, 4323, "a : b", 5),
    ]
    assert parse_process_memory(said_process_memory(a3_chips(1), processes)) == (
        MemoryHolder(0, 4321, "python3", 177),
        MemoryHolder(1, 4322, "", 48208),
        MemoryHolder(1, 4323, "a : b", 5),
    )


def test_no_process_is_no_holder() -> None:
    assert parse_process_memory(said_process_memory(a2_chips(1), [])) == ()
    assert parse_process_memory("This device does not support querying proc-mem.") == ()
