"""The vendor's ``npu_bridge`` for machines without a device; `compat` says how it gets that name."""
