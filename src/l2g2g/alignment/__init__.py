"""Room 4: alignment: patch embeddings are brought into one frame."""
