"""What holds for every table: seeded random tables, mutations of them, and random bytes."""

import copy
import json
import random

import pytest

from ascend_session import JobError, RankTable
from ascend_session.findings import Finding
from ascend_session.hardware.families import family
from tests.cluster.rank_table.tables import v1_0, v1_2

FAMILIES = [None, family("910A"), family("910B"), family("910C"), family("310P3"), family("950")]
SEEDS, DRAWS = range(8), 25  # each seed draws so many tables
VALUES = [
    None, True, 0, -1, 7, 1e300, "", "0", "1", "-1", "99", "x", "1.0", "initializing", "completed",
    "192.168.1.8", "fe80::1", "a,b", ",", "%", " 0", [], {}, [[]], [{}], {"device": []}, "\u0000",
    "9" * 50, "node_0", "\ud7ff",
]  # fmt: skip


def random_servers(source):
    """Servers that are a good table for an A2, in any number, order and choice of devices."""
    used = set()

    def address():
        while True:
            made = ".".join(str(source.randint(1, 254)) for _ in range(4))
            if made not in used:
                used.add(made)
                return made

    count = source.randint(1, 6)
    most = 16 if count > 1 else 8  # one server uses both halves only in pairs
    return {
        f"{source.choice(['node', 'pod', 'é'])}-{number}": {
            physical: address() for physical in source.sample(range(most), source.randint(1, most))
        }
        for number in range(count)
    }


def spots(value, path=()):
    """Every place of a JSON value."""
    yield path
    if isinstance(value, dict):
        for key in value:
            yield from spots(value[key], (*path, key))
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from spots(below, (*path, index))


def mutate(source, table):
    """Spoils one to three places."""
    table = copy.deepcopy(table)
    for _ in range(source.randint(1, 3)):
        path = source.choice(list(spots(table))[1:] or [()])
        if not path:
            return table
        holder = table
        for step in path[:-1]:
            holder = holder[step]
        action = source.randrange(4)
        if action == 0:
            del holder[path[-1]]
        elif action == 1 and isinstance(holder, list):
            holder.append(copy.deepcopy(holder[path[-1]]))
        elif action == 2 and isinstance(holder, dict):
            holder[source.choice(["x", "rank_id", "device_ip", "version", "\u2028"])] = "1"
        else:
            holder[path[-1]] = source.choice(VALUES)
    return table


