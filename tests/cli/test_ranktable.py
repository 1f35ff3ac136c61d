"""``ascend-session ranktable``: make, check, convert and show."""

import json
import os
import signal
import subprocess
import sys
import threading

import pytest

from ascend_session import RankTable
from ascend_session.hardware.families import family
from tests.cli.terminal import Terminal
from tests.cluster.rank_table.tables import device, lab, parsed, template_2, v1_0, v1_2
from tests.fake_host import (
    a2_chips,
    a3_chips,
    atlas_chips,
    hccn_answers,
    npu_smi_answers,
)

ELSEWHERE = "not checked: There is no Ascend device here to compare the table with.\n"


@pytest.fixture
def server(host):
    """Makes it an A2 server of four devices with addresses."""
    host.nodes(range(4))
    host.npu_smi(npu_smi_answers("910B", a2_chips(4), ()))
    host.hccn_conf({f"address_{n}": f"192.168.1.{8 + n}" for n in range(4)})
    return host


@pytest.fixture
def table(tmp_path):
    """Writes a table and returns its name."""

    def table(content, name="hccl.json"):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    return table


def ranks(text):
    return [
        (one["rank_id"], one["device_id"], one.get("device_ip"))
        for server in json.loads(text)["server_list"]
        for one in server["device"]
    ]


def test_a_good_table_is_ok(call, host, table):
    name = table(v1_0())
    said = f"{name}: version 1.0, 2 servers, 4 ranks, ok\n"
    assert call("ranktable", "check", name) == (0, f"{said}  {name}: {ELSEWHERE}", "")
    assert call("ranktable", "check", "--no-host", name) == (0, said, "")


def test_a_table_of_a_version_that_is_not_read_here_is_not_called_ok(call, table):
    name = table({**v1_0(), "version": "1.1"})
    called = call("ranktable", "check", "--no-host", name)
    assert (called.code, called.err) == (0, "")
    assert called.out.startswith(f"{name}: not checked\n")


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (v1_2, "version 1.2, 4 servers, 16 ranks, ok"),
        (lab, "not checked: has a group_list and no version: the former layout 'lab'"),
        (template_2, "not checked: has a group_list and no version: the former layout 'template"),
    ],
)
def test_each_format_is_named(call, table, made, words):
    called = call("ranktable", "check", "--no-host", table(made()))
    assert called.code == 0
    assert words in called.out


def test_all_that_is_wrong_is_said_with_hints(call, table):
    content = v1_0()
    content["server_count"] = 2
    device(content, 0, 1)["device_id"] = "0"
    name = table(content)
    assert call("ranktable", "check", "--no-host", name) == (
        1,
        f"{name}: version 1.0, 2 errors\n"
        f"  {name}: error: server_count: is the number 2; HCCL takes texts only.\n"
        '    hint: Write "server_count": "2".\n'
        f"  {name}: error: server_list[0].device[1].device_id: is 0, as is that of rank 0 in "
        "'node_0'; each rank has a device of its own.\n",
        "",
    )


def test_the_product_can_be_named(call, table):
    name = table(v1_0(servers=1, devices=3))
    assert call("ranktable", "check", "--no-host", name).code == 0
    called = call("ranktable", "check", "--no-host", "--product", "910A", name)
    assert called.code == 1
    assert "has 1, 2, 4 or 8 devices of a server, not 3" in called.out
    wrong = call("ranktable", "check", "--product", "H100", name)
    assert wrong.code == 2
    assert "'H100' is not one of 910A, A2, A3, 310P." in wrong.err


def test_the_product_is_that_of_the_host(call, host, table):
    host.nodes(range(4))
    host.npu_smi(npu_smi_answers("910A", atlas_chips(4), ()))
    content = v1_0(servers=1, devices=3)
    for number in range(3):
        device(content, 0, number)["device_ip"] = f"192.168.1.{8 + number}"
    host.hccn_conf({f"address_{n}": f"192.168.1.{8 + n}" for n in range(4)})
    called = call("ranktable", "check", "--json", table(content))
    found = json.loads(called.out)
    assert (called.code, found["ok"], found["product"]) == (1, False, "Atlas training (910A)")
    assert "not 3" in found["findings"][0]["said"]


