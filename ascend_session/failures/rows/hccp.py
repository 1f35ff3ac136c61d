"""Failures of the processes that start on the device first: HCCP (E..J codes) and TSD."""

from typing import Tuple

from ascend_session.failures.classes import Condition, FailureClass
from ascend_session.failures.definition import Alternative, Code, Definition, Message

__all__ = ["ROWS"]

ROWS: Tuple[Definition, ...] = (
    Definition(
        codes=(Code("EJ0001", "the communication process on the device did not start"),),
        messages=(Message("Failed to initialize the HCCP process", "EJ0001"),),
        failure_class=FailureClass.TRANSIENT,
        wait_seconds=10,
        advice=(
            "A process of the previous job may still hold the device. Wait 10 seconds after the "
            "last process has ended, look with 'npu-smi info' whether one is left, and start "
            "again in a new process."
        ),
        source="EC; FD AISW_MindSpore_Ascend_Backend_01; LlamaFactory #3839; verl #332",
    ),
    Definition(
        messages=(Message("Open TsdClient failed"),),
        failure_class=FailureClass.TRANSIENT,
        otherwise=Alternative(FailureClass.PERMANENT, Condition.SHARED_BY_RANKS),
        wait_seconds=10,
        advice=(
            "Either a process of the previous job is left on the device, or two ranks were given "
            "the same device. Check that every rank has a device of its own, wait 10 seconds "
            "after the last process has ended, and start again."
        ),
        source="FD AISW_CANN_HCCL_011",
    ),
    Definition(
        messages=(Message("TsdOpen failed", pattern=r"TsdOpen failed[,.] ?dev(?:ice)?Id"),),
        failure_class=FailureClass.TRANSIENT,
        wait_seconds=10,
        advice="The device refused to start its helper processes. Start again in a new process.",
        source="FD AISW_CANN_TSD_05",
    ),
    Definition(
        messages=(Message("Start aicpu executor failed"),),
        failure_class=FailureClass.TRANSIENT,
        wait_seconds=10,
        advice="The device did not start its AI CPU process. Start again in a new process.",
        source="FD AISW_CANN_Runtime_056",
    ),
    Definition(
        messages=(Message("tsd client wait response fail"),),
        failure_class=FailureClass.AMBIGUOUS,
        advice=(
            "The device did not answer while its helper processes started. The code next to this "
            "line says why. If there is none, see with 'npu-smi info' who holds the device and "
            "try once more."
        ),
        source="issues; src/tsd of the CANN runtime",
    ),
    Definition(
        messages=(Message("HDC recv msg err ret(16)"),),
        failure_class=FailureClass.TRANSIENT,
        wait_seconds=10,
        advice="The connection between host and device was interrupted. Start the job again.",
        source="FD",
    ),
    Definition(
        codes=(
            Code("EI0019", "an address and port are already in use"),
            Code("EJ0003", "an address and port are already in use"),
        ),
        messages=(
            Message(
                "and port ",
                "EI0019",
                r"and port [^:\n]{0,40}(?:been bound already|already been bound)",
            ),
            Message(
                "and specific port[",
                "EI0019",
                r"listen on ip\[[^\]\n]{0,80}\] and specific port\[\d{1,5}\] fail",
            ),
        ),
        failure_class=FailureClass.PERMANENT,
        otherwise=Alternative(FailureClass.TRANSIENT, Condition.HELD_BY_ENDING_JOB),
        wait_seconds=10,
        advice=(
            "Another process listens on the port that HCCL needs (60000 to 60031 on the host, "
            "16666 on the device). Find it with 'ss -ltnp'. If it is a job of yours that is "
            "ending, wait until it is gone; else set HCCL_IF_BASE_PORT to a free range and "
            "reserve it with net.ipv4.ip_local_reserved_ports. On the device, run one process "
            "per device."
        ),
        source="HCCL-DOC cluster_info_nego, param_link_stage; vllm-ascend #405, #4725, #16205",
    ),
    Definition(
        codes=(Code("EJ0004", "the device address is not that of the network card"),),
        messages=(
            Message("check][ip]fail", "EJ0004", r"check\]\[ip\]fail(?:ed)?,? ?ret\(129\)"),
            Message(
                "ra rdev init failed",
                "ra rdev init failed, ret -17",
                r"ra rdev init failed[,.]? ?ret ?[\[(]-17[\])]",
            ),
            Message(
                "hccl_init",
                "hccl_init failed, ret -17",
                r"hccl_init[^\n]{0,40}?ret[^\n0-9-]{0,4}-17(?![0-9])",
            ),
        ),
        failure_class=FailureClass.PERMANENT,
        advice=(
            "The rank table gives a device_ip that the card does not have. Compare it with "
            "'hccn_tool -i N -ip -g' for each device N, and correct the rank table."
        ),
        source="EC; TFA FAQ",
    ),
    Definition(
        codes=(Code("EJ0002", "the network port of the device is down"),),
        messages=(
            Message(
                "ra hdc message process failed",
                "ra hdc message process failed, ret -67",
                r"ra hdc message process failed,? ?ret\(-67\)",
            ),
        ),
        failure_class=FailureClass.HARDWARE,
        advice=(
            "The network port of the device is down. Look with 'hccn_tool -i N -link -g'; an "
            "administrator can restore its settings with 'hccn_tool -i N -cfg recovery', or has "
            "to check cable and switch."
        ),
        source="FD AISW_CANN_ERRMSG_Custom_06",
    ),
)
