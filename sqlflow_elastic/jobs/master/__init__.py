"""A job's master: the process that decides who computes. The deciding itself is `elastic.membership`."""
