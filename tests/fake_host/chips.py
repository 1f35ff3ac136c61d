"""The chips and processes that a fake host has."""

from typing import List, NamedTuple, Optional, Tuple


class FakeChip(NamedTuple):
    """One chip; numbers as in guides/facts/devices.md#npu-smi-info."""

    npu: int
    chip: int
    physical: int
    logical: int
    name: str
    health: str = "OK"
    power: str = "91.3"
    temperature: str = "36"
    bus: str = "0000:C1:00.0"
    load: str = "0"
    ddr: Tuple[int, int] = (0, 0)
    # An idle 910B uses 2.8 to 3.5 GB (B2).
    hbm: Optional[Tuple[int, int]] = (3465, 65536)


class FakeProcess(NamedTuple):
    """One process on a chip."""

    npu: int
    chip: int
    pid: int
    name: str
    memory: int
    container: str = "NA"


def a2_chips(count: int = 8) -> List[FakeChip]:
    """An A2 server: one chip per card, all numbers the same (B2, 910B)."""
    return [
        FakeChip(
            n, 0, n, n, "910B3", bus=f"0000:{0xC1 - n:02X}:00.0", power=f"{90 + n}.4",
            temperature=str(35 + n), hbm=(3400 + n, 65536),
        )
        for n in range(count)
    ]  # fmt: skip


def atlas_chips(count: int = 8) -> List[FakeChip]:
    """An Atlas training server: DDR is counted besides HBM (B2, 910A)."""
    return [
        FakeChip(
            n, 0, n, n, "910A", power=f"{67 - n}.2", temperature=str(30 + n),
            bus=f"0000:{0xC2 - n:02X}:00.0", ddr=(303 + n, 15171), hbm=(0, 32768),
        )
        for n in range(count)
    ]  # fmt: skip


def a3_chips(processors: int = 8) -> List[FakeChip]:
    """An A3 server: two chips per processor; the second one's power is ``-`` (B2, A3)."""
    return [
        FakeChip(
            n // 2, n % 2, n, n, "Ascend910", power="-" if n % 2 else f"{160 + n}.5",
            temperature=str(34 + n), bus=f"0000:{0x80 + n:02X}:00.0", hbm=(2880 + n, 65536),
        )
        for n in range(2 * processors)
    ]  # fmt: skip


def inference_chips(npus: Tuple[int, ...] = (0, 32, 96)) -> List[FakeChip]:
    """Inference cards: sparse card numbers, no HBM, power and bus ``NA`` (B2, 310P)."""
    return [
        FakeChip(
            npu, 0, n, n, "310P3", power="NA", temperature=str(40 + n), bus="NA",
            ddr=(1074 + n, 21534), hbm=None,
        )
        for n, npu in enumerate(npus)
    ]  # fmt: skip
