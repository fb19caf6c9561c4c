"""The second phase of FastBERT: students learn to say what the teacher says (Liu et al., 2020, section 3.2.3)."""

from keras import ops

from xmodels.layers.exits import DISTILLATIONS
from xmodels.tasks.fast_classify.task import FastClassify


class Distil(FastClassify):
    """The sum over students of the divergence from the teacher, and of texts the mean; it needs no labels.

    Network and teacher are given, and must be untrainable (`freeze`).

    Args:
        direction: of the divergence. `teacher_first`, as in the released code: sum p_t log(p_t / p_s); `student_first`, as in
            equation 6 of the paper: sum p_s log(p_s / p_t).
    """

    label = "fast_classify"  # its weights are those of the task

    def __init__(self, config, labels, reading=None, direction="teacher_first", **kwargs):
        super().__init__(config, labels, reading, **kwargs)
        if direction not in DISTILLATIONS:
            raise ValueError(f"Unknown direction {direction!r}. Known: {', '.join(DISTILLATIONS)}.")
        self.direction = direction
        self.settings |= {"distilled": True}

    def freeze(self, backbone) -> None:
        """Leaves the students alone to learn. Call it before an optimizer is made."""
        backbone.trainable = False
        self.teacher.trainable = False

    def forward(self, backbone, batch, training=None):
        exits = self.exits(backbone, batch, training)
        return {"exits": exits, "logits": exits[:, -1]}

    def score(self, outputs, batch, backbone):
        exits, weights = outputs["exits"], ops.cast(batch["example_weights"], "float32")  # (B, layers, C), (B,)
        students, teacher = exits[:, :-1], ops.stop_gradient(exits[:, -1:])
        divergences = ops.sum(self.divergence(students, teacher), axis=1)  # (B,)
        same = ops.argmax(students, axis=-1) == ops.argmax(teacher, axis=-1)  # (B, students)
        agreement = ops.mean(ops.cast(same, "float32"), axis=1)  # (B,)
        total = ops.sum(weights)
        return (
            {"distillation": (ops.sum(divergences * weights), total)},
            {"agreement": (ops.sum(agreement * weights), total)},
        )

    def divergence(self, students, teacher):
        """Returns that of logits (B, students, C) from logits (B, 1, C): float32 (B, students)."""
        log_students, log_teacher = (ops.log_softmax(x, axis=-1) for x in (students, teacher))
        first, second = (
            (log_teacher, log_students) if self.direction == DISTILLATIONS[0] else (log_students, log_teacher)
        )
        return ops.sum(ops.exp(first) * (first - second), axis=-1)

    def predict(self, outputs):
        return {"exits": outputs["exits"]}
