"""Models: encoders, decoders, inputs and losses on sparse matrices."""
