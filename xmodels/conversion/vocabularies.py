"""The tokenizer that travels with a checkpoint: its files, and what kind they are of.

Ours say the kind in `tokenizer_config.json`. Folders of Hugging Face are recognised by their files: `vocab.txt` is word
pieces, `vocab.json` with `merges.txt` BPE, `spiece.model` SentencePiece, `source.spm` and
`target.spm` with `vocab.json` a pair of them; or `tokenizer.json`, which names its model.
"""

import dataclasses
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from data_pipelines.errors import CheckpointError, DataError, name_source
from data_pipelines.text import kinds, recognized_tokens
from data_pipelines.text.byte_pairs import HEADER
from data_pipelines.text.fairseq_pieces import to_fairseq
from data_pipelines.text.frames import Frame
from data_pipelines.text.masked_pieces import add_mask
from data_pipelines.text.tokenizer import CONFIG, Tokenizer
from data_pipelines.text.tokenizer_settings import ASSETS, FRAME, PAIR
from data_pipelines.text.vocabulary import BOS, CLS, EOS, MASK, PAD, SEP, UNKNOWN
from xmodels.conversion import fast_tokenizers, tokenizer_check, tokenizer_frames
from xmodels.conversion.fast_tokenizers import FAST
from xmodels.models.folder import read_json

MODEL_CONFIG = "config.json"
SPECIAL_TOKENS = "special_tokens_map.json"
FAIRSEQ = "XLMRobertaTokenizer"  # the class whose SentencePiece model fairseq numbers anew
MASKED = "DebertaV2Tokenizer"  # the class that puts a piece for masks behind those of its model
SENTENCE_PIECES = {  # model_type -> class
    "albert": "AlbertTokenizer", "xlnet": "XLNetTokenizer", "t5": "T5Tokenizer", "xlm-roberta": FAIRSEQ, "deberta-v2": MASKED,
}  # fmt: skip
OTHER_IDS = ("CamembertTokenizer", "MBartTokenizer", "BarthezTokenizer", "XGLMTokenizer")
TOKENS = {"pad_token": PAD, "unk_token": UNKNOWN, "cls_token": CLS, "sep_token": SEP, "mask_token": MASK}
ENDS = {"bos_token": BOS, "eos_token": EOS}


@dataclasses.dataclass(frozen=True)
class TokenizerFiles:
    """What stands beside a checkpoint.

    Attributes:
        files: name -> contents, as `Tokenizer.files` gives them.
        settings: "tokenizer", the kind, and those of its settings that are known, as `Tokenizer.describe` gives them.
        source: the folder, for error messages.
        special_tokens: those that a folder of Hugging Face names, such as `eos_token`.
    """

    files: Mapping[str, bytes]
    settings: dict
    source: str = dataclasses.field(default="vocabulary", compare=False)
    special_tokens: Mapping[str, str] = dataclasses.field(default_factory=dict, compare=False)

    @property
    def kind(self) -> str:
        return self.settings["tokenizer"]

    @property
    def do_lower_case(self) -> bool | None:
        """None where nothing says it."""
        return self.settings.get("do_lower_case")

    @property
    def unsure(self) -> bool:
        """Whether it is not known how to tokenize: word pieces of which nothing says whether they are lower-cased."""
        return self.kind == "wordpiece" and self.do_lower_case is None

    def open(self, do_lower_case: bool | None = None) -> Tokenizer:
        """Returns the tokenizer itself; `do_lower_case` overrides what the settings say.

        Raises:
            DataError: the files are damaged.
        """
        changed = {} if do_lower_case is None else {"do_lower_case": do_lower_case}
        with tempfile.TemporaryDirectory() as folder, name_source(folder, self.source):
            self.write(folder)
            tokenizer = kinds.read_tokenizer(folder, {**self.settings, **changed})
        tokenizer.vocabulary.source = self.source
        return tokenizer

    def rename_files(self, names: Mapping[str, str]) -> "TokenizerFiles":
        """Returns the same with other names of files: `names`, ours -> theirs."""
        return dataclasses.replace(self, files={names.get(name, name): each for name, each in self.files.items()})

    def write(self, folder: str) -> None:
        """Writes the files, without the settings."""
        for name, contents in self.files.items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(contents)


