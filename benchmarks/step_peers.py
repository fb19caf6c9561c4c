"""What `benchmarks.train_step` trains: networks with objectives, ours and Hugging Face's, on the same batch."""

import dataclasses
import importlib
from collections.abc import Callable

LENGTH, PREDICTIONS, TARGET = 128, 20, 32  # tokens; TARGET of T5's decoder


@dataclasses.dataclass(frozen=True)
class Peer:
    """A system and its counterpart.

    Attributes:
        vocabulary_size: the published one.
        network: `models` module and class of ours.
        objective: makes ours of a configuration.
        arrays: (rows, vocabulary_size) -> a batch of our features, as NumPy arrays.
        theirs: the class of `transformers`.
        shipped: (model, batch of tensors) -> the loss, as their class computes it.
        gathered: the same, where the output matrix can be kept to the hidden places; None where their class does that already, or
            where every token is a target.
        config: fields that differ from those of the size.
    """

    vocabulary_size: int
    network: tuple[str, str]
    objective: Callable
    arrays: Callable
    theirs: str
    shipped: Callable
    gathered: Callable | None = None
    config: dict = dataclasses.field(default_factory=dict)

    @property
    def sizes(self) -> dict[str, dict]:
        return importlib.import_module(f"xmodels.models.{self.network[0]}").SIZES

    def backbone(self, size: str):
        """Ours, with random weights."""
        network = getattr(importlib.import_module(f"xmodels.models.{self.network[0]}"), self.network[1])
        numbers = {"activation": "gelu"} if self.network[1] == "Bert" else {}
        return network(
            network.config_class(vocabulary_size=self.vocabulary_size, **self.sizes[size] | numbers | self.config)
        ).initialize()

    def batch(self, rows: int) -> dict:
        return self.arrays(rows, self.vocabulary_size)


# --- batches


