"""Durations: an estimated time in words."""

from __future__ import annotations


def show_seconds(seconds: float) -> str:
    """An estimate in seconds, minutes or hours, to two or three digits.

    Example:
        >>> show_seconds(42), show_seconds(600), show_seconds(9000)
        ('42 s', '10 min', '2.5 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
