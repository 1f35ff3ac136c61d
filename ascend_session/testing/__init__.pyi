from .ranks import run_ranks as run_ranks
