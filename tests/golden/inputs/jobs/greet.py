import os
import sys

print("rank", os.environ["RANK_ID"], "of", os.environ["RANK_SIZE"], sys.argv[1:], flush=True)
print("to stderr", file=sys.stderr, flush=True)
