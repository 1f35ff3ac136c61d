"""The vendor's package ``hccl``, for machines without a device."""