def read_ours(folder: str) -> TokenizerFiles | None:
    """Returns the tokenizer of a folder that we wrote, or whose files tell what they are; None where there is none."""
    names = {name: name for name in ASSETS if os.path.isfile(os.path.join(folder, name))}
    return _read_files(folder, names) if names else None


def read_renamed(folder: str, names: Mapping[str, str]) -> TokenizerFiles | None:
    """Returns a tokenizer whose files have other names: `names`, ours -> theirs. None where none of them is there.

    Raises:
        CheckpointError: one of them is missing.
    """
    if not any(os.path.lexists(os.path.join(folder, theirs)) for theirs in names.values()):
        return None
    _check_complete(folder, list(names.values()))
    return _read_files(folder, names)


def _read_files(folder: str, names: Mapping[str, str]) -> TokenizerFiles:
    """Returns the tokenizer of some files: `names`, ours -> theirs."""
    files, settings = {ours: _bytes(folder, theirs) for ours, theirs in names.items()}, _settings(folder)
    if not settings.get("tokenizer"):  # what a file of others says is read once it is known of which kind they are
        kind = kinds.kind_of_file(os.path.join(folder, next(iter(names.values()))))
        settings = _check_settings({**_json(folder, CONFIG), "tokenizer": kind}, folder)
    return TokenizerFiles(files, settings, folder)


def _check_complete(folder: str, names: list[str]) -> None:
    """Raises a CheckpointError that names the first file of a vocabulary that is missing."""
    missing = [name for name in names if not os.path.lexists(os.path.join(folder, name))]
    if missing:
        files = f"{', '.join(names[:-1])} and {names[-1]}"
        raise CheckpointError(f"{os.path.join(folder, missing[0])}: missing. The vocabulary is {files}.")


def read_hugging_face(
    folder: str, usual: Frame | None = None, num_segments: int | None = None
) -> TokenizerFiles | None:
    """Returns the tokenizer of a folder of the `transformers` library; None where there is none.

    Args:
        usual: the frame of the network, which needs not be told; None where the network continues texts, so that what the folder
            says is of no use.
        num_segments: how many the network tells apart; None if there is no limit.

    Raises:
        CheckpointError: a file is damaged, or no tokenizer of ours is equal to it.
    """
    found = _read_hugging_face(folder)
    special: dict[str, str] = {}
    for name, value in (*_json(folder, SPECIAL_TOKENS).items(), *_json(folder, CONFIG).items()):
        text = value.get("content") if isinstance(value, dict) else value
        if name in (*TOKENS, *ENDS) and isinstance(text, str):
            special[name] = text
    return found and _add_frame(dataclasses.replace(found, special_tokens=special), usual, num_segments)


def _add_frame(found: TokenizerFiles, usual: Frame | None, num_segments: int | None) -> TokenizerFiles:
    """Returns the same with the special tokens that the folder says are put around texts, where the network has others."""
    stored = _json(found.source, CONFIG)
    if usual is None or str(stored.get("tokenizer")) in kinds.KINDS:  # ours says it itself
        return found
    if CLS not in usual.roles and found.kind != "wordpiece":  # of others these networks have none but their own
        return found
    model, vocabulary = _json(found.source, MODEL_CONFIG), found.open().vocabulary
    frame = tokenizer_frames.frame_of(found.source, stored, model, found.kind, vocabulary)
    frame = frame and usual.with_parts(frame, num_segments).template
    if frame in (None, usual.with_parts(usual.template, num_segments).template):
        return found
    return dataclasses.replace(found, settings={**found.settings, FRAME: frame})


