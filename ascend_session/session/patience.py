"""What is done before the first initialisation so that it need not fail."""

from typing import Any, NamedTuple, Optional

from ascend_session.failures.retrying import RetryPolicy

__all__ = ["Patience"]


class Patience(NamedTuple):
    """How long to wait for a device, and whether to try it in another process first.

    Attributes:
        seconds: How long to wait until no other process holds it; 0 means not at all.
        policy: How often to try; None means not to try in another process.
    """

    seconds: float = 0
    policy: Optional[RetryPolicy] = None

    @classmethod
    def of(cls, wait_for_device: Any, probe: Any) -> "Patience":
        """Checks the arguments of `ascend_system`.

        Raises:
            TypeError: If they are no number of seconds and no RetryPolicy.
            ValueError: If the number is below 0.
        """
        if isinstance(wait_for_device, bool) or not isinstance(wait_for_device, (int, float)):
            raise TypeError(f"wait_for_device is a number of seconds, not {wait_for_device!r}.")
        if not wait_for_device >= 0:  # NaN is neither
            raise ValueError(f"wait_for_device is 0 seconds or more, not {wait_for_device}.")
        if probe is not None and not isinstance(probe, RetryPolicy):
            raise TypeError(f"probe is a RetryPolicy, such as RetryPolicy(), not {probe!r}.")
        return cls(wait_for_device, probe)
