"""Alignment: brings patch embeddings into one frame."""
