"""BigBird by the names of Hugging Face's `BigBirdForPreTraining`: BERT's, with a pooler of another name.

Outside of training their code lists the first block in place of random ones, which is our `mixer.plan` "first"; a network of theirs
is read with it. Their heads of classifiers and of questions have layers that ours do not have.
"""

import dataclasses

from xmodels.conversion.naming import TORCH
from xmodels.conversion.tables import bert
from xmodels.tasks.base.published_head import CHOICE, TOKENS

OF_BERT = bert.HUGGING_FACE
HUGGING_FACE = dataclasses.replace(
    OF_BERT,
    names=dict(OF_BERT.names) | TORCH.weights({"backbone.pooler": "bert.pooler"}),
    heads={kind: OF_BERT.heads[kind] for kind in (CHOICE, TOKENS)},
    settings=dict(OF_BERT.settings)
    | {"block_size": "mixer.block_size", "num_random_blocks": "mixer.num_random_blocks"},
    complete=lambda stored: {"block_size": 64, "num_random_blocks": 3} | stored,
    fixed={
        "model_type": "big_bird", "attention_type": "block_sparse", "is_decoder": False, "add_cross_attention": False,
        "use_bias": True, "rescale_embeddings": False,
    },
    infer_fields=lambda stored: {"mixer": "bigbird", "mixer.plan": "first"},
    unsaid=("mixer.plan", "mixer.plan_seed"),
    family="BigBird",
    architectures=tuple(
        (name.replace("Bert", "BigBird"), heads)
        for name, heads in OF_BERT.architectures
        if "NextSentence" not in name
    ),
    untyped=False,
    sentence_piece_class="BigBirdTokenizer",
)  # fmt: skip

MODEL, MIXER = "bert", "bigbird"
TABLE = dataclasses.replace(
    bert.TABLE, hugging_face=HUGGING_FACE, tensorflow1=None, paddle=None, keras_hub=None
)  # fmt: skip
