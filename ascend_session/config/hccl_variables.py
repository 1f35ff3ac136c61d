"""HCCL's environment variables: their values, by product, and their effects.

HCCL reads all of them when it makes a communicator, and ends the ranks (EI0001) if it refuses a
value. For most of them an empty value is not unset, and blanks are part of the value.

Source: HCOMM, externalinput.cc, env_config.cc and config_log.cc; for 950, which has its own reader,
base_config_legacy.h, env_func.cc and cfg_field.h in ascend950/framework/env_config. HCCL,
alg_env_config.cc. guides/facts/launch.md#hccl-variables shows this table.
"""

import os
import re
from typing import Callable, Dict, Iterator, Mapping, NamedTuple, Optional, Tuple

from ascend_session.findings import ERROR, INFO, Finding
from ascend_session.vendor import (
    A2,
    A3,
    A5,
    DUO,
    LONGEST_NUMBER,
    TRAINING,
    address_family,
    parse_seconds,
    parse_whole_number,
)

VARIABLES = "environment"
"""The name of the check."""

_LONGEST_WAIT_S, LONGEST_WAIT_ATLAS_S = 2147483647, 17340
"""How long a collective may wait: on Ascend 950, A3 and A2, and on Atlas products."""
_LARGEST_NUMBER, _LARGEST_PORT = 2**32 - 1, 65535
_LONGEST_PATH, _LONGEST_POD = 4095, 128


class Taken(NamedTuple):
    """The values that HCCL accepts: a predicate, and its description, as in "is not ..."."""

    matches: Callable[[str], object]
    words: str


class HcclVariable(NamedTuple):
    """One variable.

    Attributes:
        name: The variable.
        effect: What it does.
        taken: The values that HCCL accepts.
        taken_on: The values accepted on some products instead; None where the variable is not read.
            The reader of A5 takes empty text for unset, and any number of zeros before a number.
    """

    name: str
    effect: str
    taken: Taken
    taken_on: Mapping[str, Optional[Taken]] = {}

    def find_refusal(self, text: str, product: Optional[str]) -> str:
        """Return a description of the accepted values if this value is refused, else an empty text.

        Args:
            text: The value.
            product: The family of the devices; None if unknown, then one family that accepts is
                enough.
        """
        if product == A5:
            if text in ("", "EmptyString"):
                return ""
            text = text.lstrip("0") if re.fullmatch("[0-9]{11,}", text) else text
        here = self.taken_on.get(product or "", self.taken)
        all_taken = [here] if product else [here, *self.taken_on.values()]
        if here is None or any(taken.matches(text) for taken in all_taken if taken is not None):
            return ""
        return f"{here.words} on {product}" if product in self.taken_on else here.words


def _words(pattern: str, words: str, flags: int = 0) -> Taken:
    def matches(text: str) -> object:
        letters = os.fsencode(text).decode("latin-1")  # one for each byte, as HCCL counts
        return re.fullmatch(pattern, letters, flags | re.ASCII)

    return Taken(matches, words)


def _number(first: int, last: int, words: str = "from {} to {}", factor: int = 1) -> Taken:
    def matches(text: str) -> bool:
        number = 0 if re.fullmatch("-0{1,9}", text) else parse_whole_number(text)
        return number is not None and first <= number <= last and number % factor == 0

    return Taken(matches, words.format(first, last))


def _seconds(least: str, longest_s: int) -> Taken:
    def matches(text: str) -> bool:
        wait_s = parse_seconds(text) if len(text) <= LONGEST_NUMBER else None
        return wait_s is not None and wait_s <= longest_s and (wait_s > 0 or least == "from 0")

    return Taken(matches, f"{least} to {longest_s} seconds, in at most {LONGEST_NUMBER} characters")


def _is_interface_list(text: str) -> bool:
    names = text[1:] if text.startswith("^") else text
    return all((names[1:] if names.startswith("=") else names).split(","))


