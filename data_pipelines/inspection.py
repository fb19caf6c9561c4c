"""Shows what records hold: decoded examples with their masks, statistics of a masking, and whether files are whole."""

import os
import sys

import numpy as np
from tqdm import tqdm

from data_pipelines.dataset import Batches, RecordSource
from data_pipelines.jobs import summary
from data_pipelines.ops.classic import rename_classic
from data_pipelines.ops.compose import compose
from data_pipelines.ops.corruption import mask_tokens, mask_whole_words
from data_pipelines.ops.framing import frame_pair
from data_pipelines.records import Manifest, verify
from data_pipelines.text.vocabulary import MASK, Vocabulary

RED, GREEN, PLAIN = "\033[1;31m", "\033[32m", "\033[0m"


def inspect(data_dir: str, num_examples: int, num_statistics: int, masking: str, seed: int, check: bool) -> None:
    """Prints all of it; see `launch/inspect_data.py` for the arguments."""
    manifest = Manifest.read(data_dir)
    if check:
        with tqdm(total=sum(s.bytes for s in manifest.shards), desc="verify", unit="B", unit_scale=True) as progress:
            verify(data_dir, manifest, deep=True, progress=progress.update)
        print(f"All {len(manifest.shards)} shard(s) are whole and as the manifest says.")
    source = RecordSource(data_dir, manifest)
    vocabulary = Vocabulary.read(os.path.join(data_dir, "vocab.txt"))
    print(summary(manifest, data_dir))
    batches = Batches(source, _masking(manifest, vocabulary, masking), 64, seed)
    colours = sys.stdout.isatty()
    batch = next(iter(batches.once(1)))
    for row in range(min(num_examples, source.num_examples, 64)):
        print()
        print(render({name: value[row].numpy() for name, value in batch.items()}, vocabulary, colours))
    print()
    print(statistics(batches, vocabulary, num_statistics))


def _masking(manifest: Manifest, vocabulary: Vocabulary, masking: str):
    settings = manifest.settings
    if settings["masking"] == "static":
        return rename_classic()
    mask = mask_whole_words if masking == "words" else mask_tokens
    corrupt = mask(vocabulary[MASK], len(vocabulary), settings["masked_lm_prob"], settings["max_predictions_per_seq"])
    return compose(frame_pair(vocabulary, settings["max_sequence_length"]), corrupt)


def render(example: dict[str, np.ndarray], vocabulary: Vocabulary, colours: bool = False) -> str:
    """One example: hidden tokens as `[answer→what stands there]`, pieces of a word joined.

    Args:
        example: a framed and masked example without its batch axis.
    """
    answers = {
        int(p): vocabulary.tokens[int(label)]
        for p, label, w in zip(example["mask_positions"], example["labels"], example["label_weights"], strict=True)
        if w
    }
    shown = []
    for place in range(int(example["padding_mask"].sum())):
        token = vocabulary.tokens[int(example["token_ids"][place])]
        if place in answers:
            marks = (RED, GREEN, PLAIN) if colours else ("", "", "")
            token = f"{marks[0]}[{answers[place]}{marks[2]}→{marks[1]}{token}{marks[2]}]"
        shown.append(token)
    following = "a random one" if int(example["next_sentence_labels"]) else "the next"
    return f"{' '.join(shown)}\n  second segment: {following}; {len(answers)} tokens hidden"


def statistics(batches: Batches, vocabulary: Vocabulary, num_examples: int) -> str:
    """Rates of a masking over some examples, as text."""
    hidden = masked = kept = real = words = whole = examples = 0
    mask = vocabulary[MASK]
    for batch in batches.once(max(1, num_examples // batches.batch_size)):
        values = {name: value.numpy() for name, value in batch.items()}
        weights = values["label_weights"] > 0
        now = np.take_along_axis(values["token_ids"], values["mask_positions"], axis=1)
        hidden += weights.sum()
        masked += (weights & (now == mask)).sum()
        kept += (weights & (now == values["labels"])).sum()
        real += values["padding_mask"].sum()
        examples += int(values["example_weights"].sum())
        if "word_start" in values:
            chosen = np.zeros_like(values["padding_mask"])
            np.put_along_axis(chosen, values["mask_positions"], weights, axis=1)
            chosen[:, 0] = False  # unused slots point here; [CLS] is never hidden
            hidden_words, whole_words = _words(values, chosen)
            words, whole = words + hidden_words, whole + whole_words
    lines = [
        f"masking of {examples:,} examples: {hidden / max(1, real):.2%} of tokens hidden; of these "
        f"{masked / max(1, hidden):.1%} [MASK], {kept / max(1, hidden):.1%} kept, "
        f"{1 - (masked + kept) / max(1, hidden):.1%} replaced"
    ]
    if words:
        lines.append(f"  words with a hidden token: {words:,}, of which {whole / words:.1%} are hidden whole")
    return "\n".join(lines)


def _words(values, chosen) -> tuple[int, int]:
    """Counts words with a hidden token, and words hidden whole."""
    word = np.cumsum(values["word_start"], axis=1) + np.arange(len(chosen))[:, None] * (chosen.shape[1] + 1)
    real = values["padding_mask"]
    sizes = np.bincount(word[real])
    hits = np.bincount(word[real & chosen], minlength=len(sizes))
    return int((hits > 0).sum()), int(((hits > 0) & (hits == sizes)).sum())
