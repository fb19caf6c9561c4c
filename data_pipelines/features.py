"""The glossary of features: every name that records, ops, batches, networks, objectives, tasks and exports share.

Pure Python, imports nothing heavy. Shapes are those of one example, without the leading batch axis; None is a free length.
`tests/records/test_features.py` compares the glossary with the code, in both directions.
"""

import dataclasses
from collections.abc import Mapping

from data_pipelines.errors import DataError


@dataclasses.dataclass(frozen=True)
class Feature:
    """The shape (None for a free axis), the dtype and, in the glossary, the meaning of one feature of one example.

    Records hold the second axis of a feature that `is_ragged` as long as it is, of each word of its own, up to the size that the shape
    says. Batches have that size.
    """

    shape: tuple[int | None, ...] = ()
    dtype: str = "int32"
    meaning: str = dataclasses.field(default="", compare=False)
    is_ragged: bool = False

    def fits(self, other: "Feature") -> bool:
        """Returns whether the shapes agree where both are known."""
        return len(self.shape) == len(other.shape) and all(
            a is None or b is None or a == b for a, b in zip(self.shape, other.shape, strict=True)
        )


Features = Mapping[str, Feature]


def lengths_of(name: str) -> str:
    """Returns the name under which records hold the lengths of the rows of a ragged feature."""
    return f"{name}/lengths"


IGNORED = 2  # instead of 0 or 1 in labels of tokens: does not count
BIDIRECTIONAL, LEFT_TO_RIGHT, RIGHT_TO_LEFT, SEQ2SEQ = range(4)  # values of `objective_ids`
L, NL = (None,), (None, None)
CHARACTERS = 50  # of a word, with where it begins and ends


def _starts(unit: str) -> tuple[Feature, ...]:
    return (Feature(L, "int32", f"1 where {unit} begins"),)


def _label(meaning: str) -> tuple[Feature, ...]:
    return Feature((), "int32", meaning), Feature((1,), "int32", "the same in the layout of Google's script")


