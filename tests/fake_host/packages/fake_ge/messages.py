"""What GE and HCCL say when they fail.

Source: guides/facts/failures.md, and error_code.json of the vendor's runtime for the wording behind
each code. What follows "Reason:" is the fake's own, unless the place that says it has a source. A
code that is not here is an inner error (guides/facts/failures.md#codes-that-say-nothing).
"""

__all__ = ["nested", "said"]

_TEXTS = {
    "E10056": "Options precision_mode and precision_mode_v2 cannot be set at the same time.",
    "EE1001": "The argument is invalid.",
    "EE2002": "Environment variable ASCEND_RT_VISIBLE_DEVICES is invalid.",
    "EI0002": "The wait execution of the Notify register times out.",
    "EI0003": "The collective communication operator has an invalid argument.",
    "EI0005": "The arguments for collective communication are inconsistent between ranks:",
    "EI0006": "Getting socket times out.",
    "EI0004": "The ranktable or rank is invalid,",
    "EI0014": "The ranktable information check failed,",
    "EI0015": "Failed to collect cluster information of the communicator.",
    "EJ0001": (
        "Failed to initialize the HCCP process. Reason: Maybe the last training process is running."
    ),
    "EL0005": "The resources are busy.",
    "E30003": "The number of user processes exceeds the limit.",
}
_SOLUTIONS = {
    "EI0005": "Check whether the training script and ranktable of each NPU are consistent.",
    "EI0014": (
        "Try again with a valid cluster configuration in the ranktable file. Ensure that the "
        "configuration matches the operating environment."
    ),
    "EJ0001": "Wait for 10s after killing the last training process and try again.",
    "EL0005": "Close applications not in use, wait, and try again.",
    "E30003": "Try again 10 seconds after the last training job exits.",
}
# What users of a busy device posted: LlamaFactory #3839, verl #332 (EJ0001).
_TRACES = {
    "EJ0001": (
        "tsd client wait response fail, device response code[1]. unknown device error."
        "[FUNC:WaitRsp][FILE:process_mode_manager.cpp][LINE:290]"
    ),
}


def nested(code: str, reason: str = "", values: str = "") -> str:
    """The text behind ``Error Message is :``, as GEGetErrorMsgV2 gives it.

    Its order (text, Solution, TraceBack) is that of the posts named above; ``values`` are part of
    the text.
    """
    text = f"{code}: {_TEXTS.get(code, 'Inner Error!')}{values}"
    text += f" Reason: {reason}." if reason else ""
    lines = [text]
    if code in _SOLUTIONS:
        lines.append(f"Solution: {_SOLUTIONS[code]}")
    if code in _TRACES:
        lines += ["TraceBack (most recent call last):", _TRACES[code]]
    return "\n        ".join(lines)


def said(wrapper: str, message: str) -> str:
    """A nested text in one of the adapter's own sentences (geop_npu.cc, ge_plugin.cc)."""
    return f"{wrapper}\nError Message is : \n{message}\n"
