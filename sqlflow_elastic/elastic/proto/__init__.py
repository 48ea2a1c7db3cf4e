"""The messages between a master and its workers as bytes: ``master.proto`` and what protoc makes of it."""
