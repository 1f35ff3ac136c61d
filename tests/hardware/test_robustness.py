"""Every parser against thousands of damaged texts: nothing is raised, no device is made up."""

import random
from typing import Any, Callable, Dict, List, Set, Tuple

import pytest

from ascend_session.hardware.hccn import (
    conf_address,
    parse_address,
    parse_conf,
    parse_link,
    parse_tls,
)
from ascend_session.hardware.nodes import read_visible
from ascend_session.hardware.npu_smi import parse_info, parse_mapping, parse_remap, parse_topology
from ascend_session.hardware.program import explain_failures
from tests.fake_host import a2_chips, a3_chips
from tests.fake_host.npu_smi import (
    said_mapping,
    said_remap,
    said_topology,
)
from tests.hardware.samples import SAMPLES

ROUNDS = 150
TEXTS: Dict[str, Tuple[Callable[[str], Any], str]] = {
    "mapping": (parse_mapping, said_mapping(a3_chips(4), physical=True)),
    "topology": (parse_topology, said_topology(a2_chips(8), physical=False)),
    "remap": (parse_remap, said_remap(a2_chips(1)[0])),
    "conf": (parse_conf, "address_0=10.0.0.1\nnetmask_0=255.0.0.0\narp_0=-i eth0 a=b\n"),
    "address": (parse_address, "ipaddr:10.20.0.10\nnetmask:255.255.255.0\n"),
    "link": (parse_link, "link status: UP\n"),
    "tls": (parse_tls, "dev_id:0, tls switch[0](0:disable, 1:enable)\n"),
    "failure": (explain_failures, "dcmi module initialize failed. ret is -8005\n"),
    "visible": (lambda text: read_visible(text, 8), "0,1,2,3,4,5,6,7"),
}
DIRT = ["", "\x00", "\x1b[31m", "|", "-", "9", " ", "\n", "\r", ":", "\u4e2d", "\ufffd", "9" * 99]


def damaged(text: str, chance: random.Random) -> str:
    """The text cut off, with dirt in it, with lines lost, doubled, joined or out of order."""
    lines = text.splitlines(keepends=True)
    for _ in range(chance.randrange(4)):
        place = chance.randrange(len(lines))
        action = chance.randrange(4)
        if action == 0:
            del lines[place]
        elif action == 1:
            lines.insert(place, chance.choice(lines))
        elif action == 2:
            lines[place] = lines[place].rstrip("\n")
        else:
            chance.shuffle(lines)
        lines = lines or [""]
    text = "".join(lines)
    for _ in range(chance.randrange(6)):
        place = chance.randrange(len(text) + 1)
        text = text[:place] + chance.choice(DIRT) + text[place + chance.randrange(3) :]
    return text[: chance.randrange(len(text) + 1)] if chance.random() < 0.5 else text


def keys(text: str) -> List[Tuple[int, int]]:
    return [(chip.npu_id, chip.chip_id) for chip in parse_info(text).chips]


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_no_damage_raises(name: str) -> None:
    parse, text = TEXTS[name]
    chance = random.Random(name)
    for _ in range(ROUNDS):
        parse(damaged(text, chance))
    assert parse(text) != parse("")


@pytest.mark.parametrize("sample", sorted(SAMPLES))
def test_damage_never_makes_a_device_more(sample: str) -> None:
    text = SAMPLES[sample]
    chance = random.Random(sample)
    most = len(keys(text))
    found = [keys(damaged(text, chance)) for _ in range(ROUNDS)]
    assert max(map(len, found)) <= most
    assert all(len(set(some)) == len(some) for some in found)


@pytest.mark.parametrize("sample", sorted(SAMPLES))
def test_a_table_cut_anywhere_has_only_devices_of_the_whole(sample: str) -> None:
    text = SAMPLES[sample]
    whole = parse_info(text)
    for end in range(0, len(text), 7):
        cut = parse_info(text[:end])
        assert cut.chips == whole.chips[: len(cut.chips)]
        assert cut.processes == whole.processes[: len(cut.processes)]


@pytest.mark.parametrize("sample", sorted(SAMPLES))
def test_lost_lines_lose_devices_and_make_none(sample: str) -> None:
    lines = SAMPLES[sample].splitlines()
    known: Set[Tuple[int, int]] = set(keys(SAMPLES[sample]))
    for lost in range(len(lines)):
        some = keys("\n".join(lines[:lost] + lines[lost + 1 :]))
        assert set(some) <= known
        assert len(some) >= len(known) - 1


def test_random_bytes_are_no_devices() -> None:
    chance = random.Random(7)
    for _ in range(ROUNDS):
        noise = bytes(chance.randrange(256) for _ in range(400)).decode("utf-8", "replace")
        assert keys(noise) == []
        assert parse_mapping(noise) == ()


def test_a_megabyte_of_nearly_rows_is_read_quickly() -> None:
    row = "| 0     " + "910B3 " * 60 + "| OK | " + "0 / " * 80 + "|\n"
    assert keys(row * 1500) == []
    assert parse_mapping("0 0 0 " + " 0" * 400 + "\n" * 1000) == ()


def test_addresses_that_are_none_are_not_given() -> None:
    chance = random.Random(11)
    for _ in range(ROUNDS):
        entries = parse_conf(damaged("address_0=10.0.0.1\nIPv6address_0=fd00::1\n", chance))
        for one in entries.values():
            address = conf_address(one)
            assert address is None or address.count(".") == 3 or ":" in address
