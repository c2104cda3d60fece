"""Patches: partitions of a graph and their overlaps."""
