"""The mathematics of the vendor's operators, computed by TensorFlow on the CPU.

Each function is one operator of the adapter's library: the same inputs, outputs and types, and the
gradient that the vendor registers for it. The numbers are those of the formula, not those of a
device's rounding.
"""
