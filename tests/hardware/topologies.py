"""What ``npu-smi info -t topo`` prints, in public texts; the legends are shortened."""

__all__ = ["A2", "A5", "WITHOUT_BLANKS"]

# An 8 x 910B3 server with npu-smi 24.1.rc1, from the guide for NPUs of modelscope/swift: the cards
# of a pair share a NUMA node, and half of the nodes are near no card.
A2 = """\
\t   NPU0       NPU1       NPU2       NPU3       NPU4       NPU5       NPU6       NPU7       CPU Affinity
NPU0       X          HCCS       HCCS       HCCS       HCCS       HCCS       HCCS       HCCS       144-167
NPU1       HCCS       X          HCCS       HCCS       HCCS       HCCS       HCCS       HCCS       144-167
NPU2       HCCS       HCCS       X          HCCS       HCCS       HCCS       HCCS       HCCS       96-119
NPU3       HCCS       HCCS       HCCS       X          HCCS       HCCS       HCCS       HCCS       96-119
NPU4       HCCS       HCCS       HCCS       HCCS       X          HCCS       HCCS       HCCS       0-23
NPU5       HCCS       HCCS       HCCS       HCCS       HCCS       X          HCCS       HCCS       0-23
NPU6       HCCS       HCCS       HCCS       HCCS       HCCS       HCCS       X          HCCS       48-71
NPU7       HCCS       HCCS       HCCS       HCCS       HCCS       HCCS       HCCS       X          48-71

Legend:

  X    = Self
  SYS  = Path traversing PCIe and NUMA nodes. Nodes are connected through SMP, such as QPI, UPI.
  NA   = Unknown relationship.
"""  # noqa: E501

# A server with two sockets and hyper-threads, as in the tests of sgl-project/sglang.
WITHOUT_BLANKS = """\
NPU0 NPU1 NPU2 NPU3 CPU Affinity
NPU0 X UB SYS SYS 0-95,192-287
NPU1 UB X SYS SYS 0-95,192-287
NPU2 SYS SYS X UB 96-191,288-383
NPU3 SYS SYS UB X 96-191,288-383

Legend:
X = Self
UB = Connection traversing UB.
"""

# Of a 950 the matrix has network cards and no CPUs (vllm-project/vllm-ascend, issue 10463).
A5 = """\
           NPU0       NPU1       NIC0
NPU0       X          UB         PIX
NPU1       UB         X          SYS
NIC0       PIX        SYS        X
"""
