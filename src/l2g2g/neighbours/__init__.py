"""Room 7: neighbours: who is near to whom in a finished embedding, and which links are missing from the graph."""