GLOSSARY: dict[str, tuple[Feature, ...]] = {
    # The tokens of an example.
    "token_ids": (
        Feature(L, "int32", "a text, or the texts of an example one behind the other"),
        Feature(
            NL, "int32", "several sequences: choices, orders of a pair, sides of a Siamese pair, sentences of a story"
        ),
    ),
    "character_ids": (Feature((None, CHARACTERS), "int32", "the characters of each word (ELMo); zeros on padding"),),
    "reversed_character_ids": (
        Feature((None, CHARACTERS), "int32", "the same of a second stream, in which each sentence stands backwards"),
    ),
    "token_vectors": (
        Feature(NL, "float32", "vectors that a network reads in the place of those of its own table (DeBERTaV3)"),
    ),
    "ngram_ids": (Feature(NL, "int32", "the rows of each word and of its parts (fastText); zeros fill up"),),
    "padding_mask": (
        Feature(L, "bool", "True on real tokens; of a story on real sentences"),
        Feature(NL, "bool", "the same of several sequences"),
    ),
    "segment_ids": (
        Feature(L, "int32", "the segment of each token, from 0; of a story 1 on the question"),
        Feature(NL, "int32", "the same of several sequences"),
    ),
    "segment_lengths": (
        Feature(L, "int32", "tokens of each segment, before special tokens are added"),
        Feature(NL, "int32", "the same of several pairs of texts"),
    ),
    "points": (
        Feature(NL, "float32", "the vectors of a set, in any order; `padding_mask` is True on those that exist"),
    ),
    "position_ids": (Feature(L, "int32", "the place of each token in its own example, from 0"),),
    "task_ids": (Feature(L, "int32", "the pretraining task of the example, on each of its tokens (ERNIE 2.0)"),),
    "role_ids": (Feature(L, "int32", "who speaks in a dialogue: 0 the one who began it, 1 the one who answers"),),
    "first_role": (Feature((), "int32", "the speaker, as of `role_ids`, of the first turn of an example"),),
    "word_start": _starts("a word"),
    "phrase_start": _starts("a phrase"),
    "entity_start": _starts("an entity"),
    "sentence_start": _starts("a sentence"),
    "word_ids": (Feature(L, "int32", "the word of its text to which a token belongs, from 0"),),
    "char_starts": (Feature(L, "int32", "the first character of the text that a token covers; 0 in the question"),),
    "char_ends": (Feature(L, "int32", "where the characters end that a token covers; 0 in the question"),),
    "objective_ids": (
        Feature(
            (),
            "int32",
            "which language model an example trains: 0 bidirectional, 1 left to right, 2 right to left, 3 seq2seq",
        ),
    ),
    "source_lengths": (
        Feature((), "int32", "tokens of the source at the beginning of a row, special ones included (UniLM)"),
    ),
    "mask_ids": (
        Feature((), "int32", "the id of `[MASK]`, at which a network that writes names the next token (UniLM)"),
    ),
    # Rows of several examples.
    "pack_ids": (Feature(L, "int32", "1, 2, ... for the examples of a row, 0 on padding"),),
    "pack_starts": (Feature(L, "int32", "where each example of a row begins"),),
    "global_ids": (Feature(L, "int32", "1 for tokens that see all others, where the attention of most is local"),),
    # Targets of an encoder-decoder.
    "target_ids": (
        Feature(
            L,
            "int32",
            "what the decoder reads: the target moved on by one place; in records of pairs the target itself",
        ),
    ),
    "target_position_ids": (Feature(L, "int32", "the place of each token of the target in its own example, from 0"),),
    "clean_ids": (Feature(L, "int32", "the text as it was before it was corrupted"),),
    "clean_mask": (Feature(L, "bool", "True on the real tokens of `clean_ids`"),),
    # What is to be predicted.
    "maskable": (Feature(L, "bool", "True on tokens that may be hidden: neither special tokens nor padding"),),
    "mask_positions": (Feature(L, "int32", "the places that are predicted; 0 in unused slots"),),
    "draws": (
        Feature(L, "float32", "a number in [0, 1) for each hidden place, by which a generator's token is drawn"),
    ),
    "teacher_probabilities": (Feature(L, "float32", "of each class, what a teacher says"),),
    "teacher_scores": (Feature((), "float32", "the score that a teacher gives"),),
    "labels": (
        Feature((), "int32", "a class, an answer or the right choice"),
        Feature((), "float32", "a score"),
        Feature(L, "int32", "the id at each hidden place, or the id that follows, or the tag of each token"),
        Feature(L, "float32", "the relevance of each candidate"),
    ),
    "reversed_labels": (Feature(L, "int32", "the id that follows in a stream of sentences that stand backwards"),),
    "label_weights": (
        Feature(L, "float32", "0 where a slot or a place of `labels` does not count"),
        Feature(L, "int32", "the same in records: 1 on the first token of a word, or where there is a candidate"),
    ),
    "part_lengths": (Feature(NL, "int32", "the tokens of passage, question and choice, of each choice in records"),),
    "list_ids": (Feature((), "int32", "the list of candidates from which those of a step are drawn"),),
    "choice_weights": (
        Feature(L, "float32", "0 where an example has fewer choices"),
        Feature(L, "int32", "the same in records"),
    ),
    "encoder_mask": (Feature(L, "bool", "True where the encoder may look, if not at all real tokens"),),
    "cross_mask": (Feature(L, "bool", "True where the decoder may look at the source, if not at all real tokens"),),
    "query_mask": (Feature(NL, "bool", "True where a predicted place may look, without its own token"),),
    "content_mask": (Feature(NL, "bool", "True where a token may look, its own place included"),),
    "next_sentence_labels": _label("1 where the second segment is a random one"),
    "sentence_order_labels": _label("1 where the two segments are swapped"),
    "distance_labels": _label(
        "0 where the second segment follows, 1 where it is from elsewhere in the document, 2 from another; "
        "records hold that of the third segment"
    ),
    "reordering_labels": _label(
        "which permutation the parts of a paragraph stand in, of all those of up to so many parts"
    ),
    "capital_labels": (
        Feature(L, "int32", "1 where the word was written with a capital, 2 where that does not count"),
    ),
    "repeated_labels": (
        Feature(
            L, "int32", "1 where the token stands in another part of its document too, 2 where that does not count"
        ),
    ),
    "follows_labels": _label("1 where the second segment of a stream follows the first"),
    "is_reversed": _label("1 where an example reads backwards"),
    "dialogue_labels": _label("1 where all turns are of the same dialogue"),
    # Pairs of words that stand near each other.
    "center_ids": (
        Feature(
            L, "int32", "the word of each pair in whose window the other one stands; or the words that stay of a text"
        ),
    ),
    "context_ids": (Feature(L, "int32", "the other word of each pair"),),
    "pair_weights": (Feature(L, "float32", "0 where a slot holds no pair"),),
    "negative_ids": (Feature(L, "int32", "words drawn by chance, for each block of words or for each sentence"),),
    "other_ids": (Feature(L, "int32", "a word drawn by chance for each place"),),
    "row_ids": (Feature(L, "int32", "the rows of all words of an example and of their parts (fastText)"),),
    "row_places": (
        Feature(L, "int32", "the word to which each of `row_ids` belongs; behind all words where there is none"),
    ),
    "window_starts": (Feature(L, "int32", "the first place of the window of each word; 0 where there is no word"),),
    "window_ends": (Feature(L, "int32", "the place behind the window of each word; 0 where there is no word"),),
    "node_ids": (Feature(NL, "int32", "the inner nodes on the way to each word through a tree, from the root on"),),
    "node_shares": (Feature(NL, "float32", "the share of all words whose ways pass each of them"),),
    "node_codes": (Feature(NL, "int32", "which way, 0 or 1, it takes at each of them; -1 where it has ended"),),
    # Labelled examples.
    "example_ids": (
        Feature((), "int32", "the place of the example in its input; the windows of a question share one"),
    ),
    "candidate_ids": (Feature(L, "int32", "the place of each candidate in its list"),),
    "has_answer": (Feature((), "int32", "0 where the window does not hold the answer"),),
    "start_positions": (Feature((), "int32", "the first token of the answer within `token_ids`; 0 without an answer"),),
    "end_positions": (Feature((), "int32", "the last token of the answer; 0 without an answer"),),
    "span_roles": (
        Feature(L, "int32", "1 where an answer may stand, 2 at the token that stands for having none, else 0"),
    ),
    "most_context": (Feature(L, "int32", "1 where no other window shows more text around the token"),),
    # What a batch adds.
    "example_weights": (Feature((), "float32", "0 on rows that only fill up a batch"),),
    "seed": (Feature((), "uint64", "64 random bits of this example in this epoch"),),
    "progress": (
        Feature((), "float32", "the share of the training that lies before the batch, from 0 to 1; only ops see it"),
    ),
    "batch_seed": (
        Feature(
            (), "uint64", "64 random bits of the batch; where a network is scored, of the example; only ops see it"
        ),
    ),
    "cursor": (
        Feature((3,), "int64", "where reading goes on: epoch, window, groups of the window that are done; in buckets"),
    ),
    # What a network carries from batch to batch.
    "memory": (Feature((None, None, None), "float32", "the states of the places before, of each layer"),),
    "memory_filled": (Feature((), "int32", "how many places of `memory` hold states"),),
    "memory_compressed": (
        Feature((), "int32", "how many of the filled places of `memory`, the first ones, hold compressed states"),
    ),
    # The same things in files of Google's script; `ops.classic` renames them.
    "input_ids": (Feature(L, "int32", "`token_ids`"),),
    "token_boundary": (Feature(L, "int32", "1 where a word begins and on special tokens (ALBERT)"),),
    "input_mask": (Feature(L, "int32", "`padding_mask`"),),
    "masked_lm_positions": (Feature(L, "int32", "`mask_positions`"),),
    "masked_lm_ids": (Feature(L, "int32", "`labels`"),),
    "masked_lm_weights": (Feature(L, "float32", "`label_weights`"),),
    # What tasks answer.
    "label_ids": (
        Feature((), "int32", "the likeliest class"),
        Feature(L, "int32", "the likeliest tag of each token"),
    ),
    "scores": (
        Feature((), "float32", "the number of a text or a pair"),
        Feature(L, "float32", "how well each candidate answers the query"),
    ),
    "vectors": (Feature(L, "float32", "the vector of a text; of several texts one behind the other"),),
    "start_logits": (Feature(L, "float32", "how well the answer begins at each token, before a softmax"),),
    "end_logits": (Feature(L, "float32", "how well the answer ends at each token, before a softmax"),),
    "top_starts": (Feature(L, "int32", "the likeliest beginnings of an answer, from the first real token on"),),
    "top_start_scores": (Feature(L, "float32", "the logarithms of their probabilities"),),
    "top_ends": (Feature(NL, "int32", "the likeliest ends beside each beginning"),),
    "top_end_scores": (Feature(NL, "float32", "the logarithms of their probabilities beside that beginning"),),
    "null_logits": (Feature((), "float32", "how well there being no answer fits, before a sigmoid"),),
    "choices": (Feature((), "int32", "the place of the likeliest choice, from 0"),),
    "answer_ids": (Feature((), "int32", "the likeliest answer"),),
    "probabilities": (Feature(L, "float32", "of each class or choice; of the likeliest tag of each token"),),
    "exit_layers": (Feature((), "int32", "the layer, from 0, behind which a text left the network"),),
    "uncertainties": (Feature((), "float32", "of the label there: its entropy, from 0 to 1"),),
    "answer_probabilities": (Feature(L, "float32", "of each answer"),),
}
"""What each name may be: one entry for each of its shapes and types."""


def check(features: Features, expected: Features, where: str) -> None:
    """Raises a DataError that names the feature, what was found, what was expected, and where."""
    for name, wanted in expected.items():
        if name not in features:
            raise DataError(f"{where}: feature `{name}` is missing. Found: {', '.join(sorted(features))}.")
        found = features[name]
        if not found.fits(wanted):
            raise DataError(f"{where}: feature `{name}` has shape {list(found.shape)}, expected {list(wanted.shape)}.")
