"""Marian by the names of Hugging Face's `MarianMTModel`: those of BART, without norms of embeddings and tables of positions."""

import dataclasses

from data_pipelines.text.frames import T5
from data_pipelines.text.vocabulary import EOS, PAD
from xmodels.conversion.tables import bart
from xmodels.models.marian import MarianConfig

LACKING = "_position.embeddings", "_norm.gamma", "_norm.beta"  # endings of BART's names in the embedding


HUGGING_FACE = dataclasses.replace(
    bart.HUGGING_FACE,
    names={
        ours: theirs
        for ours, theirs in bart.HUGGING_FACE.names.items()
        if not (ours.startswith("backbone.embedding.") and ours.endswith(LACKING))
    },
    heads={},
    activations={"swish": "swish"} | bart.HUGGING_FACE.activations,
    fixed={
        "model_type": "marian",
        "tie_word_embeddings": True,
        "share_encoder_decoder_embeddings": True,
        "normalize_before": False,
        "normalize_embedding": False,
        "add_final_layer_norm": False,
        "static_position_embeddings": True,
    },
    infer_fields=lambda stored: bart.read_decoder(stored) | {"first_position": 0},
    architectures=(("MarianMTModel", frozenset()),),
    buffers=(*bart.HUGGING_FACE.buffers, r"model\.(encoder|decoder)\.embed_positions\.weight"),
    frame=T5,
    sentence_piece_class="PreTrainedTokenizerFast",
    pairs_models=True,
    decoder_start=PAD,
    forced={"forced_eos_token_id": EOS},
)

TABLE = dataclasses.replace(bart.TABLE, config=MarianConfig, hugging_face=HUGGING_FACE, keras_hub=None)