def _read_hugging_face(folder: str) -> TokenizerFiles | None:
    stored = _json(folder, CONFIG)
    if str(stored.get("tokenizer")) in kinds.KINDS and (found := read_ours(folder)):  # we wrote it
        return found
    names = sorted(os.listdir(folder))
    if set(PAIR) & set(names):
        return _pair(folder, stored)
    models = [name for name in names if name.endswith(".model")]
    if models and "vocab.txt" not in names:
        return _sentence_pieces(folder, models, stored)
    if "vocab.txt" in names or {"vocab.json", "merges.txt"} <= set(names):
        found = read_ours(folder)
        if found is not None and found.kind == "wordpiece":
            fast_tokenizers.check_word_pieces(stored, os.path.join(folder, CONFIG))
        if found is not None and FAST in names:
            settings = fast_tokenizers.settings_of(folder, stored, found.kind)
            found = dataclasses.replace(found, settings={**found.settings, **_check_settings(settings, folder)})
            if found.kind != "wordpiece" and found.open().merges != fast_tokenizers.vocabulary_of(folder)[1]:
                raise CheckpointError(
                    f"{folder}: merges.txt and {FAST} hold other merges. Move away the one that is not the network's."
                )
        return found and _check_cuts(_add_tokens(found, stored), stored)
    return _check_cuts(_fast(folder, stored), stored) if FAST in names else None


def _check_cuts(found: TokenizerFiles, stored: dict) -> TokenizerFiles:
    """Returns the same tokenizer, after a check that it cuts as the `tokenizer.json` of its folder does, where there is one."""
    path = os.path.join(found.source, FAST)
    if os.path.isfile(path) and not found.unsure:
        changes = fast_tokenizers.read_changes(stored)
        tokenizer_check.check_alike(found.open(), tokenizer_check.reference(path, changes), path)
    return found


def _settings(folder: str) -> dict:
    try:
        return kinds.read_config(os.path.join(folder, CONFIG))
    except DataError as error:
        raise CheckpointError(str(error)) from None


def _sentence_pieces(folder: str, models: list[str], stored: dict) -> TokenizerFiles:
    kind = str(stored.get("tokenizer_class") or "").removesuffix("Fast")
    kind = kind or SENTENCE_PIECES.get(str(_json(folder, MODEL_CONFIG).get("model_type")), "")
    if len(models) > 1 or kind in OTHER_IDS:
        reason = f"{', '.join(models)}: expected one model" if len(models) > 1 else f"{kind} renumbers the pieces"
        raise CheckpointError(f"{folder}: cannot use its SentencePiece model ({reason}).")
    settings = {"tokenizer": "sentencepiece"}
    if kind in ("AlbertTokenizer", "XLNetTokenizer"):
        lower = stored.get("do_lower_case", kind == "AlbertTokenizer")
        settings |= {"do_lower_case": lower, "keep_accents": stored.get("keep_accents", False)}
        settings |= {"clean": stored.get("remove_space", True), "part_digits": True}
    if kind == "T5Tokenizer":
        settings |= {"num_sentinels": stored.get("extra_ids", 100)}
    model, path = _bytes(folder, models[0]), os.path.join(folder, models[0])
    if kind == FAIRSEQ:
        model = _change(to_fairseq, model, path)
    if kind == MASKED:
        settings |= {"do_lower_case": stored.get("do_lower_case", False)}
        if stored.get("split_by_punct"):
            raise CheckpointError(
                f"{os.path.join(folder, CONFIG)}: `split_by_punct` = {stored['split_by_punct']!r:.40}; no tokenizer of ours parts a "
                "text at marks before its SentencePiece model does. Convert the network without its vocabulary."
            )
        model = _change(add_mask, model, path)
    return TokenizerFiles({"spiece.model": model}, _check_settings(settings, folder), folder)


def _change(how: Callable[[bytes, str], bytes], model: bytes, source: str) -> bytes:
    try:
        return how(model, source)
    except DataError as error:
        raise CheckpointError(str(error)) from None


def _pair(folder: str, stored: dict) -> TokenizerFiles:
    """Returns two SentencePiece models with one list of pieces."""
    names = ["vocab.json", *PAIR]
    _check_complete(folder, names)
    if stored.get("separate_vocabs"):
        raise CheckpointError(f"{folder}: `separate_vocabs`: our networks number the pieces of both sides by one list.")
    return TokenizerFiles({name: _bytes(folder, name) for name in names}, {"tokenizer": "sentencepiece_pair"}, folder)


