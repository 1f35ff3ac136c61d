"""One rank of a job that is resumed: ``resumable.py FOLDER SIGNAL``; prints its weights at the end.

In the first attempt the last rank sends itself the signal, if it is not 0, before its fifth step.
"""

import sys
from pathlib import Path

from ascend_session import ascend_system, training
from hardware_tests.graph_mode import tensorflow_in_graph_mode
from tests.signals import signal_this_thread

STEPS = 9


def main(folder: Path, number: int) -> None:
    """Trains to the end."""
    tf = tensorflow_in_graph_mode()
    is_first_attempt = not (folder / "checkpoint").exists()
    with ascend_system() as system:
        is_victim = number and is_first_attempt and system.rank == system.size - 1

        step = tf.train.get_or_create_global_step()
        weight = tf.get_variable("weight", initializer=1.0)
        start = tf.placeholder(tf.int64, [])
        dataset = tf.data.Dataset.range(1000).shard(system.size, system.rank).skip(start)
        iterator = tf.data.make_initializable_iterator(dataset)
        image = iterator.get_next()
        loss = tf.square(weight - tf.cast(image, tf.float32) / 7)
        optimizer = training.DistributedOptimizer(tf.train.AdamOptimizer(0.1))
        train = optimizer.minimize(loss, global_step=step)
        with tf.train.MonitoredTrainingSession(
            master=system.target,
            config=system.session_config(),
            checkpoint_dir=str(folder) if system.rank == 0 else None,
            hooks=[
                training.BroadcastGlobalVariablesHook(0),
                training.SaveOnPreemptionHook(str(folder)),
            ],
            save_checkpoint_secs=None,
            save_checkpoint_steps=2,
            save_summaries_steps=None,
        ) as sess:
            begin = sess.run(step)
            sess.run(iterator.initializer, {start: begin})
            for number_of_step in range(begin, STEPS):
                if is_victim and number_of_step == 4:
                    signal_this_thread(number)
                sess.run({"train": train, "step": step})
                if system.rank == 0:
                    sess.run(weight)  # what one rank does alone waits for no other
            print(sess.run(weight).tobytes().hex())


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
