"""How weights lie: the axes of ours by the ends of their names, and their lengths. Tables say names only.

A space stands between two axes of a weight, and merged axes stand together: our query kernel, `D H K`, is `HK D` in Hugging Face's
files and `D HK` in Google's. D hidden_dim, O the same as output of a square kernel, P twice that, E width of embeddings, H num_heads,
K width of a head, F intermediate_dim, V vocabulary, L positions, S segments, N two classes of a pretraining, C classes of a task. The
blocks of a decoder have G heads of the width J, and M in place of F.
"""

from collections.abc import Mapping

from xmodels.models.config import TokenConfig

ONE = "I"  # an axis of length 1
CLASSES = "C"  # which only a checkpoint knows
DENSE = {
    "query": ("D H K", "H K"), "key": ("D H K", "H K"), "value": ("D H K", "H K"), "position": ("D H K", "H K"),
    "merge": ("H K D", "D"), "expand": ("D F", "F"), "gate": ("D F", "F"), "linear": ("D F", "F"), "contract": ("F D", "D"),
    "embedding_projection": ("E D", "D"), "pooler": ("D O", "O"), "dense": ("D O", "O"), "head": ("D C", "C"),
    "masked_lm.head.dense": ("D E", "E"), "next_sentence.head": ("D N", "N"), "sentence_order.head": ("D N", "N"),
}  # fmt: skip
NORMS = {"embedding.norm": "E", "masked_lm.head.norm": "E"}
AXES = {
    **{f"{layer}.kernel": kernel for layer, (kernel, _) in DENSE.items()},
    **{f"{layer}.bias": bias for layer, (_, bias) in DENSE.items()},
    **{f"{layer}.{weight}": axes for layer, axes in NORMS.items() for weight in ("gamma", "beta")},
    **dict.fromkeys(("gamma", "beta", "scale"), "D"),
    **dict.fromkeys(("token.embeddings", "output_matrix.embeddings"), "V E"),
    **{f"{name}position.embeddings": "L E" for name in ("", "source_", "target_")},
    **dict.fromkeys(("content_bias", "position_bias", "segment_bias"), "H K"),
    **dict.fromkeys(("masked_lm.head.bias", "permutation_lm.bias", "output_bias.bias"), "V"),
    "segment.embeddings": "S E",
}
OF_DECODER = str.maketrans("HKF", "GJM")


def find_axes(ours: str, known: Mapping[str, str]) -> str | None:
    """Returns the axes that `known` has for the longest end of a name of ours."""
    parts = ours.split(".")
    ends = (".".join(parts[start:]) for start in range(len(parts)))
    return next((known[end] for end in ends if end in known), None)


def axes_of(ours: str, own: Mapping[str, str]) -> str:
    """Returns the axes of a weight of ours.

    Args:
        own: end of a name -> axes, of the weights that only one network has.

    Raises:
        KeyError: nothing says the axes of this weight.
    """
    axes = find_axes(ours, own) or find_axes(ours, AXES)
    if axes is None:
        raise KeyError(
            f"{ours}: its axes are not among those in conversion/axes.py, and its table has no `own_axes` for it."
        )
    return axes.translate(OF_DECODER) if ".decoder_blocks." in ours else axes


def lengths_of(config: TokenConfig) -> dict[str, int]:
    """Returns the length of every axis but C."""
    width = getattr(config, "width_of_head", None) or getattr(config, "head_dim", None)
    heads, decoder_heads = config.num_heads, getattr(config, "decoder_num_heads", None) or config.num_heads
    return {
        "D": config.hidden_dim,
        "O": config.hidden_dim,
        "P": 2 * config.hidden_dim,
        "E": config.embedding_dim,
        "H": heads,
        "K": width or config.hidden_dim // heads,
        "F": config.intermediate_dim,
        "G": decoder_heads,
        "J": width or config.hidden_dim // decoder_heads,
        "M": getattr(config, "decoder_intermediate_dim", None) or config.intermediate_dim,
        "V": config.vocabulary_size,
        "L": getattr(config, "num_positions", config.max_sequence_length),
        "S": getattr(config, "num_segments", 2),
        "N": 2,
    }


def counts_of(config: TokenConfig) -> dict[str, int]:
    """Returns how many numbers each placeholder in our names takes: `{"block": 12}`."""
    decoder = getattr(config, "num_decoder_layers", None) or config.num_layers
    return {"block": config.num_layers, "encoder_block": config.num_layers, "decoder_block": decoder}