def test_a_table_is_compared_with_the_host(call, server, table):
    content = v1_0(servers=1, devices=2)
    device(content, 0, 0)["device_id"] = "7"
    device(content, 0, 1)["device_ip"] = "192.168.1.99"
    name = table(content)
    called = call("ranktable", "check", name)
    assert called.code == 1
    assert "device[0].device_id: is 7, but this host has 0, 1, 2, 3.\n" in called.out
    assert "device_ip: is 192.168.1.99, but device 1 has 192.168.1.9, as /etc/hc" in called.out
    assert call("ranktable", "check", "--no-host", name).code == 0


def test_check_as_json_has_places_and_sources(call, table):
    content = v1_0()
    content["server_list"][1]["server_id"] = "node_0"
    called = call("ranktable", "check", "--no-host", "--json", table(content))
    found = json.loads(called.out)
    assert called.code == 1
    assert (found["format"], found["status"], found["size"]) == ("1.0", "completed", 4)
    assert found["findings"] == [
        {
            "severity": "error",
            "place": "server_list[1].server_id",
            "said": "is 'node_0', as is server_list[0]; a server is listed once.",
            "hint": None,
            "source": "HCOMM, topoinfo_ranktableParser.cc, CheckUniqueAndInsertPool; HCCL's error "
            "EI0014",
        }
    ]


@pytest.mark.parametrize("command", ["check", "show", "convert"])
@pytest.mark.parametrize(
    ("content", "words"),
    [("", "is empty"), ("{", "ends in the middle"), ("[]", "is a list"), ('{"version": "9"}', "9")],
)
def test_what_is_no_table_is_one_and_a_sentence(call, table, command, content, words):
    called = call("ranktable", command, table(content))
    assert called.code == 1
    assert words in called.out + called.err


def test_a_table_that_is_completed_later_is_waited_for(start, table, tmp_path):
    name = table({"status": "initializing"})
    process = start("ranktable", "check", "--no-host", "--wait", "10m", name)
    line = process.stderr.readline().decode()
    assert line.startswith("ascend-session: ")
    assert line.endswith(f" left, waiting for {name}: its status is 'initializing'\n")
    os.replace(table(v1_0(), "new.json"), name)
    out, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert out.decode() == f"{name}: version 1.0, 2 servers, 4 ranks, ok\n"


def test_the_wait_is_a_countdown_on_a_terminal(table):
    name = table({"status": "initializing"})
    terminal = Terminal(columns=80)
    process = subprocess.Popen(
        [sys.executable, "-m", "ascend_session.cli", "ranktable", "check", "--wait", "90", name],
        stdout=subprocess.PIPE,
        stderr=terminal.theirs,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    os.close(terminal.theirs)
    terminal.until("1 min 29 s left")
    process.send_signal(signal.SIGINT)
    process.communicate()
    terminal.close()
    assert process.returncode != 0
    first = f"1 min 30 s left, waiting for {name}: its status is 'initializing'"
    assert f"{first[:79]}\r\x1b[K" in terminal.shown


def test_a_wait_ends_with_its_time(call, table):
    called = call("ranktable", "check", "--wait", "0.1", table({"status": "initializing"}))
    assert called.code == 1
    assert "its status is 'initializing', and 0.1 s have passed." in called.out


@pytest.mark.parametrize("time", ["", "x", "-1", "10 m", "1d", "nan", "1m1h"])
def test_what_is_no_time_is_a_wrong_call(call, table, time):
    called = call("ranktable", "check", f"--wait={time}", table(v1_0()))
    assert called.code == 2
    assert "is not a time; write 90s, 10m or 1h30m." in called.err


def test_a_table_of_this_host_is_printed(call, server):
    called = call("ranktable", "make", "--server-id", "node_7")
    assert (called.code, called.err) == (0, "")
    assert json.loads(called.out)["server_list"][0]["server_id"] == "node_7"
    assert ranks(called.out) == [(str(n), str(n), f"192.168.1.{8 + n}") for n in range(4)]


def test_devices_are_logical_and_their_order_is_that_of_the_ranks(call, server, monkeypatch):
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "1,3")
    called = call("ranktable", "make", "--devices", "1,0")
    assert ranks(called.out) == [("0", "3", "192.168.1.11"), ("1", "1", "192.168.1.9")]
    missing = call("ranktable", "make", "--devices", "0-2")
    assert missing.code == 1
    assert "There is no device 2: this process gets 0 to 1." in missing.err
    wrong = call("ranktable", "make", "--devices", "1-0")
    assert wrong.code == 2
    assert "--devices=1-0: the range 1-0 ends before it begins. Write 0-1." in wrong.err


