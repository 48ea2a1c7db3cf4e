"""Servers that speak gRPC and the MySQL protocol."""
