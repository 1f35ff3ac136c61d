"""What HCCL takes in its environment variables, on each product, and who says so in time."""

from pathlib import Path
from typing import Dict, List, Optional

import pytest

from ascend_session import AscendConfig, ConfigError, LaunchConfig, ascend_system
from ascend_session.config.hccl_variables import (
    HCCL_VARIABLES,
    HcclVariable,
    check_hccl_variables,
)
from ascend_session.hardware.families import family
from ascend_session.launcher.plan.preflight import checked_plan

TRAINING, A2, A3 = family("910A"), family("910B"), family("910C")
DUO, A5 = family("310P3"), family("950")
FACTS = Path(__file__).resolve().parents[2] / "ascend_session" / "guides" / "facts" / "launch.md"

# Of each variable: values that HCCL takes, and values that it refuses, on 910A, A2, A3 and 310P.
TAKEN: Dict[str, List[str]] = {
    "HCCL_CONNECT_TIMEOUT": ["120", "7200", "0000000600"],
    "HCCL_EXEC_TIMEOUT": ["0.05", "68", "17340", "1836.55"],
    "HCCL_IF_BASE_PORT": ["1024", "65520"],
    "HCCL_HOST_SOCKET_PORT_RANGE": ["auto", "", "  ", "60000", "60000-60015, 50000", "1-65535"],
    "HCCL_IF_IP": ["10.0.0.1", "fe80::1", "10.0.0.1%eth0"],
    "HCCL_SOCKET_IFNAME": ["eth0", "eth0,eth1", "^docker", "=eth0", "^=eth0,lo"],
    "HCCL_SOCKET_FAMILY": ["AF_INET", "AF_INET6"],
    "HCCL_WHITELIST_DISABLE": ["0", "1", " 1", "01", "1x"],
    "HCCL_INTRA_PCIE_ENABLE": ["1", "01"],
    "HCCL_INTRA_ROCE_ENABLE": ["1", "01"],
    "HCCL_INTER_HCCS_DISABLE": ["TRUE", "false", "True"],
    "HCCL_LOGIC_SUPERPOD_ID": ["", "x" * 128, "é" * 64],
    "HCCL_RDMA_TC": ["0", "132", "252", "-0"],
    "HCCL_RDMA_SL": ["0", "7"],
    "HCCL_RDMA_TIMEOUT": ["5", "20"],
    "HCCL_RDMA_RETRY_CNT": ["1", "7"],
    "HCCL_RDMA_QPS_PER_CONNECTION": ["1", "32"],
    "HCCL_MULTI_QP_THRESHOLD": ["1", "8192"],
    "HCCL_RDMA_QP_PORT_CONFIG_PATH": ["/"],
    "HCCL_RDMA_PCIE_DIRECT_POST_NOSTRICT": ["true", "FALSE"],
    "HCCL_BUFFSIZE": ["1", "200", "4294967295"],
    "HCCL_ALGO": [
        "",
        "level0:NA;level1:ring",
        "level1:H-D_R; level0:fullmesh",
        "allreduce=level0:NA;level1:ring/allgather=level1:NHR",
    ],
    "HCCL_OP_EXPANSION_MODE": ["AI_CPU", "AIV", "HOST", "HOST_TS", "AICPU_CacheDisable"],
    "HCCL_DETERMINISTIC": ["true", "FALSE"],
    "HCCL_OP_RETRY_ENABLE": ["", "L1:1", "L0:0, L1:1, L2:0"],
    "HCCL_OP_RETRY_PARAMS": [
        "MaxCnt:3,HoldTime:5000,IntervalTime:1000",
        "MaxCnt:+3,HoldTime:5000,IntervalTime:1000",
    ],
    "HCCL_ALG_MULTIPLE_DIMENSION_SPLIT_RATIO": ["0", "0.5", "1", "2.75"],
    "HCCL_DIAGNOSE_ENABLE": ["0", "1", "01", "-0"],
    "HCCL_DFS_CONFIG": [
        "",
        "connection_fault_detection_time:0",
        "connection_fault_detection_time:20, task_monitor_interval:7200000",
        "Connection_Fault_Detection_Time:7200,cluster_heartbeat:maybe",
        "connection_fault_detection_time:30s,inconsistent_check:off",
        "connection_fault_detection_time:",
        "unknown:1",
    ],
    "HCCL_ENTRY_LOG_ENABLE": ["0", "1"],
    "HCCL_DEBUG_CONFIG": ["", "ALG", "^task,RESOURCE", "AIV_OPS_EXC"],
}
REFUSED: Dict[str, List[str]] = {
    "HCCL_CONNECT_TIMEOUT": ["", " 600", "600 ", "00000000600", "119", "7201", "600.5"],
    "HCCL_EXEC_TIMEOUT": ["", "12345678.12", "-1", "1e3", "1836.555", " 60"],
    "HCCL_IF_BASE_PORT": ["", " 60000", "60000 ", "00000060000", "80", "65521"],
    "HCCL_IF_IP": ["", "localhost", " 10.0.0.1"],
    "HCCL_SOCKET_IFNAME": ["", ",eth0", "eth0,", "a,,b", "^", "=", "^="],
    "HCCL_SOCKET_FAMILY": ["", "af_inet", "AF_INET ", "inet"],
    "HCCL_WHITELIST_DISABLE": ["2", "-1", "true", "", "10", "1" + "é" * 5],
    "HCCL_INTRA_PCIE_ENABLE": ["0", "2", "", "true"],
    "HCCL_INTRA_ROCE_ENABLE": ["0", "2", "", "true"],
    "HCCL_INTER_HCCS_DISABLE": ["1", "", "true "],
    "HCCL_LOGIC_SUPERPOD_ID": ["x" * 129, "é" * 65],
    "HCCL_RDMA_TC": ["133", "256", ""],
    "HCCL_RDMA_SL": ["8", "-1"],
    "HCCL_RDMA_TIMEOUT": ["4", "25"],
    "HCCL_RDMA_RETRY_CNT": ["0", "8"],
    "HCCL_RDMA_QPS_PER_CONNECTION": ["0", "33"],
    "HCCL_MULTI_QP_THRESHOLD": ["0", "8193"],
    "HCCL_RDMA_QP_PORT_CONFIG_PATH": ["", "/nowhere/ports"],
    "HCCL_RDMA_PCIE_DIRECT_POST_NOSTRICT": ["1"],
    "HCCL_BUFFSIZE": ["0", "-1", "1.5", " 200", "", "99999999999", "9999999999"],
    "HCCL_ALGO": [
        "ring",
        "level0:8P_RING;level1:HD",
        "level0:NA;level1:tree",
        "level1:ring;level1:NHR",
        "level1:ring;",
        "sum=level1:ring",
        "allreduce=level0:null",
        "level1:ring/allgather=level1:ring",
    ],
    "HCCL_OP_EXPANSION_MODE": ["", "host", "AIV_ONLY", "CCU_MS"],
    "HCCL_DETERMINISTIC": ["", "1", "yes"],
    "HCCL_OP_RETRY_ENABLE": ["1", "L3:1", "L1:1,L1:0", "L1:2", ",L1:1"],
    "HCCL_OP_RETRY_PARAMS": ["", "MaxCnt:11,HoldTime:1,IntervalTime:1", "3,5000,1000"],
    "HCCL_ALG_MULTIPLE_DIMENSION_SPLIT_RATIO": ["", "half", "-0.5", ".5", "1.", "1e-1", " 1"],
    "HCCL_DIAGNOSE_ENABLE": ["2", ""],
    "HCCL_DFS_CONFIG": [
        "connection_fault_detection_time:10",
        "cluster_heartbeat:on,connection_fault_detection_time:7201",
        "connection_fault_detection_time:abc",
        "task_monitor_interval:-1",
        "task_monitor_interval:7200001",
        "task_monitor_interval:x,connection_fault_detection_time:30",
    ],
    "HCCL_ENTRY_LOG_ENABLE": ["2", "01", ""],
    "HCCL_DEBUG_CONFIG": ["foo", "ALGTASK"],
}
ONLY_ON_A5 = {"HCCL_UB_MULTI_CHANNEL_NUM", "HCCL_DETOUR"}
TAKEN_ON_A5: Dict[str, List[str]] = {
    "HCCL_CONNECT_TIMEOUT": ["", "00000000120", "7200"],
    "HCCL_EXEC_TIMEOUT": ["", "00000000120", "0", "0.05"],
    "HCCL_SOCKET_IFNAME": ["eth0,", "a,,b", "^=eth0"],
    "HCCL_SOCKET_FAMILY": ["", "AF_INET6"],
    "HCCL_WHITELIST_DISABLE": ["0", "1"],
    "HCCL_RDMA_TIMEOUT": ["0", "31", "99"],
    "HCCL_BUFFSIZE": ["1", "9999999999"],
    "HCCL_DFS_CONFIG": ["", "task_exception: on,inconsistent_check:first"],
    "HCCL_UB_MULTI_CHANNEL_NUM": ["1", "16"],
    "HCCL_DETOUR": ["detour:0", "detour:1"],
    "HCCL_ALGO": ["ring"],
    "HCCL_INTRA_PCIE_ENABLE": ["0"],
}
REFUSED_ON_A5: Dict[str, List[str]] = {
    "HCCL_CONNECT_TIMEOUT": ["10", "7201", " 600"],
    "HCCL_EXEC_TIMEOUT": ["-1", "2147483648", "0.005"],
    "HCCL_IF_BASE_PORT": ["80", "65521"],
    "HCCL_IF_IP": ["localhost"],
    "HCCL_SOCKET_IFNAME": [",eth0", "^", "=", "^="],
    "HCCL_SOCKET_FAMILY": ["ipv4"],
    "HCCL_WHITELIST_DISABLE": ["01", "1x", "2"],
    "HCCL_NPU_SOCKET_PORT_RANGE": ["0-10", "60010-60000"],
    "HCCL_RDMA_TC": ["133"],
    "HCCL_RDMA_SL": ["8"],
    "HCCL_RDMA_RETRY_CNT": ["0"],
    "HCCL_RDMA_QPS_PER_CONNECTION": ["33"],
    "HCCL_BUFFSIZE": ["200MB", "0"],
    "HCCL_ENTRY_LOG_ENABLE": ["2"],
    "HCCL_DFS_CONFIG": [
        "connection_fault_detection_time:30",
        "task_exception:On",
        "task_exception:on,",
        "task_exception",
    ],
    "HCCL_UB_MULTI_CHANNEL_NUM": ["0", "17"],
    "HCCL_DETOUR": ["detour:2"],
}
PORTS = ["AUTO", "0-10", "60000-", "60010-60000", "1-10,5-20", "65530-65536", "a-b"]


