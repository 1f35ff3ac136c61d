"""``npu_bridge`` and ``hccl`` for machines without a device: public scripts run unchanged.

`install` makes the vendor's names mean the modules below ``npu_bridge`` and ``hccl`` here, which
mirror the vendor's tree. `sessions` checks every session that the script opens, by what
`judge_entry` says of its options; `life` has the open system of such a process, and reports on the
sessions at its end. Importing this package installs nothing and needs no TensorFlow.
"""

from typing import TYPE_CHECKING

from ascend_session.lazy import late_names

if TYPE_CHECKING:
    from ascend_session.compat.finder import PACKAGES as PACKAGES
    from ascend_session.compat.finder import install as install
    from ascend_session.compat.report import RunReport as RunReport
    from ascend_session.compat.report import build_report as build_report
    from ascend_session.compat.report import compare_ranks as compare_ranks
    from ascend_session.compat.report import report_lines as report_lines
    from ascend_session.compat.sessions import session_log as session_log
    from ascend_session.compat.sessions import watch_sessions as watch_sessions
    from ascend_session.compat.signatures import signature_of as signature_of
    from ascend_session.compat.verdicts import EntryVerdict as EntryVerdict
    from ascend_session.compat.verdicts import judge_entry as judge_entry

_HOMES = {
    "EntryVerdict": "verdicts",
    "PACKAGES": "finder",
    "RunReport": "report",
    "build_report": "report",
    "compare_ranks": "report",
    "install": "finder",
    "judge_entry": "verdicts",
    "report_lines": "report",
    "session_log": "sessions",
    "signature_of": "signatures",
    "watch_sessions": "sessions",
}

__getattr__, __dir__ = late_names(__name__, _HOMES, globals())
