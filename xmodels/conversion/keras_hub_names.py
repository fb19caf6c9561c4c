"""KerasHub's names of the parts of its Transformer layers, as they stand in its files of weights."""

from xmodels.conversion.formats import Variables, numbered_blocks

ENCODER, DECODER = "layers/transformer_encoder_", "layers/transformer_decoder_"


def dense(ours: str, theirs: str, kernel: str, bias: str) -> Variables:
    return {f"{ours}.kernel": (f"{theirs}/vars/0", kernel), f"{ours}.bias": (f"{theirs}/vars/1", bias)}


def norm(ours: str, theirs: str, axis: str = "D") -> Variables:
    return {f"{ours}.gamma": (f"{theirs}/vars/0", axis), f"{ours}.beta": (f"{theirs}/vars/1", axis)}


def attention(ours: str, theirs: str, heads: str = "H", width: str = "K") -> Variables:
    found = {}
    for name in ("query", "key", "value"):
        found |= dense(f"{ours}.{name}", f"{theirs}/{name}_dense", f"D {heads} {width}", f"{heads} {width}")
    return found | dense(f"{ours}.merge", f"{theirs}/output_dense", f"{heads} {width} D", "D")


def block(inner: str = "F", heads: str = "H", width: str = "K", crossed: bool = False) -> Variables:
    """Returns one layer; `crossed` has attention to a source."""
    return {
        **attention("mixer", "_self_attention_layer", heads, width),
        **norm("mixer_norm", "_self_attention_layer_norm"),
        **(attention("cross", "_cross_attention_layer", heads, width) if crossed else {}),
        **(norm("cross_norm", "_cross_attention_layer_norm") if crossed else {}),
        **dense("feedforward.expand", "_feedforward_intermediate_dense", f"D {inner}", inner),
        **dense("feedforward.contract", "_feedforward_output_dense", f"{inner} D", "D"),
        **norm("feedforward_norm", "_feedforward_layer_norm"),
    }


def blocks(ours: str, theirs: str, rows: Variables) -> Variables:
    """Returns the rows of a layer for all layers: `theirs` is ENCODER or DECODER with the placeholders of `ours`."""
    return numbered_blocks(f"{ours}.", f"{theirs}/", rows)