def refused(environ: Dict[str, str], product: Optional[str] = None) -> List[Optional[str]]:
    return [finding.option for finding in check_hccl_variables(environ, product)]


@pytest.mark.parametrize("product", [TRAINING, A2, A3, DUO])
@pytest.mark.parametrize("name", TAKEN)
def test_what_hccl_takes_is_not_refused(name: str, product: str) -> None:
    assert [text for text in TAKEN[name] if refused({name: text}, product)] == []


@pytest.mark.parametrize("product", [TRAINING, A2, A3, DUO])
@pytest.mark.parametrize("name", REFUSED)
def test_what_hccl_refuses_is_an_error(name: str, product: str) -> None:
    assert [text for text in REFUSED[name] if refused({name: text}, product) != [name]] == []


@pytest.mark.parametrize("name", TAKEN_ON_A5)
def test_what_the_reader_of_a5_takes_is_not_refused(name: str) -> None:
    assert [text for text in TAKEN_ON_A5[name] if refused({name: text}, A5)] == []


@pytest.mark.parametrize("name", REFUSED_ON_A5)
def test_what_the_reader_of_a5_refuses_is_an_error(name: str) -> None:
    assert [text for text in REFUSED_ON_A5[name] if refused({name: text}, A5) != [name]] == []


def test_only_a5_refuses_a_whitelist_that_is_missing() -> None:
    environ = {"HCCL_WHITELIST_DISABLE": "0", "HCCL_WHITELIST_FILE": "missing"}
    assert refused(environ, A5) == ["HCCL_WHITELIST_FILE"]
    assert refused(environ, A3) == refused({**environ, "HCCL_WHITELIST_FILE": "/"}, A5) == []


