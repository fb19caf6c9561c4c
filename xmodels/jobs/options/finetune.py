"""The options of `xmodels finetune`."""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option
from data_pipelines.options.input import encoding_option
from xmodels.jobs.options.training import TrainingOptions
from xmodels.layers.exits import DISTILLATIONS
from xmodels.layers.poolings import JOINT, POOLINGS
from xmodels.tasks.base import find

TASKS = find.names("task")
BEST_METRICS = ("accuracy", "positive_f1", "macro_f1", "micro_f1", "mcc", "seq2seq_accuracy", "exact_match")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TrainingOptions):
    """A task, the network that learns it, and the labelled rows; what None stands for depends on the network."""

    JOB: ClassVar = "xmodels.jobs.finetune:finetune"
    EARLY: ClassVar = "xmodels.jobs.early:finetuning"

    task: str = option("classify", "What to learn:", section="Model", choices=TASKS, values={name: find.summary(name) for name in TASKS}, structural=True)  # fmt: skip
    init_checkpoint: str = option(REQUIRED, "A run or model folder, hf:FOLDER, or tf1:PREFIX; new:NETWORK or new:NETWORK/SIZE, with random weights, such as new:text_cnn with --vocab_file (docs/rnn_cnn.md).", structural=True)  # fmt: skip
    random_init: bool = option(False, "Take only sizes and vocabulary from init_checkpoint: the control experiment.", structural=True)  # fmt: skip
    vocab_file: str | None = option(None, "Vocabulary, where the checkpoint has none, or the network is new.")
    do_lower_case: bool | None = option(None, "Lower-case the text. Default: as the checkpoint says.")
    train_file: str | None = option(None, "Labelled rows to learn from.", section="Data: TSV, CSV or JSON lines, or records of create_finetuning_data", structural=True)  # fmt: skip
    data_dir: str | None = option(None, "Records to learn from instead; eval_file and test_file may be folders of records too.", structural=True)  # fmt: skip
    eval_file: str | None = option(None, "Labelled rows that choose the best epoch.")
    test_file: str | None = option(None, "Labelled rows that are scored once, at the end.")
    encoding: str = encoding_option()
    text_column: str | None = option(None, "Column of the text: its name, or its position from 0 in a file without header. Default: text, sentence, …")  # fmt: skip
    text_pair_column: str | None = option(None, "Column of the second text, for pairs.")
    label_column: str | None = option(None, "Column of the label. Default: label, class, …")
    on_bad_row: str = option("fail", "Rows of a table that cannot be used (an empty label or text, quotes that nothing closes, missing columns): stop and name the line, or leave them out and say which.", choices=("fail", "skip"))  # fmt: skip
    max_seq_length: int = option(
        128, "Longer texts are cut; those of answer_span and tag are read in windows.", minimum=1, structural=True
    )
    extend_positions: bool = option(False, "Where max_seq_length is more than the network has positions, make those that are missing: copies of the first ones, which then learn.", structural=True)  # fmt: skip
    class_weights: str | None = option(None, "What a row of a label counts in the loss: balanced, the number of rows over that of the label times that of labels; or LABEL:WEIGHT,..., 1 for others. Of several labels a text: of rows that have the label.", section="Labels of texts (docs/classify.md)", structural=True)  # fmt: skip
    best_metric: str | None = option(None, "The score on eval_file that chooses the best epoch: of labels accuracy, positive_f1 (of the positive one of two), macro_f1 or mcc; of several labels a text micro_f1, macro_f1 or accuracy (all of a text right); of text from text seq2seq_accuracy, the share of right tokens, or exact_match, of right texts. Default: the first.", choices=BEST_METRICS)  # fmt: skip
    positive_label: str | None = option(None, "Of two labels, the one whose F1 is positive_f1 and which tune_threshold names. Default: the second in sorted order.", structural=True)  # fmt: skip
    tune_threshold: bool = option(False, "Of two labels, name the positive one from the probability that has the best best_metric on eval_file, and not from 0.5.", structural=True)  # fmt: skip
    label_separator: str | None = option(None, "What stands between the labels of a text, of --task=multi_label. Default: |.", structural=True)  # fmt: skip
    crf: bool = option(False, "Choose the tags of a text together, by a linear-chain CRF over its words.", section="Words with tags (docs/tag.md)", structural=True)  # fmt: skip
    bad_tags: str | None = option(None, "Tags that cannot be, such as I-X behind O in BIO. repair: read them as conlleval does, and say how many. refuse: name the first, with its line. Default: repair.", choices=("repair", "refuse"))  # fmt: skip
    feature_layers: str | None = option(None, "Layers of a frozen network that the head reads, such as -1,-2,-3,-4; 0 is the embedding. Default: what the network returns.", structural=True)  # fmt: skip
    combine_layers: str | None = option(None, "How several become one: concat, side by side; mix, a learnt sum. Default: mix.", choices=("concat", "mix"), structural=True)  # fmt: skip
    bilstm_dim: int | None = option(None, "Width of each direction of a BiLSTM of two layers below the Dense layer. Default: none.", minimum=1, structural=True)  # fmt: skip
    tasks: str | None = option(None, "Numbers of the tasks that are learnt jointly, such as 1,2,3. Default: all that are there.", section="Stories: files of bAbI, or its folder, by train_file, eval_file and test_file", structural=True)  # fmt: skip
    questions_per_task: int | None = option(None, "Take the first so many of each task; 1000 of 10000 is the small setting.", minimum=1, structural=True)  # fmt: skip
    held_out: float = option(0.0, "Share of the training stories that chooses the best epoch, in place of an eval_file; usual is 0.1.", maximum=0.9, structural=True)  # fmt: skip
    model_config_file: str | None = option(None, "JSON with numbers of a new network, in place of those of its size.")
    ponder_weight: float = option(
        0.01, "What a step more costs a network that decides about its steps.", structural=True
    )
    prefix: str = option("", "What stands before each text, in training and wherever the run is used, such as 'summarize: '.", section="Text from text: tables of two columns of text, source and target", structural=True)  # fmt: skip
    max_target_length: int | None = option(None, "Longer targets are cut. Default: max_seq_length.", minimum=2, structural=True)  # fmt: skip
    doc_stride: int | None = option(None, "Tokens from the beginning of one window of a long text to that of the next, of answer_span and tag. Default: 128, of tag and where windows are shorter half a window.", minimum=1, section="Answers in texts: files of SQuAD or CMRC 2018, by train_file, eval_file and test_file", structural=True)  # fmt: skip
    max_query_length: int | None = option(None, "Longer questions lose their end. Default: 64 tokens, at most half of the sequence.", minimum=1, structural=True)  # fmt: skip
    n_best_size: int | None = option(None, "Likeliest beginnings, ends and answers that are looked at. Default: 20.", minimum=1)  # fmt: skip
    max_answer_length: int | None = option(None, "Longest answer in tokens. Default: 30.", minimum=1)  # fmt: skip
    start_n_top: int | None = option(None, "Likeliest beginnings beside which ends are read, of answer_beam. Default: 5.", minimum=1)  # fmt: skip
    end_n_top: int | None = option(None, "Likeliest ends beside each beginning, of answer_beam. Default: 5.", minimum=1)  # fmt: skip
    list_size: int | None = option(None, "Candidates of a list that are learnt from together; of longer lists the relevant ones and others drawn at random. Default: 8.", minimum=2, section="Rankings: queries with candidates, by train_file, eval_file and test_file", structural=True)  # fmt: skip
    redraw_lists: bool = option(False, "Draw the candidates of longer lists anew in every epoch, not once; all of them are then in memory.", structural=True)  # fmt: skip
    rank_loss: str | None = option(None, "listwise: a softmax over the candidates of a list. pairwise: each pair of which one is more relevant. Default: listwise.", choices=("listwise", "pairwise"), structural=True)  # fmt: skip
    rank_scale: float | None = option(None, "Multiplies scores before the softmax or sigmoid of the loss, MT-DNN's gamma; more makes differences of scores count more. Default: 1.", structural=True)  # fmt: skip
    relevant_label: str | None = option(None, "The label of relevant candidates, where labels are names, such as entailment; all others are not relevant. Default: labels are numbers from 0.", structural=True)  # fmt: skip
    siamese_loss: str | None = option(None, "multiple_negatives: the second texts of a batch, of which the own one is right; batches of 64 and more. classification: labels, by a layer on both vectors. cosine: scores. contrastive, online_contrastive: labels 1 and 0, all pairs or the hard ones of a batch. triplet: anchor, positive, negative. Default: multiple_negatives.", choices=("multiple_negatives", "classification", "cosine", "contrastive", "online_contrastive", "triplet"), section="Siamese networks: pairs or triplets of texts (docs/siamese.md)", structural=True)  # fmt: skip
    negative_column: str | None = option(None, "Column of a third text, which does not match the first, for triplet and multiple_negatives.")  # fmt: skip
    siamese_scale: float | None = option(None, "Multiplies the cosines of multiple_negatives. Default: 20.", structural=True)  # fmt: skip
    siamese_margin: float | None = option(None, "Of contrastive losses, in their distance (default 0.5), and of triplet, in Euclidean distance (default 1).", structural=True)  # fmt: skip
    siamese_distance: str | None = option(None, "Of contrastive losses: cosine, which is 1 - cosine, or euclidean. Answers are cosines in any case. Default: cosine.", choices=("cosine", "euclidean"), structural=True)  # fmt: skip
    siamese_symmetric: bool = option(False, "With multiple_negatives the second texts look for the first ones too.", structural=True)  # fmt: skip
    siamese_features: str | None = option(None, "What the layer of classification reads of the vectors u and v of two texts: some of u, v, difference (its size), product, parted by commas. Default: u,v,difference.", structural=True)  # fmt: skip
    max_score: float | None = option(None, "With cosine: the score that stands for a cosine of 1, such as 5 for STS-B. Default: 1.", structural=True)  # fmt: skip
    projection_dim: int | None = option(None, "Width of a Dense layer with tanh behind the pooling, so that vectors are as wide. Default: none.", minimum=1, structural=True)  # fmt: skip
    normalize_vectors: bool = option(False, "Vectors of length 1, in the loss too. (An index normalizes in any case.)", structural=True)  # fmt: skip
    distill_file: str | None = option(None, "Texts of the second phase, without labels: a .txt with one text a line, or a table. Default: those of train_file or data_dir.", section="Early exit: network and teacher learn from labels, then students from the teacher", structural=True)  # fmt: skip
    distill_epochs: float | None = option(None, "Passes over the texts of the second phase; 0 leaves it out. Default: 5.")  # fmt: skip
    distill_learning_rate: float | None = option(None, "Peak of the schedule of the second phase. Default: 2e-4; small networks want more.")  # fmt: skip
    distill_divergence: str | None = option(None, "From a student to the teacher. teacher_first: sum p_t log(p_t / p_s), as the released code. student_first: sum p_s log(p_s / p_t), as the paper. Default: teacher_first.", choices=DISTILLATIONS, structural=True)  # fmt: skip
    train_fraction: float | None = option(None, "Share of the training examples that are learnt from, drawn at random by seed, whatever their labels, such as 0.01.", maximum=1.0, section="Few labels", structural=True)  # fmt: skip
    num_train_examples: int | None = option(None, "So many training examples, drawn likewise.", minimum=1, structural=True)  # fmt: skip
    init_head: bool = option(False, "Begin with the head of init_checkpoint too, a run of the same task with the same labels.", section="Training", structural=True)  # fmt: skip
    task_dropout: float | None = option(None, "Dropout before the layer of the task. Default: that of the network; 0.1 for ALBERT.", maximum=0.99, structural=True)  # fmt: skip
    num_train_epochs: float = option(3.0, "Passes over the training rows.")
    eval_every: int | None = option(None, "Steps between two evaluations on eval_file, for few rows whose epochs are short. Default: an epoch.", minimum=1)  # fmt: skip
    early_stopping_patience: int | None = option(None, "End the training after so many evaluations in a row, by default epochs, without a better score on eval_file. Default: never.", minimum=1)  # fmt: skip
    train_batch_size: int = option(32, "Rows a step, over all devices.", minimum=1)
    pooling: str | None = option(None, "Which states answer, of tasks that ask one: published, what the paper of the system reads, such as BERT's pooler; the first or the last token, padding never; mean, max or attention, a mean with learned weights, over all tokens, special ones too; mean_sqrt_len, their sum over the root of their number; weighted_mean, where later tokens count more. Several side by side: mean+max. Default: the system's; for small networks that hide tokens mean+max (docs/probing.md).", choices=POOLINGS, joint=JOINT, structural=True)  # fmt: skip
    freeze_backbone: bool = option(False, "Only the head learns, of such tasks and of tag, from the states of a network that stays as it is and has no dropout; give a larger learning_rate, such as 1e-3.", structural=True)  # fmt: skip
    auxiliary_lm_weight: float | None = option(None, "Weight of the language model's loss beside the task's (GPT's lambda); 0 for none. Default: 0.5 for GPT and GPT-2; others cannot.", structural=True)  # fmt: skip
    learning_rate: float | None = option(None, "Peak of the schedule. Default: that of the paper, such as 5e-5 for BERT; for networks narrower than 768 it is 3e-4 up to a width of 128, with Muon 2e-3, and as much less as they are wider; for stories 1e-3.")  # fmt: skip
    warmup_proportion: float | None = option(None, "Share of the steps in which the learning rate rises. Default: 0.1, for GPT 0.002, for stories 0.05.", maximum=1.0)  # fmt: skip
    gradual_unfreezing: float = option(0.0, "Epochs between two layers that begin to learn, from the top down; 1 is ULMFiT's way. 0: all learn from the start.", structural=True)  # fmt: skip

    min_lr_ratio: float = 0.0
    lr_power: float = 1.0
    layerwise_lr_decay: float = 1.0
    save_checkpoints_steps: int = 500
    log_steps: int = 50
