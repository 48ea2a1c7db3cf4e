"""Embedding tables that no single process holds: what they are, how their rows begin, and their files."""
