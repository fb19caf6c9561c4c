"""GPT by the names of Hugging Face's `OpenAIGPTLMHeadModel`; its blocks have the names of GPT-2's."""

import dataclasses

from data_pipelines.text.frames import PLAIN
from xmodels.conversion.format_types import HuggingFace
from xmodels.conversion.naming import TORCH
from xmodels.conversion.tables import gpt2
from xmodels.models.gpt import GptConfig

HUGGING_FACE = HuggingFace(
    names={
        **TORCH.weights({
            "backbone.embedding.token": "transformer.tokens_embed",
            "backbone.embedding.position": "transformer.positions_embed",
        }),
        **gpt2.block_names(TORCH, "transformer.h.{block}.", "."),
    },
    transposed="",
    settings=gpt2.SETTINGS,
    activation_key="afn",
    activations={"gelu": "gelu_tanh", "gelu_new": "gelu_tanh", "relu": "relu", "swish": "swish"},
    fixed={"model_type": "openai-gpt"},
    complete=lambda stored: gpt2.complete({**stored, "n_inner": None}),  # its width cannot be chosen
    architectures=(("OpenAIGPTLMHeadModel", frozenset()),),
    prefix="transformer.",
    bare_parts=("tokens_embed", "positions_embed", "h"),
    buffers=(r"transformer\.h\.\d+\.attn\.bias", r"transformer\.position_ids"),
    tied={"lm_head.weight": "transformer.tokens_embed.weight"},
    continues=True,
    frame=PLAIN,
)  # fmt: skip

TABLE = dataclasses.replace(
    gpt2.TABLE,
    config=GptConfig,
    hugging_face=HUGGING_FACE,
    tensorflow1=None,
    keras_hub=None,
)
