"""Entry point of `l2g2g` and `python -m l2g2g`: all commands, those that reproduce the paper included."""

from l2g2g.cli import app, main
from l2g2g.paper.commands import reproduce

app.add_typer(reproduce, name="reproduce")

if __name__ == "__main__":
    main()
