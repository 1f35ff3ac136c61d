"""``npu_bridge`` and ``hccl`` for machines without a device: public scripts run unchanged.

`install` makes the vendor's names mean the modules below ``npu_bridge`` and ``hccl`` here, which
mirror the vendor's tree. `script_run` has the one object that owns a script's run, `on_stub` and
`on_device` look after its sessions, and `run_end` after its end; `verdicts` says what a device
would make of the options of a session, and `report` makes rows of a run. Importing this package
installs nothing and needs no TensorFlow.
"""
