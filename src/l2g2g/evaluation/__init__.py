"""Room 6: evaluation: held-out links, and what a block model allows at best."""
