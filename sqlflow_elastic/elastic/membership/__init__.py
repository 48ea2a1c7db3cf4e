"""Who computes: the deciding parts of a job's master and of its workers, as pure state machines.

Events in, commands out; no clock, socket, thread or TensorFlow inside. `messages` is what the two say to each other.
The I/O around them is `sqlflow_elastic.jobs.master` and `sqlflow_elastic.elastic.member`.
"""
