"""What in the counts of records says that the text was hardly read as meant; create_pretraining_data, pretrain and the doctor ask."""

from data_pipelines import layout
from data_pipelines.records.manifest import Manifest

_ENOUGH = 100  # examples; shares of fewer say little
_BALANCED = 0.25, 0.75  # share of a label of two that should be about even
_MUCH_PADDING = 0.3  # where examples are filled with as many sentences as they hold
_MUCH_LOST = 0.2  # of the tokens of the text, where sentences are longer than rows
_MUCH_UNKNOWN, _MUCH_UNKNOWN_WORDS = 0.05, 0.2  # of the tokens; whole words are often rare
_FEW = 3  # sentences; a document of fewer is hardly one


def manifest_warnings(manifest: Manifest) -> list[str]:
    """Returns lines about unknown tokens, lost ones, labels that are far from even, and padding, each with its likely cause and
    what to do."""
    counts, settings = manifest.statistics, manifest.settings
    found, tokens = [], counts.get("tokens", 0)
    kind = (settings.tokenizer or {}).get("tokenizer")
    # Words with characters keep their letters.
    much = {"words": _MUCH_UNKNOWN_WORDS, "word_characters": 1.0}.get(kind, _MUCH_UNKNOWN)
    if counts.get("unknown_tokens", 0) > much * tokens:
        found.append(
            f"{counts['unknown_tokens'] / tokens:.0%} of the tokens are [UNK], which tell a network nothing. Is the vocabulary "
            "that of this text, and --language right?"
        )
    kind, examples = layout.find_or_none(settings.packing), manifest.num_examples
    if kind is None or examples < _ENOUGH:
        return found
    length, because = settings.max_sequence_length or 0, _cause_and_cure(manifest)
    kept = counts.get("example_tokens", 0)
    if kind.takes_all and kept < (1 - _MUCH_LOST) * tokens:
        found.append(
            f"{1 - kept / tokens:.0%} of the text is in no example, as sentences are longer than rows: {because}"
        )
    for label in kind.labels:
        share = counts.get(f"{label}=1", 0) / examples
        if not _BALANCED[0] < share < _BALANCED[1]:
            found.append(f"{label}: {1 - share:.0%} are 0 and {share:.0%} are 1, where about half is meant: {because}")
    padding = 1 - kept / max(1, examples * length)
    if kind.fills_rows and padding > _MUCH_PADDING:
        found.append(
            f"padding is {padding:.0%} of all positions, where a few are usual: {because} Or lower --max_seq_length."
        )
    return found


def _cause_and_cure(manifest: Manifest) -> str:
    """Returns what is odd about the sentences and documents, and what changes it."""
    counts, settings = manifest.statistics, manifest.settings
    documents, sentences = counts.get("documents", 0), counts.get("sentences", 0)
    each, long = sentences / max(1, documents), counts.get("tokens", 0) / max(1, sentences)
    length, kinds = settings.max_sequence_length or 0, (settings.read_as or "").split("+")
    if each >= _FEW and long > length / 4:  # so that a row hardly holds a sentence for each of two segments
        return (
            f"a sentence has {long:.0f} tokens on the average, and a row {length} (read as {settings.read_as}). Raise "
            "--max_seq_length; if a line is more than a sentence, say so: --input_format=documents or text."
        )
    cause = f"a document has {each:.1f} sentences on the average (read as {settings.read_as})"
    if not {"sentences", "documents"} & set(kinds):
        return f"{cause}. Join short documents."
    flag = "--input_format=text" if len(kinds) == 1 else "--input_format='*.txt=text,auto'"
    return f"{cause}. If this is prose whose paragraphs blank lines part, add {flag}; join short documents otherwise."
