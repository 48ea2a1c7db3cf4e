"""Training whose workers take steps that wait for nobody: all weights are on servers."""