def _is_interface_list_950(text: str) -> bool:
    names = text[1:] if text.startswith("^") else text
    return re.match("=?(,|$)", names) is None


_ALGORITHM = "(null|ring|pipeline|fullmesh|H-D_R|pairwise|NHR|NHR_V1|AHC|AHC_BROKE|NB|NA)"
_LEVELS = f"level[0-3]:{_ALGORITHM}(;level[0-3]:{_ALGORITHM}){{0,3}}"
_OPERATIONS = "broadcast|allreduce|reduce|send|receive|allgather|reducescatter|alltoall|gather"


def _is_algorithm(text: str) -> bool:
    operations = text.replace(" ", "").split("/")
    if operations == [""] or (len(operations) == 1 and re.fullmatch(_LEVELS, operations[0])):
        named = operations
    else:
        named = [each.partition("=")[2] for each in operations]
        names = f"({_OPERATIONS}|scatter|sendrecv)=({_LEVELS})"
        if not all(re.fullmatch(names, each) for each in operations):
            return False
        if any("level0:null" in each for each in named):
            return False
    levels = [re.findall("level[0-3]", each) for each in named]
    return all(len(set(each)) == len(each) for each in levels)


def _is_port_list(text: str) -> bool:
    listed = text.replace(" ", "")
    if text == "auto" or not listed:
        return True
    if not re.fullmatch("[0-9]{1,10}(-[0-9]{1,10})?(,[0-9]{1,10}(-[0-9]{1,10})?)*", listed):
        return False
    ranges = sorted((*map(int, each.split("-")),) for each in listed.split(","))
    ends = [0, *(each[-1] for each in ranges)]
    follow = all(last < each[0] <= each[-1] for last, each in zip(ends, ranges))
    return follow and ends[-1] <= _LARGEST_PORT


def _is_retry_switch(text: str) -> bool:
    listed = text.replace(" ", "")
    levels = re.findall("L[0-2]", listed)
    is_list = re.fullmatch("L[0-2]:[01](,L[0-2]:[01]){0,2}", listed)
    return not listed or (is_list is not None and len(set(levels)) == len(levels))


def _is_retry_setting(text: str) -> bool:
    number = r"\s*\+?([0-9]{1,9})"
    match = re.match(rf"MaxCnt:{number},\s*HoldTime:{number},\s*IntervalTime:{number}", text)
    numbers = [int(each) for each in match.groups()] if match else []
    return bool(numbers) and 1 <= numbers[0] <= 10 and max(numbers[1:]) <= 60000


def _is_detection(text: str) -> bool:
    """Return whether the times of HCCL_DFS_CONFIG are right; other items only lead to warnings."""
    listed = text.replace(" ", "").lower()
    for name, least, most in _DETECTION_TIMES:
        value = listed.partition(name)[2].partition(",")[0] if name in listed else ""
        match = re.match(r"\s*([+-]?[0-9]{1,19})", value, re.ASCII)  # the rest is not read
        number = int(match[1]) if match else -1
        if value and number != 0 and not least <= number <= most:
            return False
    return True


_DETECTION_TIMES = (
    ("connection_fault_detection_time:", 20, 7200),
    ("task_monitor_interval:", 0, 7200000),
)
_DETECTION_950 = "(task_exception|cluster_heartbeat):(on|off)|inconsistent_check:(on|off|first)"

