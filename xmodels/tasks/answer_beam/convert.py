"""The head that reads ends beside beginnings in other formats."""

from keras import ops

from xmodels.tasks.answer_beam.task import AnswerBeam
from xmodels.tasks.base.published_head import SPAN_BEAM, PublishedHead


def logits(task, outputs, batch):
    """Returns (B, L, 3): of beginnings, of ends beside the first place, and of having no answer, which the last place stands
    for."""
    states, everywhere = outputs["sequence_output"], ops.ones(outputs["sequence_output"].shape[:2], "bool")
    starts = task.head.starts(states, everywhere)
    nothing = ops.broadcast_to(task.head.nothing(states, starts, states[:, -1])[:, None], starts.shape)
    return ops.stack([starts, task.head.ends(states, states[:, :1], everywhere)[:, 0], nothing], axis=-1)


HEAD = PublishedHead(
    kind=SPAN_BEAM,
    make=lambda config, num_classes, reading: AnswerBeam(config, reading=reading),
    logits=logits,
    axes={
        **{f"head.{layer}.kernel": "D I" for layer in ("start", "end", "null")},
        **{f"head.{layer}.bias": "I" for layer in ("start", "end")},
        **{f"head.{layer}_hidden.kernel": "P D" for layer in ("end", "null")},
        **{f"head.{layer}_hidden.bias": "D" for layer in ("end", "null")},
    },
)
