"""GPT by the names of Hugging Face's `OpenAIGPTLMHeadModel`; its blocks have the names of GPT-2's."""

from xmodels.conversion.formats import Format, in_every_layer
from xmodels.conversion.tables import gpt2
from xmodels.conversion.tables.gpt2 import axis_lengths  # noqa: F401  part of this table
from xmodels.models.gpt import GptConfig

CONFIG = GptConfig

AXES = {name: axes for name, axes in gpt2.AXES.items() if not name.startswith("backbone.norm.")}
GROUPS: dict[str, str] = {}

HUGGING_FACE = Format(
    variables={
        "backbone.embedding.token.embeddings": ("transformer.tokens_embed.weight", "V D"),
        "backbone.embedding.position.embeddings": ("transformer.positions_embed.weight", "L D"),
    }
    | in_every_layer("backbone.blocks.{layer}.", "transformer.h.{layer}.", gpt2.BLOCK),
    settings=gpt2.SETTINGS,
    activation_key="afn",
    activations={"gelu": "gelu_tanh", "gelu_new": "gelu_tanh", "relu": "relu", "swish": "swish"},
    fixed={"model_type": "openai-gpt"},
    complete=lambda stored: gpt2.complete({**stored, "n_inner": None}),  # its width cannot be chosen
)

OLD_ENDINGS: dict[str, str] = {}
PREFIX, BARE_PARTS = "transformer.", ("tokens_embed", "positions_embed", "h")
BUFFERS = (r"transformer\.h\.\d+\.attn\.bias", r"transformer\.position_ids")
TIED = {"lm_head.weight": "transformer.tokens_embed.weight"}
ARCHITECTURES = (("OpenAIGPTLMHeadModel", set()),)
