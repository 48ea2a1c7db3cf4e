"""The messages between a master and its workers as bytes: ``master.proto`` and what protoc makes of it."""

#: The metadata key under which a worker shows the job's token when it opens its stream.
TOKEN_KEY = "token"  # noqa: S105 - the key's name
