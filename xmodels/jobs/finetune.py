"""Fine-tunes a pretrained network on a labelled table; resumes where it was interrupted."""

import dataclasses

import keras

from data_pipelines.corpora.tables import Columns
from data_pipelines.dataset import Batches
from data_pipelines.errors import CheckpointError, UsageError
from data_pipelines.text.vocabulary import Vocabulary
from data_pipelines.text.wordpiece import WordPieceTokenizer
from xmodels.conversion import convert
from xmodels.export.predictor import write_task
from xmodels.jobs import run_folder
from xmodels.jobs.labelled import BATCH, labelled_source
from xmodels.models.folder import assign, model_class
from xmodels.tasks.classify import Classify
from xmodels.training import checkpoints, distribution
from xmodels.training.learner import Learner
from xmodels.training.loop import Loop
from xmodels.training.optimizers import OPTIMIZERS
from xmodels.training.progress import say

STRUCTURAL = ("task", "init_checkpoint", "random_init", "train_file", "max_seq_length", "seed", "optimizer")


@dataclasses.dataclass(frozen=True)
class Options:
    """The flags of `xmodels finetune`. Defaults: Devlin et al., 2018, appendix A.3."""

    init_checkpoint: str
    train_file: str
    model_dir: str
    task: str = "classify"
    random_init: bool = False
    vocab_file: str | None = None
    do_lower_case: bool | None = None
    eval_file: str | None = None
    test_file: str | None = None
    text_column: str | None = None
    text_pair_column: str | None = None
    label_column: str | None = None
    max_seq_length: int = 128
    num_train_epochs: float = 3.0
    train_batch_size: int = 32
    learning_rate: float = 5e-5
    warmup_proportion: float = 0.1
    optimizer: str = "bert_adamw"
    log_steps: int = 50
    save_checkpoints_steps: int = 500
    resume: str = "auto"
    distribution_strategy: str = "one_device"
    num_virtual_devices: int = 0
    mixed_precision: str = "none"
    seed: int = 12345