def masked(rows: int, vocabulary_size: int) -> dict:
    """Texts without padding of which 20 places are hidden."""
    import numpy as np

    rng, least = np.random.default_rng(0), min(1000, vocabulary_size // 5)
    places = rng.permuted(np.tile(np.arange(1, LENGTH), (rows, 1)), axis=1)
    return {
        "token_ids": rng.integers(least, vocabulary_size, (rows, LENGTH)).astype("int32"),
        "padding_mask": np.ones((rows, LENGTH), bool),
        "mask_positions": np.sort(places[:, :PREDICTIONS]).astype("int32"),
        "labels": rng.integers(least, vocabulary_size, (rows, PREDICTIONS)).astype("int32"),
        "label_weights": np.ones((rows, PREDICTIONS), "float32"),
    }


def pairs(label: str) -> Callable:
    """The same in two segments, with a label of the pair."""

    def arrays(rows: int, vocabulary_size: int) -> dict:
        import numpy as np

        segments = np.repeat(np.arange(LENGTH)[None] >= LENGTH // 2, rows, axis=0).astype("int32")
        kinds = np.random.default_rng(1).integers(2, size=rows).astype("int32")
        return {**masked(rows, vocabulary_size), "segment_ids": segments, label: kinds}

    return arrays


def permuted(rows: int, vocabulary_size: int) -> dict:
    """One in six tokens is to be named, in the order and with the masks that our pipeline draws."""
    import numpy as np
    import tensorflow as tf

    from data_pipelines.ops.permutation import permute

    token_ids = masked(rows, vocabulary_size)["token_ids"]
    features = {
        "token_ids": token_ids, "padding_mask": np.ones_like(token_ids, bool), "maskable": np.ones_like(token_ids, bool),
        "word_start": np.ones_like(token_ids), "seed": np.arange(rows, dtype="uint64"),
    }  # fmt: skip
    drawn = permute(LENGTH // 6)({name: tf.constant(value) for name, value in features.items()})
    return {name: value.numpy() for name, value in drawn.items() if name != "seed"}


def texts(rows: int, vocabulary_size: int) -> dict:
    """A source and a target; the decoder begins with token 0."""
    import numpy as np

    rng = np.random.default_rng(0)
    labels = rng.integers(1000, vocabulary_size, (rows, TARGET)).astype("int32")
    return {
        "token_ids": rng.integers(1000, vocabulary_size, (rows, LENGTH)).astype("int32"),
        "padding_mask": np.ones((rows, LENGTH), bool),
        "target_ids": np.pad(labels[:, :-1], [(0, 0), (1, 0)]),
        "labels": labels,
        "label_weights": np.ones((rows, TARGET), "float32"),
    }


# --- objectives of ours


def masked_and(module: str | None = None, name: str | None = None) -> Callable:
    """Masked LM, alone or beside another objective."""

    def objective(config):
        from xmodels.objectives.base import together
        from xmodels.objectives.masked_lm import MaskedLM

        others = [getattr(importlib.import_module(f"xmodels.objectives.{module}"), name)(config)] if module else []
        return together(MaskedLM(config), *others)

    return objective


def permutation(config):
    from xmodels.objectives.permutation_lm import PermutationLM

    return PermutationLM(config)


def to_text(config):
    from xmodels.objectives.seq2seq import Seq2Seq

    return Seq2Seq(label_smoothing=0.0)


# --- losses of theirs


def _inputs(batch) -> dict:
    inputs = {"input_ids": batch["token_ids"].long(), "attention_mask": batch["padding_mask"].long()}
    return inputs | ({"token_type_ids": batch["segment_ids"].long()} if "segment_ids" in batch else {})


def _labels(batch):
    """(rows, LENGTH), -100 where nothing is to be named."""
    import torch

    return torch.full(tuple(batch["token_ids"].shape), -100).scatter(
        1, batch["mask_positions"].long(), batch["labels"].long()
    )


def _cross_entropy(logits, labels):
    import torch

    return torch.nn.functional.cross_entropy(logits.float().flatten(0, -2), labels.long().flatten())


def _hidden(states, batch):
    """The states of the hidden places."""
    return states.gather(1, batch["mask_positions"].long()[..., None].expand(-1, -1, states.shape[-1]))


def bert_shipped(model, batch):
    return model(**_inputs(batch), labels=_labels(batch), next_sentence_label=batch["next_sentence_labels"].long()).loss


def bert_gathered(model, batch):
    outputs = model.bert(**_inputs(batch))
    logits, follows = model.cls(_hidden(outputs.last_hidden_state, batch), outputs.pooler_output)
    return _cross_entropy(logits, batch["labels"]) + _cross_entropy(follows, batch["next_sentence_labels"])


def roberta_shipped(model, batch):
    return model(**_inputs(batch), labels=_labels(batch)).loss


def roberta_gathered(model, batch):
    states = model.roberta(**_inputs(batch)).last_hidden_state
    return _cross_entropy(model.lm_head(_hidden(states, batch)), batch["labels"])


def albert_shipped(model, batch):
    kinds = batch["sentence_order_labels"].long()
    return model(**_inputs(batch), labels=_labels(batch), sentence_order_label=kinds).loss


def albert_gathered(model, batch):
    outputs = model.albert(**_inputs(batch))
    logits = model.predictions(_hidden(outputs.last_hidden_state, batch))
    order = model.sop_classifier(outputs.pooler_output)
    return _cross_entropy(logits, batch["labels"]) + _cross_entropy(order, batch["sentence_order_labels"])


def xlnet_shipped(model, batch):
    """Their class names the targets alone, by `target_mapping`. A target may not see itself, in either stream's mask. The states of
    the batch before are the memory, as in ours."""
    import torch

    hidden = torch.zeros_like(batch["token_ids"]).scatter(1, batch["mask_positions"].long(), 1)
    blind = ~batch["content_mask"] | torch.diag_embed(hidden.bool())
    places = torch.nn.functional.one_hot(batch["mask_positions"].long(), LENGTH).float()
    before = getattr(model, "remembered", None)
    outputs = model(
        input_ids=batch["token_ids"].long(), perm_mask=blind.float(), target_mapping=places, use_mems=True, mems=before
    )
    model.remembered = outputs.mems if model.training else None
    return _cross_entropy(outputs.logits, batch["labels"])


def t5_shipped(model, batch):
    return model(**_inputs(batch), decoder_input_ids=batch["target_ids"].long(), labels=batch["labels"].long()).loss


PEERS = {
    "bert": Peer(
        30_522, ("bert", "Bert"), masked_and("next_sentence", "NextSentence"), pairs("next_sentence_labels"), "BertForPreTraining",
        bert_shipped, bert_gathered,
    ),
    "roberta": Peer(
        50_265, ("roberta", "Roberta"), masked_and(), masked, "RobertaForMaskedLM", roberta_shipped, roberta_gathered,
    ),
    "albert": Peer(
        30_000, ("albert", "Albert"), masked_and("sentence_order", "SentenceOrder"), pairs("sentence_order_labels"),
        "AlbertForPreTraining", albert_shipped, albert_gathered, config={"dropout": 0.1, "attention_dropout": 0.1},
    ),
    "xlnet": Peer(
        32_000, ("xlnet", "XLNet"), permutation, permuted, "XLNetLMHeadModel", xlnet_shipped, config={"memory_length": LENGTH},
    ),
    "t5": Peer(32_128, ("t5", "T5"), to_text, texts, "T5ForConditionalGeneration", t5_shipped),
}  # fmt: skip
