"""The known failures, one row for each piece of advice, ordered by the component that reports them.

guides/facts/failures.md#sources-of-the-table explains the abbreviations of the sources (EC, RTC,
FD ...), and guides/facts/failures.md#the-vendors-lists-and-this-table what is left out.
"""

from functools import partial
from typing import Optional, Tuple, Union

from ascend_session.failures.failure import Code, Definition, FailureClass, Family, KnownText
from ascend_session.requirements import OTHER_ADAPTER, VENDOR_WHEEL_COMMAND

JOB_CANNOT_GO_ON = "The job cannot continue: "
"""Beginning of the stub's message that another rank ended the collectives.

It is one line in the text of the error that the rank's ``session.run`` raises.
"""

DIFFERENT_MODELS = "different_models"
"""Name of the failure of a job whose ranks end with 0, but hold different models."""

GE_FINALIZE_FAILED = "[GePlugin] GE finalize failed"
"""The adapter's only report of a shutdown that failed; the exit code does not show it."""


def _row(
    failure_class: FailureClass,
    source: str,
    advice: str,
    *names: Union[Code, KnownText, Family],
    is_secondary: bool = False,
    is_vague: bool = False,
    wait_seconds: Optional[int] = None,
) -> Definition:
    return Definition(
        failure_class,
        advice,
        source,
        codes=tuple(name for name in names if isinstance(name, Code)),
        messages=tuple(name for name in names if isinstance(name, KnownText)),
        families=tuple(name for name in names if isinstance(name, Family)),
        is_secondary=is_secondary,
        is_vague=is_vague,
        wait_seconds=wait_seconds,
    )


_transient = partial(_row, FailureClass.TRANSIENT)
_permanent = partial(_row, FailureClass.PERMANENT)
_hardware = partial(_row, FailureClass.HARDWARE)
_ambiguous = partial(_row, FailureClass.AMBIGUOUS)
# Not tried again even if no rank has a failure of its own, unlike secondary rows of other classes.
_secondary = partial(_row, FailureClass.SECONDARY, is_secondary=True)


def _stage(stage: str, keyword: str) -> KnownText:
    """Make HCCL's message about the stage in which it failed (HCCL-DOC debug_thinking)."""
    if stage == "TaskExecStage":
        return KnownText(f"[{stage}][{keyword}]")
    # Port clashes are printed as [InitChannelStage][RanktableDetect]: either stage is taken.
    pattern = rf"\[Init(?:Group|Channel)Stage\]\[{keyword}\]"
    return KnownText(f"Stage][{keyword}]", f"[{stage}][{keyword}]", pattern)


def _missing_module(package: str) -> KnownText:
    """Make the message of a failed import that ended a program."""
    words = f"No module named '{package}"
    return KnownText(words, f"{words}'", rf"(?:ModuleNotFound|Import)Error: {words}[.']")


_FAULTY_DEVICE = (
    "The device or its memory is faulty. Move the job to another device and have an administrator "
    "look at this one."
)

PROCESS_LIMIT = (
    "No more processes or threads are allowed: by the container (pids.max of its cgroup, docker "
    "run --pids-limit, podPidsLimit) or for this user (`ulimit -u`). Raise that limit, or start "
    "fewer ranks, data workers and threads (OMP_NUM_THREADS, inter_op_parallelism_threads)."
)
"""Advice for a process that cannot start another process or thread."""