def read_sentence_pieces(folder: str, settings: Mapping[str, Any]) -> TokenizerFiles | None:
    """Returns the one SentencePiece model of a folder, whatever its name, read with these settings; None where there is none."""
    models = sorted(name for name in os.listdir(folder or ".") if name.endswith(".model"))
    if len(models) > 1:
        raise CheckpointError(f"{folder}: {', '.join(models)}: expected one SentencePiece model.")
    if not models:
        return None
    files = {"spiece.model": _bytes(folder, models[0])}
    return TokenizerFiles(files, _check_settings({"tokenizer": "sentencepiece", **settings}, folder), folder)


def _add_tokens(found: TokenizerFiles, stored: dict) -> TokenizerFiles:
    """Returns the same with the tokens that were added after training, which stand in a file of their own or in the settings."""
    added = fast_tokenizers.added_tokens(found.source, stored)
    if not added:
        return found
    ids = dict(found.open().vocabulary.ids)
    further = {token: index for token, (index, _) in added.items() if token not in ids}
    for token, (index, _) in added.items():
        if ids.get(token, index) != index:
            raise CheckpointError(
                f"{found.source}: the added token {token!r} has the id {index}, but {ids[token]} in its vocabulary."
            )
    if sorted(further.values()) != list(range(len(ids), len(ids) + len(further))):
        raise CheckpointError(
            f"{found.source}: expected added tokens with the ids {len(ids)}, {len(ids) + 1}, … behind its vocabulary of {len(ids):,}. "
            f"Found: {', '.join(f'{token!r} {index}' for token, index in further.items())[:200]}."
        )
    files, order = dict(found.files), sorted(further, key=further.get)
    if further and found.kind == "wordpiece":
        files["vocab.txt"] = "".join(f"{token}\n" for token in [*ids, *order]).encode()
    elif further:
        files["vocab.json"] = _dump(json.loads(files["vocab.json"]) | further)
    found = dataclasses.replace(found, files=files)
    vocabulary = found.open().vocabulary
    roles = {vocabulary.tokens[index] for index in vocabulary.special_ids}
    entries = [entry for token, (_, entry) in added.items() if token not in roles]
    return dataclasses.replace(found, settings={**found.settings, **recognized_tokens.settings(entries)})


def _fast(folder: str, stored: dict) -> TokenizerFiles:
    """Returns what `tokenizer.json` holds, as files of ours."""
    ids, merges = fast_tokenizers.vocabulary_of(folder)
    settings = _check_settings(fast_tokenizers.settings_of(folder, stored), folder)
    if settings["tokenizer"] == "wordpiece":
        fast_tokenizers.check_word_pieces(stored, os.path.join(folder, CONFIG))
        text = "".join(f"{token}\n" for token in sorted(ids, key=ids.get))
        return _add_tokens(TokenizerFiles({"vocab.txt": text.encode()}, settings, folder), stored)
    text = HEADER + "".join(f"{left} {right}\n" for left, right in merges)
    files = {"vocab.json": _dump(ids), "merges.txt": text.encode()}
    return _add_tokens(TokenizerFiles(files, settings, folder), stored)


def _check_settings(settings: dict, source: str) -> dict:
    try:
        return kinds.check_values(settings, os.path.join(source, CONFIG))
    except DataError as error:
        raise CheckpointError(str(error)) from None


def _bytes(folder: str, name: str) -> bytes:
    if not os.path.isfile(os.path.join(folder, name)):
        raise CheckpointError(f"{os.path.join(folder, name)}: is a folder, a pipe or a device, not a file.")
    with open(os.path.join(folder, name), "rb") as file:
        return file.read()


def _json(folder: str, name: str) -> dict:
    path = os.path.join(folder, name)
    return read_json(path) if os.path.isfile(path) else {}


def _dump(ids: dict) -> bytes:
    return json.dumps(ids, ensure_ascii=False, separators=(",", ":")).encode()
