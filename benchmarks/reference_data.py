"""What google-research/bert does to make records, restated: the yardstick of `benchmarks/data.py`, and of tests.

Plain Python on one core and lists of strings, as there: the corpus and all instances are held in memory, characters are
looked at one by one, and records are built as `tf.train.Example`. `tests/pretraining/test_pairs.py` proves it equal to what the
original wrote. (Devlin et al., 2018, appendix A.2)
"""

import collections
import random
import unicodedata

MaskedLM = collections.namedtuple("MaskedLM", "tokens positions labels")


def _is_cjk(code: int) -> bool:
    return (
        0x4E00 <= code <= 0x9FFF
        or 0x3400 <= code <= 0x4DBF
        or 0x20000 <= code <= 0x2A6DF
        or 0x2A700 <= code <= 0x2B73F
        or 0x2B740 <= code <= 0x2B81F
        or 0x2B820 <= code <= 0x2CEAF
        or 0xF900 <= code <= 0xFAFF
        or 0x2F800 <= code <= 0x2FA1F
    )


def _is_blank(character: str) -> bool:
    if character in (" ", "\t", "\n", "\r"):
        return True
    return unicodedata.category(character) == "Zs"


def _is_control(character: str) -> bool:
    if character in ("\t", "\n", "\r"):
        return False
    return unicodedata.category(character) in ("Cc", "Cf")


def _is_punctuation(character: str) -> bool:
    code = ord(character)
    if 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126:
        return True
    return unicodedata.category(character).startswith("P")


def _clean(text: str) -> str:
    output = []
    for character in text:
        code = ord(character)
        if code == 0 or code == 0xFFFD or _is_control(character):
            continue
        output.append(" " if _is_blank(character) else character)
    return "".join(output)


def _part_cjk(text: str) -> str:
    output = []
    for character in text:
        if _is_cjk(ord(character)):
            output += [" ", character, " "]
        else:
            output.append(character)
    return "".join(output)


def _strip_accents(text: str) -> str:
    output = []
    for character in unicodedata.normalize("NFD", text):
        if unicodedata.category(character) != "Mn":
            output.append(character)
    return "".join(output)


def _split_at_punctuation(text: str) -> list[str]:
    parts: list[list[str]] = []
    opens = True
    for character in list(text):
        if _is_punctuation(character):
            parts.append([character])
            opens = True
        else:
            if opens:
                parts.append([])
            opens = False
            parts[-1].append(character)
    return ["".join(part) for part in parts]


def basic_tokens(text: str) -> list[str]:
    """Cleaned, lower-cased words; punctuation and CJK characters stand alone. One pass a step, as in the original."""
    words: list[str] = []
    for word in _part_cjk(_clean(text)).strip().split():
        words.extend(_split_at_punctuation(_strip_accents(word.lower())))
    return " ".join(words).strip().split()


def word_pieces(text: str, vocabulary: dict[str, int]) -> list[str]:
    """The longest pieces first, from left to right."""
    output: list[str] = []
    for word in text.strip().split():
        characters = list(word)
        if len(characters) > 200:
            output.append("[UNK]")
            continue
        pieces, start, is_bad = [], 0, False
        while start < len(characters):
            end, found = len(characters), None
            while start < end:
                piece = "".join(characters[start:end])
                if start > 0:
                    piece = "##" + piece
                if piece in vocabulary:
                    found = piece
                    break
                end -= 1
            if found is None:
                is_bad = True
                break
            pieces.append(found)
            start = end
        output.extend(["[UNK]"] if is_bad else pieces)
    return output


def tokenize(text: str, vocabulary: dict[str, int]) -> list[str]:
    pieces = []
    for word in basic_tokens(text):
        for piece in word_pieces(word, vocabulary):
            pieces.append(piece)  # noqa: PERF402, as there
    return pieces


def pairs_of(documents, index: int, max_sequence_length: int, short_rate: float, rng):
    """(first, second, is random) of one document."""
    document = documents[index]
    max_tokens = max_sequence_length - 3
    target = rng.randint(2, max_tokens) if rng.random() < short_rate else max_tokens
    chunk, length, i = [], 0, 0
    while i < len(document):
        chunk.append(document[i])
        length += len(document[i])
        if i == len(document) - 1 or length >= target:
            first_end = rng.randint(1, len(chunk) - 1) if len(chunk) >= 2 else 1
            first = [token for sentence in chunk[:first_end] for token in sentence]
            second = []
            is_random = len(chunk) == 1 or rng.random() < 0.5
            if is_random:
                wanted = target - len(first)
                for _ in range(10):
                    other = rng.randint(0, len(documents) - 1)
                    if other != index:
                        break
                for sentence in documents[other][rng.randint(0, len(documents[other]) - 1) :]:
                    second.extend(sentence)
                    if len(second) >= wanted:
                        break
                i -= len(chunk) - first_end
            else:
                second = [token for sentence in chunk[first_end:] for token in sentence]
            while len(first) + len(second) > max_tokens:
                longer = first if len(first) > len(second) else second
                if rng.random() < 0.5:
                    del longer[0]
                else:
                    longer.pop()
            if first and second:
                yield first, second, is_random
            chunk, length = [], 0
        i += 1


