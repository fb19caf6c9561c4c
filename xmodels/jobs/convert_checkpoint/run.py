"""Converts a checkpoint and says what it held."""

import dataclasses

from data_pipelines.errors import UsageError
from xmodels import systems
from xmodels.conversion import convert, mixers, pooled_heads, sentence_transformers, stand_ins, word_vectors
from xmodels.jobs.convert_checkpoint.options import Options


def convert_checkpoint(options: Options) -> None:
    """Converts, and with `verify` compares the outputs of both checkpoints on one batch."""
    source, target = options.source, options.target
    check_mixer_flags(options)
    if sentence_transformers.is_named(source) or sentence_transformers.is_named(target):
        from xmodels.jobs.convert_checkpoint.sentence_transformers import convert_sentences

        convert_sentences(source, target, options.allow_pickle, options.verify)
        return
    loaded = convert.load(source, options.allow_pickle)
    if word_vectors.is_named(target):
        print(f"{source} → {target}: the vectors of {word_vectors.write(target, loaded):,} words of {loaded.model}.")
        return
    if options.to_mixer:
        loaded = mixers.change_mixer(loaded, options.to_mixer, options.set, options.max_sequence_length)
    system = systems.of_model(loaded.system, loaded.model, source)
    loaded = dataclasses.replace(loaded, system=system and systems.name_of(system))
    loaded = stand_ins.as_task(loaded, options.task, source)
    convert.save(loaded, target)
    heads = ", ".join(sorted(loaded.heads)) or "none"
    parameters = sum(value.size for value in loaded.values.values())
    print(
        f"{source} → {target}: {loaded.model}, {len(loaded.values)} tensors, {parameters:,} parameters, heads: {heads}."
    )
    if target.startswith("hf:") and (beside := pooled_heads.part(loaded)[1]):
        print(
            f"Note: transformers has no head with --pooling={loaded.pooling}, so {pooled_heads.HEAD} holds it beside the network; "
            f"{pooled_heads.README} there says how --task={beside.task} is answered."
        )
    for warning in loaded.warnings:
        print(f"Note: {warning}")
    if ":" in target and (left := sorted(convert.heads_without_place(loaded, target))):
        print(f"Note: {target} has no place for the heads {', '.join(left)} of the pretraining; they are left out.")
    if fields := convert.fields_without_place(loaded, target):
        print(
            f"Note: {target} has no place for {', '.join(fields)} of the network and what it makes; they are left out."
        )
    if lost := convert.lost_ids(loaded, target):
        print(f"Note: {target} has no place for {lost} of the source; there the vocabulary tells these tokens.")
    for lost in stand_ins.lost_settings(loaded) if ":" in target else ():
        print(f"Note: {target} has no place for {lost}.")
    if loaded.labels and target.startswith("tf1:"):
        print(
            f"Note: a TF1 checkpoint has no place for the names of labels; in order they are {', '.join(loaded.labels[:20])}."
        )
    if options.verify:
        print(
            f"{target}, read again, and {source} were run on one batch of random tokens, with padding and two segments:"
        )
        for name, difference in convert.verify(source, target, options.allow_pickle).items():
            print(f"  largest difference of {name}: {difference:.3g}")


def check_mixer_flags(options: Options) -> None:
    """Raises a UsageError for flags of another mixer without one, or where the target has no place for it."""
    for name in ("max_sequence_length", "set"):
        if (value := getattr(options, name)) is not None and not options.to_mixer:
            raise UsageError(f"--{name}={value}: is for another mixer. Add --to_mixer=NAME, or leave it out.")
    if options.to_mixer and ":" in options.target:
        raise UsageError(
            f"--to={options.target}: has no place for --to_mixer={options.to_mixer}. Give a new model folder of xmodels."
        )
