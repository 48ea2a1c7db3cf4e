"""TensorFlow's idle threads: whether they look for work for a while before they sleep.

Looking is a little faster where each thread has a core of its own. Where threads share cores it takes their time from
those that work: on half of the cores that TensorFlow has counted, steps take up to twice as long.
"""

from __future__ import annotations

import sys


def stop_spinning() -> None:
    """Have idle threads sleep at once, if TensorFlow is there; to be called before its first operation."""
    if "tensorflow" not in sys.modules:
        return
    from tensorflow.core.protobuf import config_pb2
    from tensorflow.python.eager import context

    # There is no public way: `tf.config` has no such option, and the environment neither.
    config = config_pb2.ConfigProto()
    config.experimental.disable_thread_spinning = True
    context.context()._config = config