def test_each_variable_has_values_that_are_taken() -> None:
    names = {variable.name for variable in HCCL_VARIABLES}
    assert names - {"HCCL_NPU_SOCKET_PORT_RANGE", *ONLY_ON_A5} == set(TAKEN)


@pytest.mark.parametrize("name", ["HCCL_HOST_SOCKET_PORT_RANGE", "HCCL_NPU_SOCKET_PORT_RANGE"])
@pytest.mark.parametrize("text", PORTS)
def test_ranges_of_ports_are_read_where_hccl_reads_them(name: str, text: str) -> None:
    assert [refused({name: text}, product) for product in (TRAINING, A2, A3)] == [[name]] * 3
    assert refused({name: text}, DUO) == []


@pytest.mark.parametrize(
    ("name", "text", "products"),
    [
        ("HCCL_EXEC_TIMEOUT", "0", [A2, A3, A5]),
        ("HCCL_EXEC_TIMEOUT", "17341", [A2, A3, A5]),
        ("HCCL_EXEC_TIMEOUT", "2147483647", [A2, A3, A5]),
        ("HCCL_RDMA_TIMEOUT", "24", [TRAINING, DUO, A5]),
        ("HCCL_DETERMINISTIC", "strict", [A2, A3, A5]),
        ("HCCL_OP_EXPANSION_MODE", "CCU_MS", [A5]),
    ],
)
def test_some_values_are_for_some_products(name: str, text: str, products: List[str]) -> None:
    every = (TRAINING, A2, A3, DUO, A5)
    assert {product for product in every if not refused({name: text}, product)} == set(products)
    assert refused({name: text}) == []