def test_addresses_come_from_hccn_tool_where_the_file_has_none(call, server):
    server.hccn_conf({})
    server.hccn_tool(hccn_answers({n: f"10.0.0.{n}" for n in range(4)}))
    called = call("ranktable", "make")
    assert [one[2] for one in ranks(called.out)] == [f"10.0.0.{n}" for n in range(4)]


def test_a_table_without_addresses_is_made_with_a_word(call, server):
    server.hccn_conf({})
    called = call("ranktable", "make")
    assert called.code == 0
    assert "The address of device 0, 1, 2, 3 is unknown" in called.err
    assert [one[2] for one in ranks(called.out)] == [None] * 4


def test_without_a_device_there_is_no_table(call, host):
    for more in ((), ("--devices", "0")):
        called = call("ranktable", "make", *more)
        assert (called.code, called.out) == (1, "")
        assert "This machine has no Ascend device to put into a rank table." in called.err


def test_what_the_manual_advises_against_is_made_with_force(call, host):
    host.nodes(range(8))
    host.npu_smi(npu_smi_answers("910A", atlas_chips(8), ()))
    host.hccn_conf({f"address_{n}": f"192.168.1.{8 + n}" for n in range(8)})
    called = call("ranktable", "make", "--devices", "3-4")
    assert called.code == 1
    assert "must stay inside 0-3 or 4-7" in called.err
    assert "Give --force to make it anyway." in called.err
    assert len(ranks(call("ranktable", "make", "--devices", "3-4", "--force").out)) == 2


def test_superpods_of_an_a3_are_asked_for(call, host):
    chips = a3_chips(2)
    host.nodes([chip.physical for chip in chips])
    host.npu_smi(npu_smi_answers("A3", chips, ()))
    called = call("ranktable", "make", "--server-id", "node_0", "--to", "1.2")
    made = RankTable.from_text(called.out)
    assert (made.format, made.servers[0].super_pod_id) == ("1.2", "3")
    sdids = [str(16777216 + chip.physical) for chip in chips]
    assert [one.super_device_id for one in made.devices] == sdids
    assert made.problems(family("910C")) == []
    assert json.loads(call("ranktable", "make").out)["version"] == "1.0"


def test_superpods_that_nobody_knows_are_an_error(call, server):
    called = call("ranktable", "make", "--to", "1.2")
    assert (called.code, called.out) == (1, "")
    assert "Version 1.2 needs the superpod (super_pod_id) of server" in called.err


def test_tables_of_two_servers_become_one(call, table, tmp_path):
    first, second = v1_0(servers=1), v1_0(servers=2)
    del second["server_list"][0]
    second["server_count"] = "1"
    for number in range(2):
        device(second, 0, number)["rank_id"] = str(number)
    names = [table(first, "a.json"), table(second, "b.json")]
    merged = str(tmp_path / "hccl.json")
    called = call("ranktable", "make", "--merge", *names, "-o", merged)
    assert (called.code, called.out) == (0, "")
    assert called.err.startswith(f"ascend-session: {merged}: 4 ranks on 2 servers.\n")
    assert RankTable.read(merged) == parsed(v1_0())
    again = call("ranktable", "make", "--merge", names[0], names[0])
    assert again.code == 1
    assert "both have a server 'node_0'" in again.err


TWO_SERVERS = (
    "--server",
    "node-a=0:10.1.0.1,1:10.1.0.2",
    "--server",
    "node-b=0:10.1.0.3,1:10.1.0.4",
)


