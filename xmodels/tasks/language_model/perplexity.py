"""Perplexity of running text, by token and by word, and bits for each byte and character."""

from data_pipelines.batches.running_text import RunningText, end_of_documents, read_as_records, read_verbatim
from data_pipelines.corpora.layouts import VERBATIM
from data_pipelines.errors import UsageError
from data_pipelines.text.detokenize import DETOKENIZERS
from xmodels.tasks.language_model import streams, windows
from xmodels.tasks.language_model.measures import of_text
from xmodels.tasks.language_model.network import records_settings, trained_length, window_length
from xmodels.tasks.language_model.scorer import Scorer
from xmodels.tasks.language_model.settings import Settings

TOKENS_TOGETHER = 8192  # of a batch of windows, unless --batch_size says otherwise
SEGMENT = 128  # of a network with a memory, where nothing says how long its segments were
MEASURES = ("token_perplexity", "word_perplexity", "bits_per_byte", "bits_per_character")


def evaluate_text(scorer: Scorer, options: Settings) -> dict:
    """Prints and returns the measures of running text."""
    text, way = _read(scorer, options)
    # In word-level corpora the end of a line is a word, <eos>.
    by_ends = options.detokenize != "none" or scorer.tokenizer.kind == "words"
    words = text.words + (text.ends if by_ends else 0)
    scores = {
        "test_file": options.test_file, "read": way, "detokenize": options.detokenize, "num_tokens": len(text.ids) - 1,
        "num_words": words, "num_bytes": text.bytes, "num_characters": text.characters,
        "num_documents": text.documents, "num_unknown": text.unknown,
    }  # fmt: skip
    print(
        f"{options.test_file}: {scores['num_tokens']:,} tokens for {words:,} words{' and line ends' * by_ends}, {text.bytes:,} "
        f"bytes, {text.characters:,} characters; read {way}"
        + (f", detokenized as {options.detokenize}" if options.detokenize != "none" else "")
    )
    if text.unknown:
        print(
            f"  Note: {text.unknown:,} tokens ({text.unknown / scores['num_tokens']:.2%}) are the unknown one. Any word costs "
            "the same there, so perplexities are lower than those of a vocabulary that spells it out."
        )
    if not end_of_documents(scorer.tokenizer):
        print(
            "  Note: the vocabulary has no token that ends documents, so nothing parts them, and the first token is not scored."
        )
    if text.ideographs > text.characters / 2:
        words = 0  # blanks part no words here
    if scorer.backbone.carries_memory and not scorer.backbone.config.states_carried:
        return scores | _with_state(scorer, options, text, words)
    if scorer.backbone.carries_memory:
        return scores | _with_memory(scorer, options, text, words)
    return scores | _by_windows(scorer, options, text, words)


def _read(scorer: Scorer, options: Settings) -> tuple[RunningText, str]:
    """Returns the text, and how it was read, in words."""
    settings, change = records_settings(options.model_dir), DETOKENIZERS[options.detokenize]
    layout = options.input_format
    if layout == VERBATIM or (layout == "auto" and settings is None):
        return read_verbatim(options.test_file, scorer.tokenizer, change), VERBATIM
    if layout == "auto" and settings.get("input_format") == VERBATIM:
        return read_verbatim(options.test_file, scorer.tokenizer, change, settings), VERBATIM
    settings = dict(settings or {})
    if layout != "auto":
        settings["input_format"] = layout
    text = read_as_records(options.test_file, scorer.tokenizer, change, settings)
    return text, f"as records are ({text.documents:,} documents)"


def _by_windows(scorer: Scorer, options: Settings, text: RunningText, words: int) -> dict:
    length = window_length(options.model_dir, scorer.backbone, options.max_seq_length)
    stride = max(1, length // 2) if options.stride is None else options.stride
    if stride > length:
        raise UsageError(f"--stride={stride}: more than a window of {length} tokens, so some would never be scored.")
    batch_size = options.batch_size or max(1, TOKENS_TOGETHER // length)
    loss = windows.score(scorer, text.ids, length, stride, batch_size)
    found = of_text(loss, text, words)
    print(f"  windows of {length:,} tokens, stride {stride:,}")
    _print_table("stride", [({"stride": stride} | found)])
    return {"max_seq_length": length, "stride": stride, **found}


def _with_memory(scorer: Scorer, options: Settings, text: RunningText, words: int) -> dict:
    config = scorer.backbone.config
    length = options.max_seq_length or trained_length(options.model_dir) or SEGMENT
    num_streams = options.batch_size or 1
    rows = []
    for memory_length in options.memory_lengths() or [config.memory_length]:
        loss = streams.score(scorer, text.ids, length, memory_length, num_streams)
        rows.append({"mem_length": memory_length, **of_text(loss, text, words)})
    settings = {
        "max_seq_length": length, "num_streams": num_streams, "same_length": config.same_length,
        "clamp_length": config.clamp_length,
    }  # fmt: skip
    print(
        f"  segments of {length:,} tokens, {num_streams:,} stream(s)"
        + ", same_length" * config.same_length
        + (f", distances up to {config.clamp_length:,}" if config.clamp_length else "")
    )
    _print_table("mem_length", rows)
    return settings | (rows[0] if len(rows) == 1 else {"results": rows})


def _with_state(scorer: Scorer, options: Settings, text: RunningText, words: int) -> dict:
    """Returns the measures under a recurrent network, whose state is of one size however much it has read."""
    length = options.max_seq_length or trained_length(options.model_dir) or SEGMENT
    num_streams = options.batch_size or 1
    found = of_text(streams.score(scorer, text.ids, length, 0, num_streams), text, words)
    print(f"  segments of {length:,} tokens, {num_streams:,} stream(s), with the state carried on")
    _print_table("segment", [{"segment": length} | found])
    return {"max_seq_length": length, "num_streams": num_streams, **found}


def _print_table(name: str, rows: list[dict]) -> None:
    print(f"  {name:>10}  " + "  ".join(f"{title.replace('_', ' '):>18}" for title in MEASURES))
    for row in rows:
        values = ("-" if row[title] is None else f"{row[title]:,.4f}" for title in MEASURES)
        print(f"  {row[name]:>10,}  " + "  ".join(f"{value:>18}" for value in values))
