"""Inference with a frozen graph: a ``.pb`` file in which the variables have become constants.

``python -m ascend_session.examples.frozen_graph`` writes such a file, computes some answers with it
twice and shows both; under ``ascend-session launch -n 2 -m ascend_session.examples.frozen_graph``
each of two ranks computes every second answer.
"""

from pathlib import Path
from typing import Any, Dict

from ascend_session import AscendConfig, ascend_system
from ascend_session.examples import _plane as plane
from ascend_session.examples._plane import hand_made_proto, side_by_side

CONFIG = AscendConfig(graph_run_mode=0, precision_mode="allow_mix_precision")
QUESTIONS = 8


def without(folder: Path) -> Dict[str, float]:
    """Run the usual script."""
    import tensorflow.compat.v1 as tf

    inputs, _ = plane.points()
    graph = load_graph(write_frozen_graph(folder))
    with tf.Session(graph=graph, config=hand_made_proto(graph_run_mode=0)) as sess:
        answers = sess.run("answers:0", {"inputs:0": inputs[:QUESTIONS]})
    return name_answers(answers)


def with_ascend_session(folder: Path) -> Dict[str, float]:
    """Compute each rank's share in a session of the system; ranks exchange nothing."""
    inputs, _ = plane.points()
    graph = load_graph(write_frozen_graph(folder))
    with ascend_system(CONFIG) as system:
        questions = inputs[:QUESTIONS][system.rank :: system.size]
        with system.session(graph) as sess:
            answers = sess.run("answers:0", {"inputs:0": questions})
    return name_answers(answers, system.rank, system.size)


def write_frozen_graph(folder: Path) -> Path:
    """Write the file, with `convert_variables_to_constants` as after a training."""
    import tensorflow.compat.v1 as tf

    with tf.Graph().as_default() as graph, tf.Session() as sess:
        inputs = tf.placeholder(tf.float32, [None, len(plane.SLOPES)], name="inputs")
        slopes = tf.get_variable("slopes", initializer=[[slope] for slope in plane.SLOPES])
        tf.matmul(inputs, slopes, name="answers")
        sess.run(tf.global_variables_initializer())
        proto = tf.graph_util.convert_variables_to_constants(
            sess, graph.as_graph_def(), ["answers"]
        )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "plane.pb"
    path.write_bytes(proto.SerializeToString())
    return path


def load_graph(path: Path) -> Any:
    """Load the graph of the file."""
    import tensorflow.compat.v1 as tf

    with tf.Graph().as_default() as graph:
        tf.import_graph_def(tf.GraphDef.FromString(path.read_bytes()), name="")
    return graph


def name_answers(answers: Any, first: int = 0, step: int = 1) -> Dict[str, float]:
    """Return the answers, named by the number of the question."""
    return {f"answer {first + step * n}": float(answer) for n, answer in enumerate(answers.ravel())}


if __name__ == "__main__":
    side_by_side(without, with_ascend_session)
