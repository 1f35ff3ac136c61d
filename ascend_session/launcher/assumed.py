"""Devices of another machine, for which a launch is planned here and not started."""

import re
from typing import NamedTuple, Optional

from ascend_session.hardware.families import most_devices, named_family
from ascend_session.text import format_count


class AssumedDevices(NamedTuple):
    """The devices of a server that is not this machine.

    Attributes:
        product: Their family, as in `ascend_session.hardware.families`.
        size: Their number; their physical ids are 0 to size - 1, and a process gets all.
    """

    product: str
    size: int

    @classmethod
    def parse(cls, text: str) -> "Optional[AssumedDevices]":
        """Read a product and a number of devices that it may have, as in ``A2:8``; else None."""
        name, _, number = text.partition(":")
        product = named_family(name)
        if product is None or not re.fullmatch("[1-9][0-9]?", number):
            return None
        return cls(product, int(number)) if int(number) <= most_devices(product) else None

    def __str__(self) -> str:
        return f"{format_count(self.size, 'device')} of {self.product}"
