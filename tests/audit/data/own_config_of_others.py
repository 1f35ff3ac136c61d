"""Classes that are only called like this package's."""

from ascend_session import ascend_session
from other_package import AscendConfig, MemoryConfig


class DumpConfig:
    def __init__(self, **given):
        self.given = given


config = AscendConfig(precison_mode="x", memory=MemoryConfig(size=1), dump=DumpConfig(path="x"))
with ascend_session() as sess:
    sess.run([])