def random_superpods(source):
    """Servers in superpods of two, with all that a device of an A3 may have."""
    servers = []
    for number, server in enumerate(RankTable.build(random_servers(source)).servers):
        devices = [
            one._replace(
                super_device_id=str(number * 100 + index),
                device_port=source.choice([None, 16666]),
                device_vnic_port=source.choice([None, 16668]),
                backup_device_ip=source.choice([(), ("10.1.1.1", "10.1.1.2")]),
                backup_device_port=source.choice([None, 16667]),
                host_port=source.choice([None, 50000 + index]),
                net_position=source.choice([None, "device", "host"]),
                net_protocol=source.choice([None, "tcp", "rdma"]),
            )
            for index, one in enumerate(server.devices)
        ]
        more = {"host_ip": f"10.0.0.{number}", "super_pod_id": str(number // 2)}
        servers.append(server._replace(devices=tuple(devices), **more))
    return servers


def random_bytes(source, most):
    return bytes(source.randrange(256) for _ in range(source.randint(0, most)))


def read_or_refused(path):
    """The name of a file that could be read, or why it could not."""
    try:
        RankTable.read(str(path)).findings()
    except JobError as error:
        return str(error)
    return str(path)


def looked_at(text):
    """All that can be done with a text; nothing but our own errors may come of it."""
    try:
        table = RankTable.from_text(text)
    except JobError as error:
        return str(error)
    for product in FAMILIES:
        assert all(isinstance(one, Finding) for one in table.findings(product))
    for version in ("1.0", "1.2"):
        try:
            written = table.text(version)
        except JobError:
            continue
        json.loads(written)
    return "read"


@pytest.mark.parametrize("seed", SEEDS)
def test_build_write_read_and_check_is_the_identity(seed, tmp_path):
    source = random.Random(seed)
    path = str(tmp_path / "hccl.json")
    for _ in range(DRAWS):
        built = RankTable.build(random_servers(source), family=family("910B"))
        built.write(path, force=True)
        read = RankTable.read(path)
        assert read == built
        assert read.devices == built.devices
        assert hash(read) == hash(built)
        read.check(family("910B"))
        assert read.text() == built.text()
        assert [d.rank_id for d in read.devices] == list(range(read.size))


@pytest.mark.parametrize("seed", SEEDS)
def test_tables_of_each_server_merged_are_the_table_of_all(seed):
    source = random.Random(seed)
    for _ in range(DRAWS):
        servers = random_servers(source)
        single = [RankTable.build({name: devices}) for name, devices in servers.items()]
        assert RankTable.merge(single) == RankTable.build(servers)


@pytest.mark.parametrize("seed", SEEDS)
def test_version_1_2_comes_back_with_all_its_fields(seed):
    source = random.Random(seed)
    for _ in range(DRAWS):
        built = RankTable.build(random_superpods(source))
        assert built.format == "1.2"
        assert RankTable.from_text(built.text()) == built
        assert built.problems(family("910C")) == []


@pytest.mark.parametrize("made", [v1_0, v1_2])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_spoiled_table_is_read_or_refused_in_words(made, seed):
    source = random.Random(seed)
    answers = [looked_at(json.dumps(mutate(source, made()))) for _ in range(DRAWS)]
    assert all(answers)
    assert len(set(answers)) > 2


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text, at: text[:at],
        lambda text, at: f"{text[:at]}NaN{text[at:]}",
        lambda text, at: f"{text[:at]}-1e999{text[at:]}",
        lambda text, at: f"{text[:at]}{'9' * 5000}{text[at:]}",
        lambda text, at: f"{text[:at]}\u0663{text[at:]}",
        lambda text, at: text.replace('"0"', '"\u0660"').replace('"1"', '"\u00b9"'),
        lambda text, at: text.replace('"0"', "NaN"),
        lambda text, at: text.replace('"server_id"', '"server_id": "twice", "server_id"'),
        lambda text, at: text.replace("{", '{"status": "completed", ', at % 9),
        lambda text, at: "[" * 100_000 + text,
        lambda text, at: '{"a":' * (at % 90) + text + "}" * (at % 90),
    ],
)
@pytest.mark.parametrize("made", [v1_0, v1_2])
def test_a_spoiled_text_is_read_or_refused_in_words(made, spoil):
    source = random.Random(made.__name__)
    for _ in range(DRAWS):
        text = json.dumps(mutate(source, made()))
        assert looked_at(spoil(text, source.randrange(len(text))))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_text_with_other_bytes_is_read_or_refused_in_words(seed, tmp_path):
    source = random.Random(seed)
    path = tmp_path / "hccl.json"
    for _ in range(DRAWS):
        content = bytearray(json.dumps(source.choice([v1_0, v1_2])()).encode())
        for _ in range(source.randint(1, 4)):
            place = source.randrange(len(content))
            content[place : place + source.randint(0, 3)] = random_bytes(source, 3)
        path.write_bytes(bytes(content))
        assert read_or_refused(path).startswith(str(path))


@pytest.mark.parametrize("seed", SEEDS)
def test_random_bytes_are_refused_in_words(seed, tmp_path):
    source = random.Random(seed)
    path = tmp_path / "hccl.json"
    for _ in range(DRAWS):
        path.write_bytes(random_bytes(source, 300))
        with pytest.raises(JobError) as caught:
            RankTable.read(str(path))
        assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize("made", [v1_0, v1_2])
def test_removing_any_one_field_is_never_a_traceback(made):
    whole = made()
    for path in list(spots(whole))[1:]:
        table = copy.deepcopy(whole)
        holder = table
        for step in path[:-1]:
            holder = holder[step]
        del holder[path[-1]]
        assert looked_at(json.dumps(table))
