"""A small run that translates, made by the commands, for the tests of translation."""

import json

import numpy as np

from tests.helpers.invocation import invoke

WORDS = "the a dog cat house was ran sat in and of green red big small it they to from with".split()
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def translated(text: str) -> str:
    """The language of these tests: the same words with another ending, in pairs that change places."""
    words = [f"{word}o" for word in text.split()]
    return " ".join(word for i in range(0, len(words), 2) for word in reversed(words[i : i + 2]))


def write_pairs(folder, count: int, seed: int) -> tuple[str, str]:
    """Two files of sentences that belong together; returns their names."""
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(WORDS, rng.integers(1, 8))) for _ in range(count)]
    names = [str(folder / f"{seed}.{language}") for language in ("en", "eo")]
    for name, lines in zip(names, (texts, map(translated, texts)), strict=True):
        with open(name, "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
    return names[0], names[1]


def make_run(folder, steps: int) -> str:
    """Vocabulary, records and a short training; returns the run's folder."""
    tokens = [*SPECIAL, *WORDS, *(f"{word}o" for word in WORDS)]
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n")
    sizes = {
        "vocabulary_size": len(tokens), "hidden_dim": 32, "num_layers": 2, "num_heads": 2, "intermediate_dim": 64,
        "max_sequence_length": 24, "dropout": 0.0, "attention_dropout": 0.0, "intermediate_dropout": 0.0,
    }  # fmt: skip
    (folder / "sizes.json").write_text(json.dumps({"model": "transformer_pre_norm", "config": sizes}))
    source, target = write_pairs(folder, 800, 0)
    records, run = f"{folder}/records", f"{folder}/run"
    assert invoke(
        "create_pretraining_data", input_file=source, target_file=target, packing="parallel", max_seq_length=16,
        vocab_file=f"{folder}/vocab.txt", output_dir=records,
    ) == 0  # fmt: skip
    assert invoke(
        "pretrain", system="transformer_pre_norm", model_config_file=f"{folder}/sizes.json", data_dir=records, model_dir=run,
        num_train_steps=steps, train_batch_size=32, learning_rate=5e-3, log_steps=50, save_checkpoints_steps=steps // 4,
        keep_checkpoint_max=3, eval_steps=2,
    ) == 0  # fmt: skip
    return run
