"""What GE and HCCL say when they fail. Source: launch_facts.md, E, and error_code.json of the
vendor's runtime for the wording behind each code."""

__all__ = ["nested", "said"]

_TEXTS = {
    "E10056": "Options precision_mode and precision_mode_v2 cannot be set at the same time.",
    "EE1001": "The argument is invalid.",
    "EE2002": "Environment variable ASCEND_RT_VISIBLE_DEVICES is invalid.",
    "EI0004": "The ranktable or rank is invalid,",
    "EI0014": "The ranktable information check failed,",
    "EJ0001": (
        "Failed to initialize the HCCP process. Reason: Maybe the last training process is running."
    ),
    "EK0001": "Argument profiling_options is invalid.",
    "EL0005": "The resources are busy.",
    "E30003": "The number of user processes exceeds the limit.",
}
_SOLUTIONS = {
    "EI0014": (
        "Try again with a valid cluster configuration in the ranktable file. Ensure that the "
        "configuration matches the operating environment."
    ),
    "EJ0001": "Wait for 10s after killing the last training process and try again.",
    "EL0005": "Close applications not in use, wait, and try again.",
    "E30003": "Try again 10 seconds after the last training job exits.",
}
_TRACES = {
    "EJ0001": (
        "tsd client wait response fail, device response code[1]. unknown device error."
        "[FUNC:WaitRsp][FILE:process_mode_manager.cpp][LINE:290]"
    ),
}


def nested(code: str, reason: str = "") -> str:
    """The text behind ``Error Message is :``, as GEGetErrorMsgV2 gives it."""
    text = f"{code}: {_TEXTS.get(code, 'Inner Error!')}"
    text += f" Reason: {reason}." if reason else ""
    lines = [text]
    if code in _SOLUTIONS:
        lines.append(f"Solution: {_SOLUTIONS[code]}")
    if code in _TRACES:
        lines += ["TraceBack (most recent call last):", _TRACES[code]]
    return "\n        ".join(lines)


def said(wrapper: str, message: str) -> str:
    """A nested text in one of the adapter's own sentences."""
    return f"{wrapper}\nError Message is : \n{message}\n"
