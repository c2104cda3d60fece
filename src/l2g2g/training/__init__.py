"""Training: batches of patches, the objective, the loop and its checkpoints."""
