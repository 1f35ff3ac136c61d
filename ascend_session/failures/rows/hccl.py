"""Failures of the communication between ranks (EI codes)."""

from typing import Tuple

from ascend_session.failures.classes import Condition, FailureClass
from ascend_session.failures.definition import Alternative, Code, Definition, Message

__all__ = ["ROWS"]

ROWS: Tuple[Definition, ...] = (
    Definition(
        codes=(Code("EI0015", "the ranks did not find each other in time"),),
        failure_class=FailureClass.SECONDARY,
        otherwise=Alternative(FailureClass.TRANSIENT, Condition.NO_PRIMARY),
        wait_seconds=10,
        advice=(
            "Not all ranks came together in time. Check that every rank was started and look "
            "for one that failed first; then check HCCL_SOCKET_IFNAME and the firewall between "
            "the hosts."
        ),
        source="EC; HCCL-DOC cluster_info_nego",
    ),
    Definition(
        codes=(Code("EI0006", "a connection between ranks was not made in time"),),
        failure_class=FailureClass.SECONDARY,
        advice=(
            "This rank waited for another one. Look for the rank that reports another code or "
            "none at all. If all report this one, compare how far apart they started with "
            "HCCL_CONNECT_TIMEOUT (120 seconds unless set)."
        ),
        source="EC",
    ),
    Definition(
        codes=(Code("EI0002", "another rank did not answer in time"),),
        failure_class=FailureClass.SECONDARY,
        advice=(
            "Another rank ended or is much slower than this one. Look for the rank that failed "
            "first. If none did, the work is uneven: raise HCCL_EXEC_TIMEOUT, and give every "
            "rank the same number of steps."
        ),
        source="EC",
    ),
    Definition(
        codes=(
            Code("EI0012", "a copy to or from another device failed"),
            Code("EI0013", "the network card reported a lost packet"),
        ),
        messages=(
            Message("Heartbeat Lost"),
            Message("recv fail", near="HCC"),
        ),
        failure_class=FailureClass.SECONDARY,
        otherwise=Alternative(FailureClass.HARDWARE, Condition.NO_PRIMARY),
        advice=(
            "The rank at the other end ended early, or the link between the devices failed. "
            "Look for the rank that failed first; if there is none, have an administrator check "
            "the link ('hccn_tool -i N -link -g')."
        ),
        source="EC; HCCL-DOC task_exec_stage",
    ),
    Definition(
        codes=(Code("EI0001", "an HCCL environment variable has an invalid value"),),
        failure_class=FailureClass.PERMANENT,
        advice="Correct the HCCL environment variable that the message names.",
        source="EC",
    ),
    Definition(
        codes=(Code("EI0003", "a collective was called with an invalid argument"),),
        failure_class=FailureClass.PERMANENT,
        advice="Correct the argument of the collective call that the message names.",
        source="EC",
    ),
    Definition(
        codes=(Code("EI0004", "the rank table cannot be read or is invalid"),),
        failure_class=FailureClass.PERMANENT,
        advice=(
            "The file that RANK_TABLE_FILE names cannot be read or is no valid rank table. "
            "Check path, rights and content; every value in it is a JSON string."
        ),
        source="EC",
    ),
    Definition(
        codes=(Code("EI0014", "the rank table does not fit the devices"),),
        failure_class=FailureClass.PERMANENT,
        advice=(
            "The rank table does not describe the devices that the ranks have opened. Its "
            "device_id is the physical id (the N of /dev/davinciN), also where "
            "ASCEND_RT_VISIBLE_DEVICES or a container counts from 0."
        ),
        source="EC",
    ),
    Definition(
        codes=(Code("EI0017", "a key is missing in the rank table"),),
        failure_class=FailureClass.PERMANENT,
        advice="Add the key that the message names to the rank table.",
        source="EC",
    ),
    Definition(
        codes=(Code("EI0016", "the ranks are configured differently"),),
        failure_class=FailureClass.PERMANENT,
        advice=(
            "The devices are configured differently, most often TLS is on for some and off for "
            "others. Compare 'hccn_tool -i N -tls -g' over all devices and hosts, and set them "
            "alike."
        ),
        source="HCCL-DOC cluster_info_verify_fail",
    ),
    Definition(
        codes=(Code("EI0005", "the ranks call collectives with different arguments"),),
        failure_class=FailureClass.PERMANENT,
        advice=(
            "The ranks run different graphs, arguments or rank tables. Start all of them with "
            "the same script, the same arguments and the same rank table."
        ),
        source="EC",
    ),
    Definition(
        codes=(Code("EI0008", "the ranks have different HCCL versions"),),
        failure_class=FailureClass.PERMANENT,
        advice="Install the same CANN version on all hosts of the job.",
        source="EC",
    ),
    Definition(
        codes=(Code("EI0010", "two devices of the host cannot exchange memory directly"),),
        failure_class=FailureClass.PERMANENT,
        otherwise=Alternative(FailureClass.HARDWARE, Condition.DEVICE_FAULTY),
        advice=(
            "The devices of this host cannot talk to each other directly. Set "
            "HCCL_INTRA_ROCE_ENABLE=1; if 'npu-smi info' shows a device that is not OK, have an "
            "administrator look at it."
        ),
        source="EC",
    ),
)
