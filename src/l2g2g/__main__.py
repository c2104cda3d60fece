"""Entry point: `l2g2g` and `python -m l2g2g`."""

from l2g2g.cli import main

if __name__ == "__main__":
    main()
