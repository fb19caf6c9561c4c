"""The base class of language models that carry a state of a fixed size from segment to segment, and from step to step."""

from keras import ops

from xmodels.models.backbone import Backbone


class CarriedBackbone(Backbone):
    """A causal network whose past is one tensor, `memory`, whatever the length of the text.

    Subclasses define `initial_memory`, and `run(token_ids, memory, training)`, which returns the states of the tokens (B, N, D) and
    the memory behind them, float32.
    """

    carries_memory = True
    any_length = True

    def call(self, features, training=None):
        token_ids, memory = features["token_ids"], features.get("memory")
        begins = memory is None
        if begins:
            memory = self.initial_memory(ops.shape(token_ids)[0])["memory"]
        states, memory = self.run(token_ids, memory, training)
        outputs = {"sequence_output": states}
        return outputs if begins else {**outputs, "memory": ops.stop_gradient(memory)}

    def start(self, batch_size: int, length: int):
        """Returns the initial `past` of `decode`. Its size does not depend on `length`."""
        return (self.initial_memory(batch_size)["memory"],)

    def decode(self, token_ids, past, position):
        """Decodes the next L tokens of texts.

        Args:
            token_ids: int (B, L).
            past: the result of `start` or of the previous call.
            position: ignored; the memory holds all that came before.

        Returns:
            Their states (B, L, D), and `past` updated with these tokens.
        """
        states, memory = self.run(token_ids, past[0])
        return states, (memory,)
