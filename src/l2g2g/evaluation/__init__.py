"""Evaluation: held-out links, their ranks, a linear probe, and what a block model allows at best."""
