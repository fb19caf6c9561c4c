"""Writes the tokenizer of a checkpoint into a folder of Hugging Face, as `from_pretrained` reads it."""

import dataclasses
import json
import os

from tokenizers import AddedToken, processors

from data_pipelines.errors import CheckpointError
from data_pipelines.text.byte_pairs import ids_file
from data_pipelines.text.fairseq_pieces import from_fairseq
from data_pipelines.text.frames import BERT, Frame
from data_pipelines.text.masked_pieces import drop_mask
from data_pipelines.text.tokenizer import CONFIG, Tokenizer
from data_pipelines.text.tokenizer_settings import PAIR
from data_pipelines.text.vocabulary import CLS, EOS, SEP
from xmodels.conversion.fast_tokenizers import FAST, FAST_CLASS
from xmodels.conversion.vocabularies import ENDS, FAIRSEQ, MASKED, TOKENS, TokenizerFiles


def write_hugging_face(folder: str, found: TokenizerFiles, max_sequence_length: int, form) -> None:
    """Writes what `from_pretrained` reads, and our settings beside it.

    Args:
        form: the `HuggingFace` of the network, which says how its texts are framed.
    """
    if form.pairs_models and found.kind == "sentencepiece" and found.open().plain:
        found = as_pair(found)
    written = found
    if found.kind == "sentencepiece" and form.sentence_piece_class == FAIRSEQ:
        model = from_fairseq(found.files["spiece.model"], found.source)
        if model is None:
            raise CheckpointError(
                f"{found.source}: its SentencePiece model is not numbered as those of {FAIRSEQ}, with <s>, <pad>, </s> and <unk> "
                "first and <mask> last, so transformers would read other ids. Convert the network without its vocabulary."
            )
        written = dataclasses.replace(found, files={"sentencepiece.bpe.model": model})
    if found.kind == "sentencepiece" and form.sentence_piece_class == MASKED:
        written = dataclasses.replace(found, files={"spm.model": drop_mask(found.files["spiece.model"], found.source)})
    written.write(folder)
    if found.unsure:
        return
    tokenizer = found.open()
    frame = form.frame.with_parts(tokenizer.frame, None) if tokenizer.frame else form.frame
    if EOS not in tokenizer.vocabulary.roles:  # texts end with the other token that ends them
        frame = frame.with_parts(frame.template.replace(EOS, SEP), None)
    roles = tokenizer.vocabulary.roles
    values = {**found.settings, "model_max_length": max_sequence_length}
    if found.kind != "wordpiece":
        named = TOKENS | (ENDS if form.continues else {})
        values |= {name: tokenizer.vocabulary.tokens[roles[role]] for name, role in named.items() if role in roles}
    values |= {name: token for name, token in found.special_tokens.items() if token in tokenizer.vocabulary.ids}
    if found.kind == "wordpiece":
        values["tokenizer_class"] = "BertTokenizer"
    known = {*roles, *tokenizer.vocabulary.ids}
    added = "added_tokens" in found.settings  # which only tokenizer.json can say
    if found.kind == "wordpiece" and (frame != BERT or added) and frame.roles <= known:
        values |= {"tokenizer_class": FAST_CLASS, "padding_side": "left" if frame.pads_left else "right"}
        values |= {name: tokenizer.vocabulary.tokens[roles[role]] for name, role in TOKENS.items() if role in roles}
        values["model_input_names"] = ["input_ids", *["token_type_ids"] * frame.has_segments, "attention_mask"]
        values["pad_token_type_id"] = frame.pad_segment
        tokenizer.backend.post_processor = _framing(tokenizer, frame)
        tokenizer.backend.save(os.path.join(folder, FAST))
    if found.kind == "sentencepiece_pair":
        values["tokenizer_class"] = "MarianTokenizer"
    if found.kind == "sentencepiece":
        values |= {"tokenizer_class": form.sentence_piece_class, "remove_space": tokenizer.clean}
        if form.sentence_piece_class == "T5Tokenizer":
            values["extra_ids"] = tokenizer.num_sentinels
    if found.kind in ("byte_bpe", "bpe") and {CLS, SEP} <= set(roles):
        own = found.kind == "byte_bpe" and tokenizer.frame is None  # classes have a frame of their own
        values["tokenizer_class"] = form.byte_bpe_class if own else FAST_CLASS
        tokenizer.backend.post_processor = _framing(tokenizer, frame)
        if values["tokenizer_class"] in ("RobertaTokenizer", "BartTokenizer"):  # whose mask takes the blank before it
            tokenizer.backend.add_special_tokens([AddedToken(values["mask_token"], lstrip=True)])
        tokenizer.backend.save(os.path.join(folder, FAST))
    elif found.kind in ("byte_bpe", "bpe") and added:
        values["tokenizer_class"] = FAST_CLASS
        tokenizer.backend.save(os.path.join(folder, FAST))
    with open(os.path.join(folder, CONFIG), "w", encoding="utf-8") as file:
        file.write(json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def as_pair(found: TokenizerFiles) -> TokenizerFiles:
    """Returns one SentencePiece model as both of a pair, whose pieces keep their numbers."""
    vocabulary = found.open().vocabulary
    files = {"vocab.json": ids_file(vocabulary), **dict.fromkeys(PAIR, found.files["spiece.model"])}
    return dataclasses.replace(found, files=files, settings={"tokenizer": "sentencepiece_pair"})


def _framing(tokenizer: Tokenizer, frame: Frame) -> processors.TemplateProcessing:
    """Returns a frame of one text or two, however its tokens are spelled here."""
    vocabulary = tokenizer.vocabulary
    spelled = {part.role: vocabulary.tokens[vocabulary[part.role]] for part in frame.parts if part.role}

    def template(num_texts: int) -> str:
        parts = frame.of_texts(num_texts)
        return " ".join(f"{'$' + 'AB'[p.text] if p.role is None else spelled[p.role]}:{p.segment}" for p in parts)

    return processors.TemplateProcessing(template(1), template(2), [(t, vocabulary.ids[t]) for t in spelled.values()])
