"""Neighbours: nearest nodes of a finished embedding, and missing links of its graph."""
