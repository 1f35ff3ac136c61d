"""The body of a system fails while a session is open."""

import tensorflow.compat.v1 as tf

from ascend_session import ascend_system

tf.disable_eager_execution()
try:
    with ascend_system() as system:
        with system.session():
            raise ValueError("no data")
except ValueError as error:
    print(error)
print(*[f"{event.name}: {event.detail}" for event in system.events], sep="\n")