def finetune(options: Options) -> dict[str, float]:
    """Trains a task and writes the run folder. Returns losses and accuracies of the evaluation and test files.

    With an evaluation file, the weights handed over are those of the epoch with the best accuracy on it.
    """
    strategy = distribution.choose(options.distribution_strategy, options.num_virtual_devices)
    loaded = convert.load(options.init_checkpoint)
    tokenizer = _tokenizer(options, loaded)
    _check(options, strategy, loaded)
    source, labels, num_texts, held = _read_files(options, tokenizer)
    num_steps = max(1, int(options.num_train_epochs * source.num_examples / options.train_batch_size))
    learner, batches = _learner(options, strategy, loaded, source, labels, num_steps)
    backbone, task = learner.backbone, learner.objective
    job = {"job": "finetune", "model": loaded.model, "config": loaded.config.to_json(), "labels": labels}
    state_path = run_folder.claim(options.model_dir, job, dataclasses.asdict(options), STRUCTURAL, options.resume)
    run_folder.write_data(options.model_dir, tokenizer.vocabulary, tokenizer.describe(), None)
    write_task(options.model_dir, task, num_texts, options.max_seq_length)
    state = checkpoints.State(0, 0, options.seed)
    if state_path:
        state = checkpoints.restore(state_path, learner)
        say(f"Resumed from {state_path}: step {state.step} of {num_steps}.")
    origin = "random weights" if options.random_init else options.init_checkpoint
    say(
        f"classify: {len(labels)} labels, {source.num_examples:,} training rows, {num_steps} steps of "
        f"{options.train_batch_size} ({options.num_train_epochs:g} epochs), from {origin}."
    )

    def hand_over():
        run_folder.write_backbone(options.model_dir, backbone, task, tokenizer.vocabulary, tokenizer.describe())

    def score(name):
        return learner.evaluate(dataclasses.replace(batches, source=held[name]).once())

    Loop(
        learner, batches, options.model_dir, num_steps, options.seed,
        save_every=options.save_checkpoints_steps, log_every=options.log_steps,
        evaluate_every=max(1, source.num_examples // options.train_batch_size),
        evaluate=(lambda: score("evaluation")) if "evaluation" in held else None,
        select="accuracy", on_best=hand_over,
    ).run(state)  # fmt: skip
    if "evaluation" in held:
        best = convert.load(options.model_dir)
        assign("backbone", backbone, best.values, options.model_dir)
        assign(task.prefix, task, best.values, options.model_dir)
    else:
        hand_over()
    results = {f"{name} {n}": v for name in held for n, v in score(name).items() if n in ("loss", "accuracy")}
    for name, value in results.items():
        say(f"{name}: {value:.4f}")
    facts = {"task": "classify", "labels": ", ".join(labels[:20]), "from": origin, "steps": f"{num_steps:,}"}
    run_folder.write_model_card(options.model_dir, "Text classifier", facts, results)
    say(f"Fine-tuned network: {options.model_dir}/backbone")
    return results


def _check(options: Options, strategy, loaded) -> None:
    replicas, longest = strategy.num_replicas_in_sync, loaded.config.max_sequence_length
    if options.train_batch_size % replicas:
        raise UsageError(
            f"--train_batch_size={options.train_batch_size}: must be a multiple of the {replicas} devices."
        )
    if options.max_seq_length > longest:
        raise UsageError(f"--max_seq_length={options.max_seq_length}: the network has {longest} positions.")


def _read_files(options: Options, tokenizer: WordPieceTokenizer):
    """The training source, its labels, the number of texts in a row, and the held-out sources by name."""
    columns = Columns(options.text_column, options.text_pair_column, options.label_column)
    source, labels, num_texts = labelled_source(options.train_file, columns, tokenizer, options.max_seq_length)
    if len(labels) < 2:
        raise UsageError(f"{options.train_file}: holds one label only ({labels[0]!r}); is --label_column right?")
    held = {
        name: labelled_source(path, columns, tokenizer, options.max_seq_length, labels)[0]
        for name, path in (("evaluation", options.eval_file), ("test", options.test_file))
        if path
    }
    return source, labels, num_texts, held


def _learner(options: Options, strategy, loaded, source, labels: list[str], num_steps: int) -> tuple[Learner, Batches]:
    keras.config.set_dtype_policy("mixed_bfloat16" if options.mixed_precision == "bfloat16" else "float32")
    keras.utils.set_random_seed(options.seed)
    with strategy.scope():
        backbone = model_class(loaded.model)(loaded.config).initialize()
        if not options.random_init:
            assign("backbone", backbone, loaded.values, options.init_checkpoint)
        task = Classify(loaded.config, labels)
        batches = Batches(source, task.transform(), options.train_batch_size, options.seed, BATCH)
        warmup = int(options.warmup_proportion * num_steps)
        optimizer = OPTIMIZERS[options.optimizer](options.learning_rate, warmup, num_steps)
        return Learner(strategy, backbone, task, optimizer, batches.zeros(), seed=options.seed), batches


def _tokenizer(options: Options, loaded) -> WordPieceTokenizer:
    if options.vocab_file:
        vocabulary = Vocabulary.read(options.vocab_file)
    elif loaded.vocabulary_text is not None:
        vocabulary = Vocabulary(loaded.vocabulary_text.splitlines(), options.init_checkpoint)
    else:
        raise UsageError(f"--init_checkpoint={options.init_checkpoint}: has no vocab.txt; name it with --vocab_file.")
    if len(vocabulary) != loaded.config.vocabulary_size:
        raise CheckpointError(
            f"--init_checkpoint={options.init_checkpoint}: the network has {loaded.config.vocabulary_size} pieces, its "
            f"vocabulary {len(vocabulary)}. They do not belong together."
        )
    lower_case = options.do_lower_case if options.do_lower_case is not None else loaded.do_lower_case
    return WordPieceTokenizer(vocabulary, True if lower_case is None else lower_case)
