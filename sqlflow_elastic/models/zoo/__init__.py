"""What the compiler, help and completion know of the models: declarations, without TensorFlow."""
