"""Browser: the user's own, opened at an address where that can be seen."""

from __future__ import annotations

import os
import sys

_SCREENS = ("DISPLAY", "WAYLAND_DISPLAY")


def open_browser(address: str) -> bool:
    """Open an address in the user's browser; False where there is no screen, or no browser.

    A browser in the terminal would take the terminal away from the command that serves the page.
    """
    import webbrowser

    has_screen = sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in _SCREENS)
    if not has_screen or not sys.stdout.isatty():
        return False
    try:
        return webbrowser.open(address)
    except webbrowser.Error:
        return False
