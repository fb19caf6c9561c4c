"""The head of a reader of answers in other formats."""

from xmodels.tasks.answer_span.task import AnswerSpan
from xmodels.tasks.base.published_head import SPAN, PublishedHead, logits_of_tokens

HEAD = PublishedHead(
    kind=SPAN,
    make=lambda config, num_classes, reading: AnswerSpan(config),
    logits=logits_of_tokens,
)
