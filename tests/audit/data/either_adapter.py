"""A script that takes the adapter which is installed."""

try:
    import npu_device as adapter
except ImportError:
    import npu_bridge as adapter

print(adapter.__name__)
