"""A launcher in a process of its own: runs one attempt and prints what was noticed of it."""

import json
import sys
from pathlib import Path

from tests.launcher.supervised import job

asked = json.loads(sys.argv[1])
run = job(Path(asked["folder"]), asked["code"], asked["ranks"], asked["grace"])
attempt, reports = run.attempt, run.attempt.reports
print(
    json.dumps(
        {
            "statuses": run.statuses,
            "signal": attempt.signal,
            "swept": attempt.swept,
            "left": attempt.left,
            "guardian_died": attempt.guardian_died,
            "members": [list(each.values()) for each in reports.members.values()],
            "models": list(reports.models.values()),
            "progress": list(reports.progress.values()),
            "replaced": list(reports.replaced.values()),
        }
    )
)
