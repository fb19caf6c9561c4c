"""Universal Transformer with adaptive computation time (Dehghani et al., 2018, section 2.2)."""

import dataclasses
from typing import ClassVar

import keras

from xmodels.layers.adaptive_computation import OUTPUTS, AdaptiveSteps, Halting
from xmodels.layers.steps import Steps
from xmodels.models.transformer import size
from xmodels.models.universal_transformer import UniversalTransformer, UniversalTransformerConfig


@dataclasses.dataclass(frozen=True)
class AdaptiveUniversalTransformerConfig(UniversalTransformerConfig):
    """`max_steps` is the most steps of a position: by default twice `num_layers` (or `num_decoder_layers`), as in tensor2tensor.

    `halt_together` makes all positions of a source halt at once; those of a target, which must not know of later ones, halt alone.
    The other fields are those of `layers.adaptive_computation.Halting`.
    """

    bounds: ClassVar[dict[str, tuple[float, float]]] = {"halting_bias": (-30, 30)}
    choices: ClassVar[dict[str, tuple[str, ...]]] = {
        **UniversalTransformerConfig.choices,
        "halting_output": tuple(OUTPUTS),
    }
    max_steps: int | None = None
    halting_output: str = "interpolate"
    halting_epsilon: float = 0.01
    halting_bias: float = 1.0
    force_halt: bool = True
    freeze_halted: bool = True
    halt_together: bool = False


@keras.saving.register_keras_serializable("xmodels")
class AdaptiveUniversalTransformer(UniversalTransformer):
    """A Universal Transformer with adaptive computation time in the encoder and in the decoder.

    Call arguments and results as in `UniversalTransformer`. It also returns, for each stack such as "encoder",
    `encoder_ponder_times` and `encoder_remainders`, float32 (B, L), and `encoder_halting_weights`, float32 (B, L, `max_steps`).
    """

    config_class = AdaptiveUniversalTransformerConfig

    def make_steps(self, config, num_layers: int, name: str) -> Steps:
        together = config.halt_together and name != "decoder_steps"
        rule = Halting(
            config.halting_output,
            config.halting_epsilon,
            config.force_halt,
            config.freeze_halted,
            config.halting_bias,
            together,
        )
        return AdaptiveSteps(config.step_signal, config.hidden_dim, config.max_steps or 2 * num_layers, rule, name=name)


# tensor2tensor's `adaptive_universal_transformer_*`.
SIZES = {
    "tiny": size(2, 128, 4, 512),
    "small": size(6, 512, 8, 2048),
    "tall": {**size(6, 512, 8, 2048), "max_steps": 24},
    "base": size(6, 1024, 16, 4096, 0.3),
}
