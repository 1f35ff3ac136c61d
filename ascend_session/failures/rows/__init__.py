"""The table: every failure that is known, one definition a row, by the component that reports it.

All rows but those of ``stub`` stand in launch_facts.md, section E. Abbreviations in their sources:

* EC: the 406 official codes, ``src/dfx/error_manager/error_code.json`` of the CANN runtime
* RTC: ``rt_error_codes.h`` of the CANN runtime, the aclError numbers
* FD: the fault patterns of MindCluster's ``ascend-faultdiag``, ``kg-config.json``
* HCCL-DOC: the HCCL user guide
* TFA: the TensorFlow adapter, sources and manual
* issues: public reports, named where there are few
"""

from typing import Tuple

from ascend_session.failures.definition import Definition
from ascend_session.failures.rows import (
    adapter,
    aicpu,
    driver,
    hccl,
    hccp,
    runtime,
    stages,
    stub,
)

__all__ = ["ROWS"]

ROWS: Tuple[Definition, ...] = tuple(
    row
    for component in (hccp, aicpu, driver, hccl, runtime, adapter, stages, stub)
    for row in component.ROWS
)
