"""What is trained: features, declarations of models, artifacts, the store."""
