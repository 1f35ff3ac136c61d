"""What the recurrent operators have in common: the steps, the masks, what they do not take."""

from typing import Any, List, Optional

from ascend_session.backends._tensorflow import tf1
from ascend_session.compat.refusing import refuse

FORWARD, BACKWARD = "UNIDIRECTIONAL", "REDIRECTIONAL"


def all_steps(step: Any, x: Any, extra: Any, first: Any, direction: str) -> List[Any]:
    """What ``step`` makes of each step of x, stacked; a reversed direction begins at the end."""
    tf = tf1()
    others = extra if isinstance(extra, list) else [] if extra is None else [extra]
    made = tf.scan(step, (x, *others), initializer=first, reverse=direction == BACKWARD)
    for one in made:
        one.set_shape([x.shape.as_list()[0], *first[0].shape.as_list()])
    return list(made)


def masks_of(x: Any, seq_length: Any) -> Optional[Any]:
    """1 and 0 ``[steps, batch, 1]``: whether a step is one of the sequence; None for all."""
    tf = tf1()
    if seq_length is None:
        return None
    lengths = tf.cast(tf.convert_to_tensor(seq_length), tf.int32)
    mask = tf.range(tf.shape(x)[0])[:, tf.newaxis] < lengths[tf.newaxis, :]
    return tf.cast(mask, x.dtype)[:, :, tf.newaxis]


def masked(new: Any, old: Any, mask: Any) -> Any:
    return (new - old) * mask + old


def check_common(
    operator: str,
    direction: str,
    cell_depth: int,
    keep_prob: float,
    cell_clip: float,
    num_proj: int,
    time_major: bool,
    activation: str,
) -> None:
    """Refuses what the device's operators do not take (dynamic_rnn, check_attr)."""
    take_only(operator, cell_depth=(cell_depth, 1), keep_prob=(keep_prob, 1.0))
    take_only(operator, cell_clip=(cell_clip, -1.0), num_proj=(num_proj, 0))
    take_only(operator, time_major=(time_major, True), activation=(activation, "tanh"))
    if direction not in (FORWARD, BACKWARD):
        raise refuse(
            f"npu_bridge: {operator}",
            f"direction={direction!r} is neither {FORWARD} nor {BACKWARD}",
        )


def take_only(operator: str, **given: Any) -> None:
    for name, (value, taken) in given.items():
        if value != taken:
            raise refuse(
                f"npu_bridge: {operator}",
                f"it takes no {name}={value!r}, and neither does the device's, only {taken!r}",
                hint=f"Leave {name} at {taken!r}.",
            )