def mask(tokens, vocabulary: list[str], rate: float, max_predictions: int, whole_words: bool, rng) -> MaskedLM:
    """Hides words, or tokens, in random order."""
    groups: list[list[int]] = []
    for index, token in enumerate(tokens):
        if token in ("[CLS]", "[SEP]"):
            continue
        if whole_words and groups and token.startswith("##"):
            groups[-1].append(index)
        else:
            groups.append([index])
    rng.shuffle(groups)
    wanted = min(max_predictions, max(1, round(len(tokens) * rate)))
    hidden, positions = list(tokens), []
    for group in groups:
        if len(positions) >= wanted:
            break
        if len(positions) + len(group) > wanted:
            continue
        for index in group:
            if rng.random() < 0.8:
                hidden[index] = "[MASK]"
            elif rng.random() >= 0.5:
                hidden[index] = vocabulary[rng.randint(0, len(vocabulary) - 1)]
            positions.append(index)
    positions.sort()
    return MaskedLM(hidden, positions, [tokens[index] for index in positions])


def instances(documents, vocabulary, passes, length, short_rate, rate, max_predictions, whole_words, rng) -> list[dict]:
    """All instances of tokenized documents, shuffled."""
    documents = list(documents)
    rng.shuffle(documents)
    made = []
    for _ in range(passes):
        for index in range(len(documents)):
            for first, second, is_random in pairs_of(documents, index, length, short_rate, rng):
                tokens = ["[CLS]", *first, "[SEP]", *second, "[SEP]"]
                masked = mask(tokens, vocabulary, rate, max_predictions, whole_words, rng)
                made.append(
                    {
                        "tokens": masked.tokens,
                        "segment_ids": [0] * (len(first) + 2) + [1] * (len(second) + 1),
                        "is_random_next": is_random,
                        "masked_positions": masked.positions,
                        "masked_labels": masked.labels,
                    }
                )
    rng.shuffle(made)
    return made


def write(made: list[dict], vocabulary: dict[str, int], length: int, max_predictions: int, path: str) -> None:
    """TFRecords in Google's layout."""
    import tensorflow as tf

    def whole(values):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=list(values)))

    with tf.io.TFRecordWriter(path) as writer:
        for instance in made:
            ids = [vocabulary[token] for token in instance["tokens"]]
            labels = [vocabulary[token] for token in instance["masked_labels"]]
            empty, left = length - len(ids), max_predictions - len(labels)
            features = {
                "input_ids": whole(ids + [0] * empty),
                "input_mask": whole([1] * len(ids) + [0] * empty),
                "segment_ids": whole(instance["segment_ids"] + [0] * empty),
                "masked_lm_positions": whole(instance["masked_positions"] + [0] * left),
                "masked_lm_ids": whole(labels + [0] * left),
                "masked_lm_weights": tf.train.Feature(
                    float_list=tf.train.FloatList(value=[1.0] * len(labels) + [0.0] * left)
                ),
                "next_sentence_labels": whole([int(instance["is_random_next"])]),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def create(
    input_file: str, vocab_file: str, output_file: str, passes: int, length: int = 128, whole_words=False
) -> None:
    """The whole of `create_pretraining_data.py`, with its defaults."""
    with open(vocab_file, encoding="utf-8") as file:
        vocabulary = {line.rstrip("\n"): index for index, line in enumerate(file)}
    documents: list[list[list[str]]] = [[]]
    with open(input_file, encoding="utf-8") as file:
        for line in file:
            if not line.strip():
                documents.append([])
            elif tokens := tokenize(line.strip(), vocabulary):
                documents[-1].append(tokens)
    documents = [document for document in documents if document]
    rng = random.Random(12345)
    made = instances(documents, list(vocabulary), passes, length, 0.1, 0.15, 20, whole_words, rng)
    write(made, vocabulary, length, 20, output_file)
