"""Room 3: models: encoders, decoders and losses on sparse matrices."""
