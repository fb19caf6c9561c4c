"""Whether a vocabulary was made of text with capital letters, and whether it is used so."""

from collections.abc import Iterable

from data_pipelines.text.tokenizer import Tokenizer

FEWEST = 100  # pieces with letters that have two cases; with fewer, as in many Chinese vocabularies, nothing is said
MANY = 0.02  # of the pieces of a cased vocabulary have capital letters, at the very least; of bert-base-cased a third


def capitals(tokens: Iterable[str], special: Iterable[str] = ()) -> tuple[int, int]:
    """Returns how many pieces have a capital letter, and how many have letters that could be one."""
    special = set(special)
    lettered = [t for t in tokens if t not in special and not t.startswith("[unused") and t.lower() != t.upper()]
    return sum(token != token.lower() for token in lettered), len(lettered)


def case_warning(tokenizer: Tokenizer, source: str) -> str | None:
    """Returns what to say where --do_lower_case contradicts the pieces of the vocabulary."""
    vocabulary = tokenizer.vocabulary
    upper, lettered = capitals(vocabulary.tokens, (vocabulary.tokens[i] for i in vocabulary.special_ids))
    if lettered < FEWEST or tokenizer.kind == "byte_bpe":  # which has a piece for every byte
        return None
    if tokenizer.do_lower_case and upper > MANY * lettered:
        return (
            f"Warning: {source} is a cased vocabulary ({upper} of {lettered} pieces have capital letters), but text is "
            "lower-cased before it is looked up, so these are never used. Use --do_lower_case=false."
        )
    if not tokenizer.do_lower_case and not upper:
        return (
            f"Warning: {source} is an uncased vocabulary (none of {lettered} pieces has a capital letter), but text is not "
            "lower-cased, so every word with a capital becomes [UNK]. Use --do_lower_case=true."
        )
    return None
