"""A folder for ``PYTHONPATH`` with nothing but ``sitecustomize``: see `ascend_session.witness`."""