@pytest.mark.parametrize(
    ("environ", "names"),
    [
        (
            {"HCCL_INTRA_PCIE_ENABLE": "1", "HCCL_INTRA_ROCE_ENABLE": "01"},
            ["HCCL_INTRA_ROCE_ENABLE"],
        ),
        ({"HCCL_INTRA_PCIE_ENABLE": "0", "HCCL_INTRA_ROCE_ENABLE": "1"}, []),
        ({"HCCL_INTRA_PCIE_ENABLE": "0", "HCCL_INTRA_ROCE_ENABLE": "0"}, []),
        ({"HCCL_WHITELIST_DISABLE": "0", "HCCL_WHITELIST_FILE": ""}, ["HCCL_WHITELIST_FILE"]),
        ({"HCCL_WHITELIST_DISABLE": "0", "HCCL_WHITELIST_FILE": "missing"}, []),
        ({"HCCL_WHITELIST_DISABLE": "1", "HCCL_WHITELIST_FILE": ""}, []),
        ({"HCCL_WHITELIST_FILE": ""}, []),
    ],
)
def test_some_variables_are_refused_for_another(environ: Dict[str, str], names: List[str]) -> None:
    assert refused(environ) == names


def test_an_empty_variable_is_to_be_unset() -> None:
    (finding,) = check_hccl_variables({"HCCL_BUFFSIZE": ""})
    assert finding.message == "HCCL_BUFFSIZE='' is not from 1 to 4294967295 MB; HCCL refuses it."
    assert finding.hint == "unset HCCL_BUFFSIZE: set but empty is not unset."


def test_where_hccl_is_not_used_all_are_notes() -> None:
    (finding,) = check_hccl_variables({"HCCL_ALGO": "ring"}, is_used=False)
    assert finding.severity == "info"
    assert finding.message.endswith("HCCL refuses it on a device.")


def test_check_host_refuses_what_hccl_refuses_and_names_all() -> None:
    with pytest.raises(ConfigError) as caught:
        AscendConfig().check_host({"HCCL_BUFFSIZE": " 200", "HCCL_SOCKET_FAMILY": ""})
    assert "HCCL_BUFFSIZE=' 200' is not from 1" in str(caught.value)
    assert "HCCL_SOCKET_FAMILY='' is not AF_INET or AF_INET6" in str(caught.value)


def test_check_host_takes_part_of_a_second() -> None:
    AscendConfig().check_host({"HCCL_EXEC_TIMEOUT": "0.05"})


def test_a_launch_on_the_stub_notes_what_a_device_would_refuse(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print()")
    config = LaunchConfig(script="train.py", cwd=str(tmp_path), processes=2, backend="stub")
    environ = {"PATH": "/usr/bin:/bin", "HCCL_BUFFSIZE": "0"}
    notes = "\n".join(checked_plan(config, environ).notes)
    assert "HCCL_BUFFSIZE='0' is not from 1 to 4294967295 MB; HCCL refuses it on a dev" in notes


def test_a_session_on_the_stub_opens_and_logs_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("HCCL_BUFFSIZE", "0")
    with caplog.at_level("INFO"), ascend_system(backend="stub"):
        pass
    assert "HCCL_BUFFSIZE='0' is not from 1 to 4294967295 MB" in caplog.text


def row(variable: HcclVariable) -> str:
    words = [variable.taken.words]
    for product, taken in variable.taken_on.items():
        words.append(f"{taken.words} on {product}" if taken else f"not read on {product}")
    return f"| `{variable.name}` | {'; '.join(words)} | {variable.effect} |"


def test_the_page_of_facts_shows_the_table() -> None:
    shown = [line for line in FACTS.read_text("utf-8").splitlines() if line.startswith("| `HCCL_")]
    assert shown == [row(variable) for variable in HCCL_VARIABLES]