def test_a_table_of_other_servers_is_made_without_devices(call, host, tmp_path):
    file = str(tmp_path / "hccl.json")
    made = call("ranktable", "make", *TWO_SERVERS, "--product", "A2", "-o", file)
    assert made.code == 0
    made_by_build = RankTable.build(
        {"node-a": {0: "10.1.0.1", 1: "10.1.0.2"}, "node-b": {0: "10.1.0.3", 1: "10.1.0.4"}}
    )
    assert RankTable.read(file) == made_by_build
    assert "node-a has ranks 0-1 and node-b has ranks 2-3." in made.err
    assert call("ranktable", "check", "--product", "A2", file).code == 0


def test_a_table_that_was_made_is_not_called_wrong_for_the_variables_here(call, monkeypatch):
    monkeypatch.setenv("HCCL_INTRA_ROCE_ENABLE", "1")
    made = call("ranktable", "make", "--server", "a=0:10.1.1.1,1", "--product", "A2")
    assert (made.code, "error" in made.err) == (0, False)


def test_merge_says_whose_ranks_come_first(call, tmp_path):
    names = []
    for server in ("b", "a"):
        names.append(str(tmp_path / f"{server}.json"))
        call("ranktable", "make", "--server", f"{server}=0:10.1.0.{ord(server)}", "-o", names[-1])
    merged = call("ranktable", "make", "--merge", *names)
    assert f"{names[0]} comes first. b has rank 0 and a has rank 1." in merged.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--server", "a=0:10.1.0.1,1:10.1.0.1"), "as is server_list[0].device[0].device_ip"),
        (("--server", "a=0:10.1.0.1", "--server", "a=1:10.1.0.2"), "a server is listed once"),
        (("--server", "a=0:10.1.0.1", "--server", "b=0", "--product", "A2"), "is missing or empty"),
        (("--server", "a=0,1,2,4", "--product", "910A"), "HCCL takes only 0123"),
        (("--server", "a=0,1,8", "--product", "A2"), "n and n + 8"),
    ],
)
def test_what_hccl_refuses_is_not_made_for_other_servers_either(call, arguments, words):
    refused = call("ranktable", "make", *arguments)
    assert (refused.code, refused.out) == (1, "")
    assert words in refused.err


@pytest.mark.parametrize(
    "server", ["a", "a=", "=0:10.1.0.1", "a=x", "a=0-3", "a=0,", "a=-1:10.1.0.1"]
)
def test_a_server_that_is_written_otherwise_is_a_wrong_call(call, server):
    refused = call("ranktable", "make", "--server", server)
    assert refused.code == 2
    assert "as in node-a=0:10.1.0.1,1:10.1.0.2" in refused.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["make", "--merge"], "needs the names of the tables to merge"),
        (["make", "x.json"], "to merge tables, add --merge"),
        (["make", "--merge", "x.json", "--server", "a=0"], "cannot be combined with --merge"),
        (["make", "--server", "a=0", "--devices", "0"], "cannot be combined with --server"),
        (["make", "--product", "A2"], "the product of this host is known"),
        (["make", "--server", "a=0", "--product", "A9"], "is not one of 910A, A2, A3, 310P"),
        (["make", "--merge", "x.json", "--devices", ""], "cannot be combined with --merge"),
        (["make", "--merge", "x.json", "--host-ip", "1.1.1.1"], "cannot be combined with --merge"),
        (["convert", "x.json", "--to", "2.0"], "2.0 is neither 1.0 nor 1.2"),
        (["check"], "Missing argument"),
        (["check", "a.json", "b.json"], "unexpected extra argument"),
        (["nope"], "No such command: nope"),
    ],
)
def test_a_wrong_call_is_two(call, arguments, words):
    called = call("ranktable", *arguments)
    assert called.code == 2
    assert words in called.err


def test_an_old_table_is_converted_and_a_file_is_not_lost(call, table, tmp_path):
    old, new = table(v1_2(), "old.json"), str(tmp_path / "new.json")
    assert call("ranktable", "convert", old, "-o", new).code == 0
    assert RankTable.read(new).format == "1.0"
    again = call("ranktable", "convert", old, "-o", new)
    assert again == (
        1,
        "",
        f"ascend-session: error: {new} already exists.\n  hint: Give --force to replace it.\n",
    )
    assert call("ranktable", "convert", old, "-o", new, "--force").code == 0


