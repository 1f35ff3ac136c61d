"""The same names from this package or, where it is not installed, from elsewhere."""

try:
    from ascend_session import AscendConfig, DumpConfig, MemoryConfig
except ImportError:
    from stand_in import AscendConfig

from ascend_session import ProfilingConfig


class DumpConfig(DumpConfig):
    def __init__(self, path):
        super().__init__(enable_dump=True, dump_path=path)


def MemoryConfig(size):
    return size


config = AscendConfig(precison_mode="x")
parts = DumpConfig(path="x"), MemoryConfig(size=1)
own = ProfilingConfig(path="x")  # expect: unknown-argument
