"""The command line: one file for each group of commands. `app` has the commands, `main` runs them."""

from l2g2g.cli.application import app, main

__all__ = ["app", "main"]