_SWITCH = _words("(?=.{1,10}$)0*[01]", "0 or 1")
_TRUE_FALSE = _words("true|false", "true or false", re.IGNORECASE)
_STRICT = _words("true|false|strict", "true, false or strict", re.IGNORECASE)
_PORTS = Taken(_is_port_list, "auto or ports from 1 to 65535, such as 50000-50015,50100")
_MODES = _words(
    "AI_CPU|AICPU_CacheDisable|AIV|HOST|HOST_TS", "AI_CPU, AICPU_CacheDisable, AIV, HOST or HOST_TS"
)
_MODES_950 = _words(
    "AI_CPU|AICPU_TS|AICPU_CacheDisable|AIV|CCU_MS|CCU_SCHED",
    "AI_CPU, AICPU_TS, AICPU_CacheDisable, AIV, CCU_MS or CCU_SCHED",
)
_WAIT, _SHORT_WAIT = _seconds("from 0", _LONGEST_WAIT_S), _seconds("above 0", LONGEST_WAIT_ATLAS_S)
_ONE_DIGIT = _words("[01]", "0 or 1")
_DETOUR = _words("detour:[01]", "detour:0 or detour:1")
_NOT_ON_A5: Dict[str, Optional[Taken]] = {A5: None}
_ONLY_ON_A5: Dict[str, Optional[Taken]] = {TRAINING: None, A2: None, A3: None, DUO: None}