ROWS: Tuple[Definition, ...] = (
    # Processes that start on the device first: HCCP (EJ codes) and TSD
    _transient(
        "EC; FD AISW_MindSpore_Ascend_Backend_01; LlamaFactory #3839; verl #332",
        "A process of the previous job may still hold the device. Wait 10 seconds after the "
        "last process has exited, check with 'npu-smi info' that none is left, and start again "
        "in a new process.",
        Code("EJ0001", "the communication process on the device did not start"),
        KnownText("Failed to initialize the HCCP process", "EJ0001"),
        wait_seconds=10,
    ),
    _transient(
        "FD AISW_CANN_HCCL_011",
        "Either a process of the previous job is left on the device, or two ranks were given "
        "the same device. Check that every rank has a device of its own, wait 10 seconds after "
        "the last process has exited, and start again.",
        KnownText("Open TsdClient failed"),
        wait_seconds=10,
    ),
    _transient(
        "FD AISW_CANN_TSD_05",
        "The device refused to start its helper processes. Start again in a new process.",
        KnownText("TsdOpen failed", pattern=r"TsdOpen failed[,.] ?dev(?:ice)?Id"),
        wait_seconds=10,
    ),
    _transient(
        "FD AISW_CANN_Runtime_056",
        "The device did not start its AI CPU process. Start again in a new process.",
        KnownText("Start aicpu executor failed"),
        wait_seconds=10,
    ),
    _ambiguous(
        "issues; src/tsd of the CANN runtime",
        "The device did not answer while its helper processes started. The code next to this "
        "line says why. If there is none, check with 'npu-smi info' who holds the device and "
        "try once more.",
        KnownText("tsd client wait response fail"),
    ),
    _transient(
        "FD",
        "The connection between host and device was interrupted. Start the job again.",
        KnownText("HDC recv msg err ret(16)"),
        wait_seconds=10,
    ),
    _permanent(
        "EC; HC; HCCL-DOC cluster_info_nego, param_link_stage; vllm-ascend #405, #4725, #16205",
        "Another process listens on the port that HCCL needs (60000 to 60031 on the host, 16666 "
        "on the device). Find it with 'ss -ltnp'. If one of your jobs is still exiting, wait "
        "until it is gone; else set HCCL_IF_BASE_PORT to a free range and reserve it with "
        "net.ipv4.ip_local_reserved_ports. On the device, run one process per device, or set "
        "HCCL_NPU_SOCKET_PORT_RANGE=auto.",
        Code("EI0019", "an address and port are already in use"),
        Code("EI0020", "an address and port of the device are already in use"),
        Code("EJ0003", "an address and port are already in use"),
        KnownText(
            "and port ", "EI0019", r"and port [^:\n]{0,40}(?:been bound already|already been bound)"
        ),
        KnownText(
            "and specific port[",
            "EI0019",
            r"listen on ip\[[^\]\n]{0,80}\] and specific port\[\d{1,5}\] fail",
        ),
    ),
    _permanent(
        "EC; TFA FAQ",
        "The rank table gives a device_ip that the card does not have. Compare it with 'hccn_tool "
        "-i N -ip -g' for each device N, and correct the rank table.",
        Code("EJ0004", "the device address is not that of the network card"),
        KnownText("check][ip]fail", "EJ0004", r"check\]\[ip\]fail(?:ed)?,? ?ret\(129\)"),
        KnownText(
            "ra rdev init failed",
            "ra rdev init failed, ret -17",
            r"ra rdev init failed[,.]? ?ret ?[\[(]-17[\])]",
        ),
        KnownText(
            "hccl_init",
            "hccl_init failed, ret -17",
            r"hccl_init[^\n]{0,40}?ret[^\n0-9-]{0,4}-17(?![0-9])",
        ),
    ),
    _hardware(
        "FD AISW_CANN_ERRMSG_Custom_06",
        "The network port of the device is down. Look with 'hccn_tool -i N -link -g'; an "
        "administrator can restore its settings with 'hccn_tool -i N -cfg recovery', or has to "
        "check cable and switch.",
        Code("EJ0002", "the network port of the device is down"),
        KnownText(
            "ra hdc message process failed",
            "ra hdc message process failed, ret -67",
            r"ra hdc message process failed,? ?ret\(-67\)",
        ),
    ),
    # AI CPU, and the package that is loaded to it (E3 codes)
    _transient(
        "EC",
        "The device has as many user processes as it takes. Try again 10 seconds after the last "
        "job on it has exited.",
        Code("E30003", "too many user processes on the device"),
        wait_seconds=10,
    ),
    _ambiguous(
        "EC",
        "A process on the device started too slowly, or the connection between host and device is "
        "faulty. Try once more; if it comes back, keep the host and device logs and ask the "
        "vendor's support.",
        Code("E39007", "a process on the device did not start in time"),
    ),
    _permanent(
        "EC",
        "The CANN package is damaged or does not fit, or the device's memory is faulty. Install "
        "the operator package (OPP) that fits the driver. If it is in order, have an "
        "administrator check the device for ECC errors.",
        Code("E30006", "the operator package was not accepted by the device"),
        Code("E30004", "the program for the device is damaged"),
        Code("E30009", "the signature of a package was not accepted by the device"),
        Code("E39008", "the program for the device is damaged"),
        Code("E39011", "a package was not loaded to the device"),
    ),
    _hardware(
        "EC",
        "The host cannot reach the device. An administrator has to restart the device; keep the "
        "host and device logs for the vendor's support.",
        Code("E30005", "the device cannot be connected"),
        Code("E39009", "the device cannot be connected"),
    ),
    _hardware(
        "EC",
        "A system process of the device failed. Keep the host and device logs and ask the "
        "administrator or the vendor's support; use another device meanwhile.",
        Code("E30007", "the AI CPU scheduler was not added to its control group"),
        Code("E39010", "the AI CPU scheduler was not added to its control group"),
        Code("E39004", "the AI CPU scheduler did not start properly"),
        Code("E39005", "the task daemon of the device did not start properly"),
        Code("E39006", "the operator package was not sent to the device"),
    ),
    _permanent(
        "TFA FAQ",
        "A table or a variable was read before it was initialised there. If a function of tf.data "
        "reads it, the host runs that function and the device has initialised it: set "
        "mix_compile_mode=True. Else run its initialiser (tf.tables_initializer()) first.",
        KnownText("Table not initialized"),
        KnownText(
            "Error while reading resource variable",
            pattern=r"Error while reading resource variable \S{1,300} from Container",
        ),
    ),
    _permanent(
        "EC; TFA FAQ",
        "An operator on the AI CPU took too long; with GetNext it is the data pipeline that is "
        "slow. Speed up the preprocessing (prefetch, fewer or smaller inputs), or shrink the "
        "shapes of the operator that is named.",
        Code("E30008", "an AI CPU operator took too long"),
        Code("EE1024", "an AI CPU operator took too long while the device ran out of memory"),
    ),
    # The driver and what it shares out: devices, memory, streams (EL codes, dcmi)
    _transient(
        "EC",
        "The device is in use, is being reset, or is not ready yet. Stop the processes that "
        "'npu-smi info' shows on it, wait a minute and try again.",
        Code("EL0005", "the device is busy"),
        wait_seconds=60,
    ),
    _permanent(
        "EC",
        "The device has run out of events, streams, notify registers or models. If another "
        "process holds the device, close it and try again after a minute; if not, the job itself "
        "asks for too many (sessions, graphs or parallel streams).",
        Code("EL0006", "the device is out of resources"),
        Code("EL0008", "the device is out of events"),
        Code("EL0009", "the device is out of streams"),
        Code("EL0010", "the device is out of notify registers"),
        Code("EL0011", "the device is out of models"),
        Code("EL0012", "the service queue of the device is full"),
        Code("EL0013", "the device is out of queues"),
        wait_seconds=60,
    ),
    _transient(
        "FD; RTC",
        "The driver had no event, stream, notify register or model left, often because the "
        "previous job is still giving them back. Wait about a minute and start again in a new "
        "process.",
        Code("207005", "a resource could not be allocated"),
        Code("207007", "no event is left"),
        Code("207008", "no stream is left"),
        Code("207009", "no notify register is left"),
        Code("207010", "no model is left"),
        Code("207011", "no queue is left"),
        KnownText(
            "halResourceIdAlloc", "halResourceIdAlloc failed", r"halResourceIdAlloc[^\n]{0,80}?fail"
        ),
        wait_seconds=60,
    ),
    _transient(
        "issues",
        "Another container holds the device. Wait until it has stopped, or choose a device that "
        "no other container was given.",
        KnownText("ret is -8020", "dcmi ret is -8020", r"ret is -8020(?![0-9])", near="dcmi"),
        wait_seconds=60,
    ),
    _ambiguous(
        "vllm-ascend #2698; HAMi #23",
        "The device management library cannot start: the container lacks a mount of the driver, "
        "the driver is not loaded, or the device is in use. Check the mounts and 'npu-smi info' "
        "on the host, then try once more.",
        KnownText("ret is -8005", "dcmi ret is -8005", r"ret is -8005(?![0-9])", near="dcmi"),
    ),
    _permanent(
        "EC; RTC",
        "The device is out of memory. If 'npu-smi info' shows another process on it, stop that "
        "one and try again; if not, take a smaller batch or model, or a smaller HCCL_BUFFSIZE.",
        Code("EI0007", "HCCL ran out of memory or notify registers"),
        Code("EI0011", "HCCL ran out of device memory"),
        Code("EL0004", "the driver ran out of memory"),
        Code("207001", "out of memory"),
        Code("207018", "out of device memory"),
        wait_seconds=60,
    ),
    _permanent(
        "EC",
        "This user may not use the device, or another container was given it. Check the rights of "
        "/dev/davinci* and the user's groups, and which container has the device.",
        Code("EL0007", "no permission for the device"),
        Code("207006", "no permission"),
    ),
    _permanent(
        "EC",
        "The device belongs to another container, or processes of a stopped container are left. "
        "Check which container was given the device and kill what is left of it.",
        Code("EL0015", "the device may not be accessed from here"),
    ),
    _hardware(
        "EC; RTC",
        "The device is missing or has dropped out. Check with 'npu-smi info' which devices the "
        "driver still knows; if one is missing, an administrator has to look at it.",
        Code("EL0001", "the device is absent or abnormal"),
        Code("207004", "there is no device"),
        Code("E39002", "the driver does not list the devices"),
    ),
    # Communication between ranks (EI codes)
    _transient(
        "EC; HCCL-DOC cluster_info_nego",
        "Not all ranks joined in time. Check that every rank was started and look for one that "
        "failed first; then check HCCL_SOCKET_IFNAME and the firewall between the hosts.",
        Code("EI0015", "the ranks did not find each other in time"),
        KnownText("topo exchange server get socket timeout", "EI0015"),
        KnownText("topo exchange agent get socket timeout", "EI0015"),
        KnownText("Failed to collect cluster information of the communicator", "EI0015"),
        KnownText("Ranktable_Detect_Failed", "EI0015"),
        is_secondary=True,
        wait_seconds=10,
    ),
    _secondary(
        "EC; HC",
        "This rank waited for another one. Look for the rank that reports another code or none at "
        "all. If all report this one, compare how far apart they started with "
        "HCCL_CONNECT_TIMEOUT (120 seconds unless set).",
        Code("EI0006", "a connection between ranks was not made in time"),
        Code("EI0009", "a link to another rank could not be set up"),
        KnownText("Getting socket times out", "EI0006"),
        KnownText("wait socket establish timeout", "EI0006"),
        KnownText("Transport init error", "EI0009"),
    ),
    _secondary(
        "EC",
        "Another rank exited or is much slower than this one. Look for the rank that failed "
        "first. If none did, the work is uneven: raise HCCL_EXEC_TIMEOUT, and give every rank "
        "the same number of steps.",
        Code("EI0002", "another rank did not answer in time"),
    ),
    _hardware(
        "EC; HC; RTC; HCCL-DOC task_exec_stage",
        "The rank at the other end exited early, or the link between the devices failed. Look "
        "for the rank that failed first; if there is none, have an administrator check the link "
        "('hccn_tool -i N -link -g').",
        Code("EI0012", "a copy to or from another device failed"),
        Code("EI0013", "the network card reported a lost packet"),
        Code("EI0018", "the link between devices reported a lost packet"),
        Code("507013", "a copy by DMA failed"),
        Code("507057", "a device at the other end may be faulty"),
        Code("507904", "HCCL repeated a transfer in vain"),
        KnownText("Heartbeat Lost"),
        KnownText("recv fail", near="HCC"),
        is_secondary=True,
    ),
    _permanent(
        "EC",
        "Correct the HCCL environment variable that the message names.",
        Code("EI0001", "an HCCL environment variable has an invalid value"),
    ),
    _permanent(
        "EC",
        "Correct the argument of the collective call that the message names.",
        Code("EI0003", "a collective was called with an invalid argument"),
    ),
    _permanent(
        "EC",
        "The file that RANK_TABLE_FILE names cannot be read or is no valid rank table. Check "
        "path, rights and content; every value in it is a JSON string.",
        Code("EI0004", "the rank table cannot be read or is invalid"),
    ),
    _permanent(
        "EC",
        "The rank table does not describe the devices that the ranks have opened. Its device_id "
        "is the physical id (the N of /dev/davinciN), also where ASCEND_RT_VISIBLE_DEVICES or a "
        "container counts from 0.",
        Code("EI0014", "the rank table does not fit the devices"),
    ),
    _permanent(
        "EC",
        "Add the key that the message names to the rank table.",
        Code("EI0017", "a key is missing in the rank table"),
    ),
    _permanent(
        "HCCL-DOC cluster_info_verify_fail",
        "The devices are configured differently, most often TLS is on for some and off for "
        "others. Compare 'hccn_tool -i N -tls -g' over all devices and hosts, and set them alike.",
        Code("EI0016", "the ranks are configured differently"),
    ),
    _permanent(
        "EC",
        "The ranks run different graphs, arguments or rank tables. Start all of them with the "
        "same script, the same arguments and the same rank table.",
        Code("EI0005", "the ranks call collectives with different arguments"),
    ),
    _permanent(
        "EC",
        "Install the same CANN version on all hosts of the job.",
        Code("EI0008", "the ranks have different HCCL versions"),
    ),
    _permanent(
        "EC",
        "The devices of this host cannot talk to each other directly. Set "
        "HCCL_INTRA_ROCE_ENABLE=1; if 'npu-smi info' shows a device that is not OK, have an "
        "administrator look at it.",
        Code("EI0010", "two devices of the host cannot exchange memory directly"),
    ),
    # The runtime (EE codes, aclError numbers), and the inner errors of all parts
    _ambiguous(
        "RTC; FD",
        "The connection between host and device is slow or broken. Try once more; if it comes "
        "back, have an administrator check the device.",
        Code("207020", "the driver took too long"),
        Code("507051", "a message to the device could not be sent"),
        Code("507052", "a copy to or from the device failed"),
        Code("507901", "the connection to the device was lost"),
    ),
    _ambiguous(
        "RTC; vllm-ascend #4284",
        "The device could not be opened. Seen when the operator package does not fit, when "
        "ASCEND_RT_VISIBLE_DEVICES is wrong, and when another process holds the device: check "
        "these, then try once more.",
        Code("507033", "the device could not be set up"),
    ),
    _ambiguous(
        "EC; RTC",
        "The work on the device did not finish in time. Look at the other ranks first; if none "
        "failed, check stream_sync_timeout, event_sync_timeout and the network.",
        Code("EE1002", "a stream was not finished in time"),
        Code("507012", "the device did not report in time"),
        Code("507046", "a stream was not finished in time"),
        Code("507047", "an event was not reached in time"),
        Code("107020", "a task was not finished in time"),
        is_secondary=True,
    ),
    _permanent(
        "EC; GEC",
        "Correct the environment variable that the message names. For ASCEND_RT_VISIBLE_DEVICES: "
        "ids from 0, ascending, each once, commas and no spaces.",
        Code("EE2002", "an environment variable has an invalid value"),
        Code("E13024", "an environment variable has an invalid value"),
        Code("E20002", "an environment variable has an invalid value"),
        Code("E40001", "an environment variable has an invalid value"),
    ),
    _permanent(
        "EC; RTC; ACL",
        "The runtime was asked for a device that does not exist, or with another invalid "
        "argument. Check session_device_id, ASCEND_DEVICE_ID and ASCEND_RT_VISIBLE_DEVICES "
        "against 'npu-smi info'.",
        Code("EE1001", "an argument is invalid"),
        Code("EE1003", "a parameter has an invalid value"),
        Code("EE1004", "a pointer is missing"),
        Code("107001", "the device id is invalid"),
        Code("EL0002", "the device id is invalid"),
        Code("EL0003", "an argument of the driver is invalid"),
        Code("E39001", "an argument is invalid"),
        Family(
            "EE10(?:1[0-2]|17|18|2[02])|EE400[12]", "an argument or the order of calls is wrong"
        ),
        Family("EH000[1-57-9]|EH001[24]|EH0013", "an argument of AscendCL is wrong"),
        Family(
            "1070[0-9]{2}|1000[0-9]{2}|14[58]0[0-9]{2}",
            "an argument or the order of calls is wrong",
        ),
    ),
    _permanent(
        "EC; RTC; ACL",
        "The device was not opened in this process or thread, or it is closed by now. Use it only "
        "inside 'with ascend_session(...)', and not in a process that was forked from one that had "
        "opened it.",
        Code("107002", "no device is open in this thread"),
        Code("107003", "a stream belongs to another context"),
        Code("107004", "a model belongs to another context"),
        Code("EE1010", "an object belongs to another context"),
        Code("100001", "AscendCL is not initialised"),
    ),
    _permanent(
        "EC; RTC; ACL",
        "This device, its driver or this release of CANN does not support what the line names. "
        "Leave that out, or install a driver and a CANN that do.",
        Code("207000", "not supported here"),
        Code("EL0014", "not supported by the driver"),
        Family("EE100[56]|EE1016|EH0006|EH0011|EK000[45]", "not supported here"),
        Family("207019|200001|20000[67]", "not supported here"),
    ),
    _permanent(
        "EC; RTC; ACL",
        "The host has no memory or no thread left for the vendor's libraries. Let the job use "
        "less, or stop other processes; see 'free -g' and 'ulimit -a'.",
        Code("EE1013", "the host is out of memory"),
        Code("EH0010", "the host is out of memory"),
        Code("EE1021", "the host is out of threads, locks or semaphores"),
        Code("200000", "the host is out of memory"),
        Family("EK020[1-3]|245000", "the host is out of memory or threads"),
    ),
    _permanent(
        "RTC",
        "Numbers have overflowed. Lower the loss scale or the learning rate, and look for what "
        "makes the first infinite value; see 'ascend-session guide training'.",
        Code("207003", "an overflow in an AI Core operator"),
        Code("207016", "an overflow in a vector core operator"),
        Code("207017", "an overflow"),
    ),
    _permanent(
        "EC; RTC",
        "Driver, CANN and processor do not fit together. Upgrade the driver and firmware.",
        Code("EE1015", "the driver is too old"),
        Code("507008", "the processor is not the one the software is for"),
    ),
    _permanent(
        "RTC",
        "An operator failed on the device, because of the operator or of the data it was given. "
        "The lines around name it; try it with smaller or other input, and look for NaN, indices "
        "out of range and shapes that change.",
        Code("507014", "AI Core operator took too long"),
        Code("507015", "AI Core operator failed"),
        Code("EZ2001", "an operator failed on the device"),
        Code("507017", "AI CPU operator took too long"),
        Code("507018", "AI CPU operator failed"),
        Code("507034", "vector core operator took too long"),
        Code("507035", "vector core operator failed"),
        Code("507048", "operator of a task group took too long"),
        Code("507049", "operator of a task group failed"),
        Family("507016|507036|50704[2-5]|507050", "an operator failed on the device"),
    ),
    _hardware(
        "RTC",
        _FAULTY_DEVICE,
        Code("507010", "the device lost its heartbeat"),
        Code("507053", "device memory error"),
        Code("507054", "multi-bit ECC error in device memory"),
        Code("507055", "suspected device memory error"),
        Code("507056", "link error"),
        Code("507914", "memory error of another device or of the link to it"),
    ),
    _hardware(
        "RTC",
        _FAULTY_DEVICE,
        # Also seen with EL0005, where the device is only busy.
        Code("507899", "internal error of the driver"),
        is_vague=True,
    ),
    _permanent(
        "RTC",
        "The runtime was initialised twice. Initialise and shut down once in a process, and do "
        "not mix this with another library that does it too.",
        Code("100002", "initialised twice"),
        Code("207015", "initialised twice"),
    ),
    _ambiguous(
        "EC; RTC; ACL",
        "This code only reports that something failed inside. The lines below it and the "
        "process's own log (plog) say what; do not try again because of it alone.",
        Code("E19999", "inner error of the graph engine"),
        Code("EE9999", "inner error of the runtime"),
        Code("EH9999", "inner error of AscendCL"),
        Code("EI9999", "inner error of HCCL"),
        Code("EZ9999", "inner error of an operator"),
        Code("EZ9903", "an operator failed in the runtime"),
        Code("500000", "inner error of AscendCL"),
        Code("500001", "inner error of AscendCL"),
        Code("500002", "the graph engine failed"),
        Code("500003", "the runtime failed"),
        Code("500004", "the driver failed"),
        Code("507000", "inner error of the runtime"),
        Code("507001", "inner error of the task scheduler on the device"),
        Family("E[KOP]9999|500005", "inner error of profiling, compression or dump"),
        Family("507(?!016|036|04[2-5]|050)(?:0[0-5]|9[01])[0-9]", "inner error of the runtime"),
        Family("545[06][0-9]{2}|24500[12]|34510[0-9]", "the graph engine failed"),
        Family(
            "2070(?!19)[0-9]{2}|20000[2-5]|300000|EE1019|EE1023|EE1007",
            "the runtime is out of something",
        ),
        is_vague=True,
    ),
    _ambiguous(
        "EC; RTC; ModelArts documentation, modelarts_trouble_0054",
        "A graph failed while it ran on the device. The code or the operator in the lines above "
        "says why. If there is none, see whether the data pipeline keeps up with the device "
        "(prefetch, fewer or smaller inputs).",
        Code("507011", "a graph failed on the device"),
        Code("EE1009", "a graph failed on the device"),
        Code("0x91", "a graph failed on the device"),
        KnownText("retCode=0x91", "0x91", "retCode=0x91(?![0-9a-fA-F])"),
        is_vague=True,
    ),
    # The TensorFlow adapter and the graph engine's compilers (E2, E4 codes)
    _permanent(
        "EC",
        "The operator compiler does not find a Python that fits or one of its modules. Run "
        "'source set_env.sh' of the CANN toolkit in this shell and check the Python version.",
        Code("E40002", "the Python version does not fit"),
        Code("E40020", "a Python module cannot be imported"),
        Code("E40024", "a Python function of the operator compiler cannot be called"),
    ),
    _permanent(
        "EC; GEC",
        "No kernel of this device takes the operator with this data type, format or shape: the "
        "line names its type (optype) and the reason. Check that the operator package (OPP) is "
        "complete and fits this device and CANN, and that set_env.sh was sourced. If it is, give "
        "the operator another data type or a fixed shape, replace it, or let what the device "
        "cannot run stay on the host with mix_compile_mode=True.",
        Code("EZ3002", "the operator is not supported as it is used here"),
        Code("EZ3003", "no library of operators has the operator"),
        Code("EZ0501", "the operator is not registered"),
        Code("E10501", "the operator is not registered"),
        Code("EZ9010", "the operator has no parser"),
        Code("E13010", "the operator has no plugin"),
    ),
    _permanent(
        "EC",
        "The operator compiler stopped at the operator that the line names; the code or the "
        "Python traceback below it says why. If nothing does, look for '[ERROR] TBE' in the "
        "process's own log (plog), and try the operator with another data type or shape.",
        Code("E40021", "an operator could not be compiled"),
        Code("E20001", "an operator could not be compiled"),
        Code("E22001", "the operator compiler left no result"),
        is_vague=True,
    ),
    _permanent(
        "EC",
        "The operator cannot be compiled with these shapes, data types or attributes: the text "
        "behind the code says what its implementation does not allow. Give it others, replace "
        "it, or choose another implementation of it.",
        Code("E90000", "an operator could not be compiled"),
        Code("E90001", "the parameters of an operator were refused by its compiler"),
        Code("E90002", "an operator would need an instruction that does not exist"),
        Code("E90003", "an operator does not fit the template that it is compiled with"),
        Code("EA0000", "an operator could not be compiled"),
        Code("EB0000", "an operator could not be compiled"),
        Family("EB[0-9]{2}00", "an operator could not be compiled"),
        Family("EE1014", "the binary of an operator cannot be read"),
    ),
    _permanent(
        "EC",
        "An operator got an input or an attribute that it does not take. The line names the "
        "operator, what it got and what it takes: correct that in the script, or replace the "
        "operator.",
        Code("EZ0001", "an input of an operator has a wrong shape"),
        Code("EZ1001", "a parameter of an operator is wrong"),
        Family("EZ000[2-7]", "an input or an attribute of an operator is wrong"),
        Family(
            "E500[0-9]{2}|E6[0-8][0-6][0-9]{2}|E700[0-9]{2}|E80001",
            "an input or an attribute of an operator is wrong",
        ),
    ),
    _permanent(
        "GEC; EC",
        "The graph engine refused a value: the line names it, and says which values it takes. "
        "'ascend-session options NAME' has the rules of an option.",
        Code("E10001", "a value was refused by the graph engine"),
        Code("E20003", "an entry of a configuration file is wrong"),
        Family("E10[0-5][0-9]{2}|E1[234]0[0-9]{2}", "a value was refused by the graph engine"),
        Family("E2010[13]|E40022", "a value was refused by the operator compiler"),
    ),
    _permanent(
        "GEC; EC",
        "A file or folder that the line names cannot be opened, read, written or understood. "
        "Check its path, its content, the rights of this user and the space that is left.",
        Code("E13000", "a path is empty"),
        Code("E13001", "a file cannot be opened"),
        Code("E13003", "a file cannot be read"),
        Code("E13004", "a file cannot be written"),
        Code("E13005", "a file cannot be parsed"),
        Code("E21001", "a file cannot be opened"),
        Code("E21002", "a file cannot be parsed"),
        Code("E40003", "a file of the operator compiler cannot be opened"),
        Code("E40023", "a path is invalid"),
        Code("E10410", "a file does not exist"),
    ),
    _permanent(
        "EC",
        "Profiling or a dump was asked for in a way that is not possible. Correct what the line "
        "names; 'ascend-session options profiling' and 'ascend-session options dump' have the "
        "rules.",
        Code("EK0001", "a value for profiling is wrong"),
        Code("EP0001", "an entry of a dump's configuration is wrong"),
        Family("EK000[2367]|EE4004", "profiling was asked for in a way that is not possible"),
        Family("EK0204", "no disk space is left for profiling"),
        Family("EP000[2-8]", "a dump was asked for in a way that is not possible"),
    ),
    _permanent(
        "EC; GEC",
        "This code comes from a tool that no training job uses. Read the line in the manual of "
        "that tool.",
        Code("EO0001", "AMCT, which compresses models, was given a wrong value"),
        Family("EO000[2-4]", "AMCT, which compresses models, refused its input"),
        Family("EF200[1-8]", "MDAT, which splits models, refused its input"),
        Family("EM900[12]", "the scheduler of queues did not start"),
        Family("E1[16]0[0-9]{2}|E76002", "ATC cannot convert the Caffe or ONNX model"),
    ),
    _permanent(
        "EC",
        "The graph has a part that the fusion pass named here cannot handle. Switch that pass off "
        "in the file of fusion_switch_file, or change that part of the graph.",
        Code("E20007", "a graph fusion pass failed"),
    ),
    _permanent(
        "TFA ge_plugin.cc",
        "Unset CM_CHIEF_IP or RANK_TABLE_FILE. With both set the adapter continues without "
        "collectives, and every rank trains alone.",
        KnownText("CM_CHIEF_IP and RANK_TABLE_FILE cannot be configured at the same time"),
    ),
    _permanent(
        "TFA npu_attrs.cc",
        "Set ASCEND_DEVICE_ID to the device's logical id, a whole number from 0.",
        KnownText("ASCEND_DEVICE_ID is invalid"),
    ),
    _permanent(
        "TFA init_collective_communication.md",
        "A collective or a rank query came before the collectives were initialised. Call it "
        "inside 'with ascend_system(...)', that is after initialize_system.",
        KnownText("get rank id error"),
        KnownText("Call hcom_bind_model failed"),
    ),
    _ambiguous(
        "TFA ge_plugin.cc",
        "The graph engine did not start. The code in the lines below, after 'Error Message is', "
        "says why; if there is none, read the process's own log (plog).",
        KnownText("[GePlugin] Initialize ge failed"),
        KnownText("GEInitialize failed"),
        is_vague=True,
    ),
    _ambiguous(
        "TFA ge_plugin.cc",
        "The graph engine could not be finalised, so the device may still be held although the "
        "program has exited. The code in the lines below, after 'Error Message is', says why. "
        "Before the next job, look with 'npu-smi info' whether a process holds the device.",
        KnownText(GE_FINALIZE_FAILED),
        is_vague=True,
    ),
    _ambiguous(
        "TFA ge_plugin.cc",
        "The data channel to the device did not open, and the process aborts after 3 seconds. The "
        "code in the lines around, or the process's own log (plog), says why.",
        KnownText("[GePlugin] Tdt host init failed"),
        is_vague=True,
    ),
    _ambiguous(
        "TFA ge_plugin.cc",
        "The graph engine's parser did not start, and the process aborts after 3 seconds. The code "
        "in the lines around, or the process's own log (plog), says why; where there is none, "
        "check that the toolkit's set_env.sh was sourced and that its parts have one version.",
        KnownText("Initialize parser failed", near="[GePlugin]"),
        is_vague=True,
    ),
    # The stage in which HCCL failed, as it says from CANN 8.5 on. The manual gives the last three
    # no class; here they only say where it failed.
    _permanent(
        "HCCL-DOC debug_thinking",
        "Correct the HCCL environment variable that the line names.",
        _stage("InitGroupStage", "EnvConfig"),
        is_vague=True,
    ),
    _permanent(
        "HCCL-DOC debug_thinking",
        "HCCL refused the rank table, or what the ranks reported about their devices. Correct "
        "what the line names.",
        _stage("InitGroupStage", "RanktableConfig"),
        _stage("InitGroupStage", "RanktableCheck"),
        is_vague=True,
    ),
    _permanent(
        "HCCL-DOC debug_thinking",
        "Two ranks call a collective with different arguments. Start all ranks with the same "
        "script, the same arguments and the same data.",
        _stage("InitChannelStage", "ParameterConflict"),
        is_vague=True,
    ),
    _permanent(
        "HCCL-DOC debug_thinking",
        "Install the same CANN version on all hosts of the job.",
        _stage("InitChannelStage", "VersionConflict"),
        is_vague=True,
    ),
    _permanent(
        "HCCL-DOC debug_thinking",
        "Correct the argument of the collective that the line names.",
        _stage("TaskExecStage", "InvalidArgument"),
        is_vague=True,
    ),
    _secondary(
        "HCCL-DOC debug_thinking",
        "This rank waited for others that did not join. Look for the rank that failed first or "
        "was never started; then check HCCL_CONNECT_TIMEOUT and the network.",
        _stage("InitGroupStage", "RanktableDetect"),
        _stage("InitChannelStage", "Timeout"),
        is_vague=True,
    ),
    _secondary(
        "HCCL-DOC debug_thinking",
        "Another rank exited, hangs or is much slower than this one. Look for the rank that "
        "failed first; then check HCCL_EXEC_TIMEOUT.",
        _stage("TaskExecStage", "Timeout"),
        _stage("TaskExecStage", "HeartbeatAbnormal"),
        is_vague=True,
    ),
    _ambiguous(
        "HCCL-DOC debug_thinking (no class given there)",
        "HCCL failed in this stage; the rest of the line and the codes around say why.",
        _stage("InitGroupStage", "Resource"),
        _stage("TaskExecStage", "Not Supported"),
        _stage("TaskExecStage", "RunFailed"),
        is_vague=True,
    ),
    # Python
    _permanent(
        "Python, ModuleNotFoundError",
        "This Python does not have the vendor's package. Without a device, start the script with "
        "'ascend-session run', or its ranks with 'ascend-session launch': they bring a stand-in. "
        "With a device, source the toolkit's set_env.sh and install the vendor's wheel: "
        f"{VENDOR_WHEEL_COMMAND}.",
        *(_missing_module(name) for name in ("npu_bridge", "hccl")),
    ),
    _permanent("Python, ModuleNotFoundError", OTHER_ADAPTER, _missing_module("npu_device")),
    # The operating system
    _permanent(
        "fork(2), pthread_create(3); TensorFlow's env.cc; OpenBLAS's blas_server.c",
        PROCESS_LIMIT,
        KnownText("can't start new thread"),
        KnownText("pthread_create", "pthread_create failed", r"pthread_create(?:\(\))? failed"),
        KnownText(
            "Resource temporarily unavailable",
            # Of a locked file or a socket it means something else.
            pattern=r"(?:\bfork:|\bclone:|what\(\): |Thread creation failed:) Resource temporarily"
            r"|(?:os\.fork\(\)|_execute_child)\n(?:[^\n]{0,200}\n){0,2}BlockingIOError: .Errno 11",
        ),
    ),
    # TensorFlow
    _permanent(
        "TFA om_partition_subgraphs_pass.cc; guides/facts/adapter.md#checkpoints",
        "A checkpoint was to be saved before the variable had a value. If its initialiser has run, "
        "the saver is sharded, as MonitoredTrainingSession and Estimator make theirs, which the "
        "adapter may fail to run: use training.monitored_session(system, ...), or give the session "
        "tf.train.Scaffold(saver=tf.train.Saver()) ('ascend-session guide training', Savers).",
        KnownText(
            "uninitialized value",
            "uninitialized value in SaveV2",
            r"uninitialized value [^\n]{1,200}\n[^\n]{0,40}node [^\n]{0,200}SaveV2\b",
        ),
    ),
    # The stub
    _permanent(
        "backends/exchange of this package",
        "The ranks of this job need each other, and one did not do its part. Start all ranks with "
        "the same script, arguments and data, give each the same number of steps (see "
        "training.common_steps), and read what the ranks that the sentence names have written.",
        KnownText(JOB_CANNOT_GO_ON, JOB_CANNOT_GO_ON[:-2]),
        is_secondary=True,
    ),
    _permanent(
        "guides/wrong_results.md#the-loss-is-nan",
        "An operator has divided by zero or overflowed; float16 ends at 65504. Find the first "
        "one: tf.debugging.check_numerics, or on a device the overflow dump. Then correct the "
        "input, lower the learning rate, clip, or give DistributedOptimizer a loss scale "
        "manager. See 'ascend-session guide wrong_results'.",
        KnownText("NaN loss during training", "NaN"),
        KnownText("Tensor had NaN values", "NaN"),
        KnownText("Tensor had Inf values", "NaN"),
    ),
    _permanent(
        "guides/training.md#when-the-ranks-hold-different-models",
        "Let all ranks begin with the variables of rank 0 (BroadcastGlobalVariablesHook), and "
        "average the gradients of every step (training.DistributedOptimizer); in npu_bridge these "
        "are NPUBroadcastGlobalVariablesHook and npu_tf_optimizer. Each checkpoint of this job, "
        "also that of rank 0, is the model of one rank. If each rank is to train a model of its "
        "own, launch with --independent (in Python, independent=True).",
        KnownText(
            " different models: ",
            DIFFERENT_MODELS,
            r"hold \d{1,7} different models: ",
        ),
    ),
)
