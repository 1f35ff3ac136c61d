"""Rank 1 fails when the other one is there."""

import os
import time

if os.environ["RANK_ID"] == "0":
    open("here", "w").close()
    time.sleep(600)
while not os.path.exists("here"):
    time.sleep(0.01)
raise ValueError("there is no data")
