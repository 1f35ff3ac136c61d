"""A launcher in a process of its own: runs one attempt and prints what was noticed of it."""

import json
import sys
from pathlib import Path

from tests.launcher.supervised import job

asked = json.loads(sys.argv[1])
run = job(Path(asked["folder"]), asked["code"], asked["ranks"], asked["grace"])
noticed = run.noticed
print(
    json.dumps(
        {
            "statuses": run.statuses,
            "signal": noticed.signal,
            "swept": noticed.swept,
            "left": noticed.left,
            "guardian_died": noticed.guardian_died,
        }
    )
)
