"""Numbers multiplied on a GPU, and whether there is one."""

from ._hip import device_count, scale

__all__ = ["device_count", "scale"]
