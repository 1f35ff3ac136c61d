"""``python -m hardware_tests``: the least that shows whether devices work, and a page about it."""

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from typing import List, Optional

from hardware_tests import limits
from hardware_tests.first_contact import make_contact
from hardware_tests.needs import missing_device
from hardware_tests.page import Machine, Page
from hardware_tests.running import stop_ignoring_signals

_NO_DEVICE_CODE = 3


def main(arguments: Optional[List[str]] = None) -> int:
    """Run the steps and print the page; gives the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m hardware_tests",
        description="Run the least that shows whether the devices of this machine work: on one "
        "card, then on all, each step in a process of its own and with a time limit. Ends with a "
        "page that can be sent.",
        epilog="Exit code 0 if nothing failed, 1 if something did or a device was held, 2 for a "
        "wrong call, 3 if there is no device.",
    )
    parser.add_argument("--json", metavar="FILE", help="write the page as JSON, too")
    parser.add_argument(
        "--folder",
        metavar="FOLDER",
        help="a new folder for what the run writes; one below ascend-logs if not given",
    )
    parser.add_argument(
        "--time-limit",
        metavar="SECONDS",
        type=float,
        default=limits.STEP,
        help="how long one step may take; %(default)g if not given",
    )
    options = parser.parse_args(arguments)
    if not options.time_limit > 0:
        parser.error(f"--time-limit must be more than 0, not {options.time_limit:g}")
    absence = missing_device()
    if absence:
        verdict = f"Nothing was run: {absence}. Run this on a machine with an Ascend device."
        if options.json:
            empty = Page("first contact", verdict, False, time.time(), 0.0, "", Machine(), [])
            empty.write_json(options.json)
        print(verdict)
        return _NO_DEVICE_CODE
    name = time.strftime("hardware_%Y%m%d_%H%M%S")
    folder = Path(options.folder or Path("ascend-logs") / f"{name}_{os.getpid()}").absolute()
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        parser.error(f"--folder: {folder} cannot be made: {error.strerror}")
    stop_ignoring_signals()
    # What runs is ended before this process ends.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        page = make_contact(folder, options.time_limit)
    except KeyboardInterrupt:
        print(f"Interrupted; what was run has been ended. Its logs are in {folder}.")
        return 128 + signal.SIGINT
    text = page.as_text()
    (folder / "page.txt").write_text(text)
    for path in filter(None, (str(folder / "page.json"), options.json)):
        page.write_json(path)
    print(text, end="")
    return 0 if page.ok else 1


if __name__ == "__main__":
    sys.exit(main())