HCCL_VARIABLES = (
    # Time and ports
    HcclVariable(
        "HCCL_CONNECT_TIMEOUT",
        "time for ranks to connect",
        _number(120, 7200, "from {} to {} seconds"),
    ),
    HcclVariable(
        "HCCL_EXEC_TIMEOUT",
        "time that a collective waits for other ranks",
        _WAIT,
        {TRAINING: _SHORT_WAIT, DUO: _SHORT_WAIT},
    ),
    HcclVariable(
        "HCCL_IF_BASE_PORT",
        "first of 32 ports on the host",
        _number(1024, 65520, "a port from {} to {}"),
    ),
    HcclVariable("HCCL_HOST_SOCKET_PORT_RANGE", "ports on the host", _PORTS, {DUO: None}),
    HcclVariable("HCCL_NPU_SOCKET_PORT_RANGE", "ports on the devices", _PORTS, {DUO: None}),
    # Hosts
    HcclVariable(
        "HCCL_IF_IP",
        "address of this host",
        Taken(lambda text: address_family(text) is not None, "an IPv4 or IPv6 address"),
    ),
    HcclVariable(
        "HCCL_SOCKET_IFNAME",
        "network interfaces of this host",
        Taken(_is_interface_list, "names with single commas, such as eth0,eth1, =eth0 or ^docker"),
        {A5: Taken(_is_interface_list_950, "names without a comma in front")},
    ),
    HcclVariable("HCCL_SOCKET_FAMILY", "IPv4 or IPv6", _words("AF_INET6?", "AF_INET or AF_INET6")),
    HcclVariable(
        "HCCL_WHITELIST_DISABLE",
        "0 lets only the hosts of a list connect",
        _words(r"(?=.{1,10}\Z)[ \t-\r]*(\+?0*1|[+-]?0+)(\D.*)?", "0 or 1", re.DOTALL),
        {A5: _ONE_DIGIT},
    ),
    # Links
    HcclVariable(
        "HCCL_INTRA_PCIE_ENABLE", "PCIe between the devices of a server", _SWITCH, _NOT_ON_A5
    ),
    HcclVariable(
        "HCCL_INTRA_ROCE_ENABLE", "RoCE between the devices of a server", _SWITCH, _NOT_ON_A5
    ),
    HcclVariable(
        "HCCL_INTER_HCCS_DISABLE", "no HCCS between servers of a superpod", _TRUE_FALSE, _NOT_ON_A5
    ),
    HcclVariable(
        "HCCL_LOGIC_SUPERPOD_ID",
        "the superpod that this server belongs to",
        Taken(
            lambda text: len(os.fsencode(text)) <= _LONGEST_POD,
            f"text of at most {_LONGEST_POD} bytes",
        ),
        _NOT_ON_A5,
    ),
    HcclVariable(
        "HCCL_RDMA_TC", "traffic class", _number(0, 255, "a multiple of 4 from {} to {}", 4)
    ),
    HcclVariable("HCCL_RDMA_SL", "service level", _number(0, 7)),
    HcclVariable(
        "HCCL_RDMA_TIMEOUT",
        "time until a packet is sent again, as a power of 2",
        _number(5, 24),
        {A2: _number(5, 20), A3: _number(5, 20), A5: _number(0, _LARGEST_NUMBER)},
    ),
    HcclVariable("HCCL_RDMA_RETRY_CNT", "how often a packet is sent again", _number(1, 7)),
    HcclVariable(
        "HCCL_RDMA_QPS_PER_CONNECTION",
        "queue pairs of a connection",
        _number(1, 32),
    ),
    HcclVariable(
        "HCCL_MULTI_QP_THRESHOLD",
        "least data of a queue pair",
        _number(1, 8192, "from {} to {} KB"),
    ),
    HcclVariable(
        "HCCL_RDMA_QP_PORT_CONFIG_PATH",
        "file with the ports of queue pairs",
        Taken(os.path.exists, "a file that exists"),
    ),
    HcclVariable(
        "HCCL_RDMA_PCIE_DIRECT_POST_NOSTRICT",
        "sends of small packets are faster",
        _TRUE_FALSE,
        _NOT_ON_A5,
    ),
    HcclVariable(
        "HCCL_UB_MULTI_CHANNEL_NUM",
        "channels between two UB endpoints",
        _number(1, 16),
        _ONLY_ON_A5,
    ),
    HcclVariable("HCCL_DETOUR", "detours beside the direct links", _DETOUR, _ONLY_ON_A5),
    # Collectives
    HcclVariable(
        "HCCL_BUFFSIZE",
        "buffer of a group",
        _number(1, _LARGEST_NUMBER, "from {} to {} MB"),
        {A5: _words("[1-9][0-9]{0,18}", "from 1 MB")},
    ),
    HcclVariable(
        "HCCL_ALG_MULTIPLE_DIMENSION_SPLIT_RATIO",
        "share of the data that goes through the mesh first",
        _words(r"[0-9]+(\.[0-9]+)?", "a number without sign, such as 0.5"),
    ),
    HcclVariable(
        "HCCL_ALGO",
        "algorithms, of all collectives or of single ones",
        Taken(_is_algorithm, "such as level0:NA;level1:ring, or allreduce=level0:NA;level1:ring"),
        _NOT_ON_A5,
    ),
    HcclVariable(
        "HCCL_OP_EXPANSION_MODE", "where collectives are unfolded", _MODES, {A5: _MODES_950}
    ),
    HcclVariable(
        "HCCL_DETERMINISTIC",
        "the same sum in each run",
        _STRICT,
        {TRAINING: _TRUE_FALSE, DUO: _TRUE_FALSE, A5: None},
    ),
    HcclVariable(
        "HCCL_OP_RETRY_ENABLE",
        "a collective that fails is run again",
        Taken(_is_retry_switch, "such as L1:1,L2:0"),
        _NOT_ON_A5,
    ),
    HcclVariable(
        "HCCL_OP_RETRY_PARAMS",
        "how often, and after which time (ms)",
        Taken(_is_retry_setting, "such as MaxCnt:3,HoldTime:5000,IntervalTime:1000"),
        _NOT_ON_A5,
    ),
    # Logs
    HcclVariable(
        "HCCL_DIAGNOSE_ENABLE",
        "more logs of a task that fails",
        _number(0, 1, "{} or {}"),
        _NOT_ON_A5,
    ),
    HcclVariable("HCCL_ENTRY_LOG_ENABLE", "logs of each call", _ONE_DIGIT),
    HcclVariable(
        "HCCL_DFS_CONFIG",
        "how faults are detected",
        Taken(
            _is_detection,
            "such as connection_fault_detection_time:30,task_monitor_interval:0, the time 0 or "
            "from 20 to 7200 (s), the interval from 0 to 7200000 (ms)",
        ),
        {
            A5: Taken(
                lambda text: re.fullmatch(
                    f"({_DETECTION_950})(,({_DETECTION_950}))*", text.replace(" ", "")
                ),
                "task_exception or cluster_heartbeat with on or off, or inconsistent_check with "
                "on, off or first, such as task_exception:on",
            )
        },
    ),
    HcclVariable(
        "HCCL_DEBUG_CONFIG",
        "more logs of these parts",
        _words(
            r"\^?,*((ALG|TASK|RESOURCE|AIV_OPS_EXC)(,+|$))*",
            "ALG, TASK or RESOURCE, with commas",
            re.IGNORECASE,
        ),
        _NOT_ON_A5,
    ),
)


