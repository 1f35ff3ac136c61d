"""``python -m ascend_session``, the same program as ``ascend-session``."""

from ascend_session.cli import main

if __name__ == "__main__":
    main()
