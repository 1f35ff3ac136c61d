"""Programs as users write them; run one with ``python -m ascend_session.examples.digits``."""