@pytest.mark.parametrize(
    "content",
    [
        {"version": "1.0", "status": "initializing"},
        {"status": "initializing", "group_list": [{"instance_list": [{"devices": "x"}]}]},
        {**v1_0(), "status": "initializing"},
        {**v1_0(), "status": "Completed"},
    ],
)
def test_a_table_that_is_not_completed_is_not_converted(call, table, tmp_path, content):
    new = tmp_path / "new.json"
    called = call("ranktable", "convert", table(content), "-o", str(new))
    assert called.code == 1
    assert f"its status is {content['status']!r}, not 'completed'" in called.err
    assert not new.exists()


def test_superpods_are_not_looked_at_on_a_host_where_hccl_does_not_read_them(call, table, server):
    name = table({**v1_2(servers=1), "super_pod_list": []})
    for options, code, word in (
        (["--no-host"], 0, "not checked"),
        (["--product", "A3"], 1, "error"),
        ([], 0, "warning"),
    ):
        called = call("ranktable", "check", *options, name)
        assert f"{word}: super_pod_list: is an empty list" in called.out
        assert called.code == code


def test_a_table_of_a_name_that_hccl_does_not_take_can_be_converted(call, table):
    name = table(v1_0(), "ranks.txt")
    checked = call("ranktable", "check", "--no-host", name)
    assert checked.code == 1
    assert "HCCL takes a name that ends in .json" in checked.out
    assert call("ranktable", "convert", name).code == 0


def test_what_version_1_2_needs_is_said(call, table):
    called = call("ranktable", "convert", table(v1_0()), "--to", "1.2")
    assert called.code == 1
    assert "Version 1.2 needs the superpod (super_pod_id) of server node_0, node_1" in called.err


def test_a_table_that_hccl_refuses_is_neither_printed_nor_written(call, table, tmp_path):
    content = v1_0()
    device(content, 0, 1)["rank_id"] = "0"
    name, new = table(content), tmp_path / "new.json"
    for more in ((), ("-o", str(new))):
        called = call("ranktable", "convert", name, *more)
        assert (called.code, called.out) == (1, "")
        assert "which 2 devices have" in called.err
    assert not new.exists()


def test_show_has_a_line_for_each_rank(call, table):
    name = table(v1_0())
    assert call("ranktable", "show", name) == (
        0,
        f"""\
file    {name}
format  version 1.0
status  completed

RANK  SERVER  DEVICE  ADDRESS
0     node_0  0       192.168.1.8
1     node_0  1       192.168.1.9
2     node_1  0       192.168.2.8
3     node_1  1       192.168.2.9
""",
        "",
    )


def test_show_has_the_columns_that_a_table_needs(call, table):
    out = call("ranktable", "show", table(v1_2())).out
    assert "RANK  SERVER  DEVICE  ADDRESS       PORT   HOST          SUPERPOD  SDID\n" in out


def test_show_as_json_is_the_same_for_all_formats(call, table):
    for made in (v1_0, v1_2):
        found = json.loads(call("ranktable", "show", "--json", table(made())).out)
        devices = [one for server in found["servers"] for one in server["devices"]]
        assert sorted(one["rank_id"] for one in devices) == list(range(found["size"]))


def test_a_pipe_is_not_waited_for(program, tmp_path):
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    called = program("ranktable", "check", "--no-host", str(pipe))
    assert called.code == 1
    assert "is a pipe or a device, not a file" in called.out


def test_a_reader_that_goes_away_is_no_traceback(start, table):
    process = start("ranktable", "show", table(v1_0(servers=64, devices=8)))
    process.stdout.readline()
    process.stdout.close()
    error = []
    reader = threading.Thread(target=lambda: error.append(process.stderr.read()))
    reader.start()
    process.wait()
    reader.join()
    process.stderr.close()
    assert b"Traceback" not in error[0]
