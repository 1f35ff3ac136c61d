"""The two context managers, and the one object that owns the device in this process."""