WHITELIST = "HCCL_WHITELIST_FILE"
"""A file that is read where ``HCCL_WHITELIST_DISABLE`` is 0."""


def check_hccl_variables(
    environ: Mapping[str, str], product: Optional[str] = None, *, is_used: bool = True
) -> Iterator[Finding]:
    """Check HCCL's variables; HCCL ends the ranks for a value that it refuses.

    Args:
        environ: The environment of a rank.
        product: The family of the devices; None if unknown, then the widest limits count.
        is_used: Whether HCCL will read them; on the stub it does not, so all findings are notes.
    """
    refused = find_refusals(environ, product)
    consequence = "HCCL refuses it." if is_used else "HCCL refuses it on a device."
    for name, reason in refused.items():
        hint = f"Correct or unset {name}."
        if not environ[name]:
            hint = f"unset {name}: set but empty is not unset."
        message = f"{name}={environ[name]!r} is not {reason}; {consequence}"
        severity = ERROR if is_used else INFO
        yield Finding(severity, message, hint, rule=VARIABLES, option=name)


def find_refusals(environ: Mapping[str, str], product: Optional[str] = None) -> Dict[str, str]:
    """Find the variables that HCCL refuses, each with the values that it accepts."""
    given = [variable for variable in HCCL_VARIABLES if variable.name in environ]
    reasons = {each.name: each.find_refusal(environ[each.name], product) for each in given}
    refused = {name: reason for name, reason in reasons.items() if reason}
    pairs = _find_wrong_path(environ) if product == A5 else _find_wrong_pairs(environ)
    for name, reason in pairs:
        refused.setdefault(name, reason)
    return refused


def _find_wrong_path(environ: Mapping[str, str]) -> Iterator[Tuple[str, str]]:
    """Find a whitelist that the reader of A5 refuses.

    Source: CheckFilePath and SetRealPath in ascend950/framework/env_config/env_func.cc.
    """
    path = environ.get(WHITELIST)
    if environ.get("HCCL_WHITELIST_DISABLE") == "0" and path and not os.path.exists(path):
        yield WHITELIST, "a file that exists"


def _find_wrong_pairs(environ: Mapping[str, str]) -> Iterator[Tuple[str, str]]:
    """Find values that HCCL refuses because of another variable.

    Source: ParseIntraLinkType and ParseHcclWhitelistFilePath in externalinput.cc.
    """
    pcie, roce = "HCCL_INTRA_PCIE_ENABLE", "HCCL_INTRA_ROCE_ENABLE"
    switches = {name: parse_whole_number(environ.get(name, "")) for name in (pcie, roce)}
    if switches == {pcie: 1, roce: 1}:
        yield roce, f"possible beside {pcie}={environ[pcie]}: only one of them is 1"
    for name, other in ((pcie, roce), (roce, pcie)):
        if switches[name] == 0 and other not in environ:
            yield name, f"possible alone: {other} has to be set, too"
    is_list_read = re.match(r"\s*[+-]?0+(\D|$)", environ.get("HCCL_WHITELIST_DISABLE", ""))
    path = environ.get(WHITELIST)
    if is_list_read and path is not None and not 0 < len(os.fsencode(path)) <= _LONGEST_PATH:
        yield WHITELIST, f"a path of 1 to {_LONGEST_PATH} bytes"
