"""Embedding tables on servers: their rows, updates, snapshots, servers and clients. Nothing here needs TensorFlow."""
