"""The numbers of training that each paper or its code gives are the defaults of its system."""

import pytest

from xmodels import systems
from xmodels.jobs.tpu_preflight.step import make_placeholder_vocabulary
from xmodels.models import universal_transformer
from xmodels.tasks.fast_classify import read as fast_classify
from xmodels.training.recipe import Records

PAIRS, STREAM, PARALLEL = {}, {"packing": "stream"}, {"packing": "parallel"}
FULL = {"packing": "full_sentences"}
UNIVERSAL = universal_transformer.SIZES["base"]["hidden_dim"]
ADAM98 = {"adam_beta2": 0.98, "clip_norm": 0.0}


@pytest.mark.parametrize(
    ("system", "size", "records", "batch_size", "num_steps", "warmup", "rate", "optimizer", "schedule", "more"),
    [
        ("bert", "base", PAIRS, 256, 1_000_000, 10_000, 1e-4, "bert_adamw", "bert_linear", {"clip_norm": 1.0}),
        ("bert", "large", PAIRS, 256, 1_000_000, 10_000, 1e-4, "bert_adamw", "bert_linear", {}),
        ("bert_wwm", "base", PAIRS, 384, 100_000, 10_000, 1e-4, "lamb", "bert_linear", {}),
        ("roberta_wwm", "base", FULL, 384, 1_000_000, 100_000, 1e-4, "adamw", "bert_linear", {}),
        ("roberta_wwm", "large", FULL, 512, 2_000_000, 200_000, 1e-4, "adamw", "bert_linear", {}),
        ("roberta", "base", FULL, 8192, 500_000, 24_000, 6e-4, "adamw", "linear", ADAM98),
        ("roberta", "large", FULL, 8192, 500_000, 30_000, 4e-4, "adamw", "linear", ADAM98),
        ("albert", "base", {"packing": "sentence_order"}, 4096, 125_000, 3_125, 1.76e-3, "lamb", "bert_linear", {}),
        ("ernie", "base", PAIRS, 128, 1_000_000, 5_000, 1e-4, "adamw", "bert_linear", {}),
        ("spanbert", "base", FULL, 256, 2_400_000, 10_000, 1e-4, "adamw", "linear", {"adam_epsilon": 1e-8}),
        ("xlnet", "base", {"packing": "stream_bidirectional"}, 8192, 500_000, 20_000, 4e-4, "adamw", "linear", {}),
        ("xlnet", "large", {"packing": "stream_bidirectional"}, 8192, 500_000, 40_000, 4e-4, "adamw", "linear", {}),
        ("mass", "base", FULL, 4096, 125_000, 10_000, 5e-4, "adamw", "linear", ADAM98),
        ("unilm", "base", PAIRS, 330, 770_000, 40_000, 3e-5, "bert_adamw", "bert_linear", {}),
        ("bart", "base", FULL, 8000, 500_000, 30_000, 4e-4, "adamw", "linear", ADAM98),
        ("t5", "base", FULL, 128, 2**19, 10_000, 1e-2, "adafactor", "t5_inverse_sqrt", {"clip_norm": 0.0}),
        ("gpt", "base", STREAM, 64, 3_000_000, 2_000, 2.5e-4, "adamw", "cosine", {"adam_epsilon": 1e-8}),
        ("gpt2", "base", STREAM, 512, 600_000, 2_000, 6e-4, "adamw", "cosine", {"weight_decay": 0.1}),
        ("gpt2", "xl", STREAM, 512, 600_000, 2_000, 1.5e-4, "adamw", "cosine", {"weight_decay": 0.1}),
        ("transformer_xl", "base", STREAM, 60, 200_000, 0, 2.5e-4, "adamw", "cosine", {"clip_norm": 0.25}),
        ("transformer_xl", "large", STREAM, 128, 4_000_000, 16_000, 2.5e-4, "adamw", "cosine", {}),
        ("transformer_xl", "characters_12", STREAM, 22, 400_000, 0, 2.5e-4, "adamw", "cosine", {}),
        ("transformer_xl", "characters_24", STREAM, 64, 400_000, 4_000, 2.5e-4, "adamw", "cosine", {}),
        ("transformer_xl", "one_billion", STREAM, 512, 1_200_000, 30_000, 1e-4, "adamw", "cosine", {}),
        ("transformer", "base", PARALLEL, 1000, 100_000, 4_000, (512 * 4000) ** -0.5, "adam", "noam", {}),
        ("marian", "base", PARALLEL, 1000, 100_000, 16_000, 3e-4, "adam", "inverse_sqrt", {"clip_norm": 5.0}),
        ("transformer", "big", PARALLEL, 1000, 300_000, 4_000, (1024 * 4000) ** -0.5, "adam", "noam", {}),
        ("transformer_pre_norm", "base", PARALLEL, 1000, 100_000, 0, (512 * 4000) ** -0.5, "adam", "linear", {}),
        *((system, "base", PARALLEL, 1000, 100_000, 8_000, 2 * (UNIVERSAL * 8000) ** -0.5, "adam", "noam", {"adam_beta2": 0.997})
          for system in ("universal_transformer", "adaptive_universal_transformer")),
        ("rnn_search", "base", PARALLEL, 80, 288_000, 0, 1.0, "adadelta", "constant", {"clip_norm": 1.0}),
        ("skip_gram", "base", STREAM, 8, 100_000, 0, 0.025, "sgd", "linear", {"min_lr_ratio": 1e-4, "clip_norm": 0.0}),
    ],
)  # fmt: skip
def test_recipes_have_the_published_numbers(
    system, size, records, batch_size, num_steps, warmup, rate, optimizer, schedule, more
):
    recipe = systems.load(system).recipe(make_placeholder_vocabulary(200), Records(512, 77, **records), size=size)
    found = recipe.batch_size, recipe.num_steps, recipe.num_warmup_steps, recipe.optimizer, recipe.schedule
    assert found == (batch_size, num_steps, warmup, optimizer, schedule)
    assert recipe.learning_rate == pytest.approx(rate)
    assert {name: getattr(recipe, name) for name in more} == more


def test_the_first_phase_of_whole_word_masking_has_larger_batches():
    assert systems.load("bert_wwm").recipe(make_placeholder_vocabulary(200), Records(128)).batch_size == 2560


def test_fine_tunings_have_the_published_numbers():
    """UniLM's of summaries, FastBERT's second phase, and the ponder cost of tensor2tensor."""
    numbers = systems.load("unilm").WRITING.numbers
    assert (numbers["learning_rate"], numbers["warmup_proportion"], numbers["optimizer"]) == (3e-5, 0.1, "bert_adamw")
    assert (fast_classify.NUMBERS["distill_epochs"], fast_classify.NUMBERS["distill_learning_rate"]) == (5, 2e-4)
    assert systems.load("adaptive_universal_transformer").Options().ponder_weight == 0.01
