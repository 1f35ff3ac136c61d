"""A launcher in a process of its own: runs one attempt and prints what was noticed of it."""

import json
import sys
from pathlib import Path

from tests.launcher.supervised import job

asked = json.loads(sys.argv[1])
run = job(Path(asked["folder"]), asked["code"], asked["ranks"], asked["grace"])
attempt = run.attempt
print(
    json.dumps(
        {
            "statuses": run.statuses,
            "signal": attempt.signal,
            "swept": attempt.swept,
            "left": attempt.left,
            "guardian_died": attempt.guardian_died,
        }
    )
)
