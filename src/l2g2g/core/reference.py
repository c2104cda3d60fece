"""Reference: every formula of the core once more in plain NumPy and torch, for reading, for tests and other devices."""

from __future__ import annotations

# Kernels on graphs: NumPy arrays in, NumPy arrays out, the same names and arguments as in `_native`.

# Kernels on tensors: torch, any device and precision.
