"""Writes the variables that Slurm, Open MPI and PMI have set here to a file of the folder given.

Not to its output: srun and mpirun mix the lines of several processes as soon as they are long.
"""

import json
import os
import re
import sys

_THEIRS = re.compile(r"(SLURM|SLURMD|OMPI|PMI|PMIX)_.*")
shown = {name: value for name, value in os.environ.items() if _THEIRS.fullmatch(name)}
with open(os.path.join(sys.argv[1], f"{os.getpid()}.json"), "w") as file:
    json.dump(shown, file)
