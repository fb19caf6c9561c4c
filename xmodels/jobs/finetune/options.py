"""The options of `xmodels finetune`."""

import dataclasses
from typing import ClassVar

from data_pipelines.options.declaration import REQUIRED, option
from data_pipelines.options.input import encoding_option
from xmodels.jobs.training_options import TrainingOptions
from xmodels.layers.exits import DISTILLATIONS
from xmodels.layers.poolings import JOINT, POOLINGS
from xmodels.tasks.base import find

TASKS = find.names("task")
BEST_METRICS = ("accuracy", "positive_f1", "macro_f1", "micro_f1", "mcc", "seq2seq_accuracy", "exact_match")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(TrainingOptions):
    """A task, the network to fine-tune, and the labelled rows. What None stands for depends on the network."""

    JOB: ClassVar = "xmodels.jobs.finetune.run:finetune"
    EARLY: ClassVar = "xmodels.jobs.early:finetuning"

    task: str = option("classify", "Task to train:", section="Model", choices=TASKS, values={name: find.summary(name) for name in TASKS}, structural=True)  # fmt: skip
    init_checkpoint: str = option(REQUIRED, "Network to fine-tune: a run or model folder, hf:FOLDER, or tf1:PREFIX; or new:NETWORK or new:NETWORK/SIZE with random weights, such as new:text_cnn with --vocab_file (docs/rnn_cnn.md).", structural=True)  # fmt: skip
    random_init: bool = option(False, "Control experiment: start from random weights, and take only sizes and vocabulary from init_checkpoint.", structural=True)  # fmt: skip
    vocab_file: str | None = option(None, "Vocabulary, if the checkpoint has none or the network is new.")
    do_lower_case: bool | None = option(None, "Lower-case the text. Default: as the checkpoint says.")
    train_file: str | None = option(None, "Labelled rows to train on.", section="Data: TSV, CSV or JSON lines, or records of create_finetuning_data", structural=True)  # fmt: skip
    data_dir: str | None = option(None, "Folder of records to train on instead. eval_file and test_file may be folders of records too.", structural=True)  # fmt: skip
    eval_file: str | None = option(
        None, "Labelled rows for evaluation during training; their score decides which epoch is kept."
    )
    test_file: str | None = option(None, "Labelled rows for the test score, which is computed once, at the end.")
    encoding: str = encoding_option()
    text_column: str | None = option(None, "Column of the text: its name, or its position from 0 in a file without a header. Default: text, sentence, …")  # fmt: skip
    text_pair_column: str | None = option(None, "Column of the second text, for pairs.")
    label_column: str | None = option(None, "Column of the label. Default: label, class, …")
    on_bad_row: str = option("fail", "What to do with rows of a table that cannot be used (an empty label or text, unclosed quotes, missing columns). fail: stop and name the line. skip: leave them out and say which.", choices=("fail", "skip"))  # fmt: skip
    max_seq_length: int = option(
        128,
        "Maximum length in tokens. Longer texts are truncated; those of answer_span and tag are read in windows.",
        minimum=1,
        structural=True,
    )
    extend_positions: bool = option(False, "If max_seq_length exceeds the positions of the network, add the missing ones: copies of the first ones, which are then trained.", structural=True)  # fmt: skip
    class_weights: str | None = option(None, "Weights of labels in the loss. balanced: number of rows / (number of labels * rows with the label). LABEL:WEIGHT,...: as given, 1 for other labels. For multi_label: each label is balanced on its own, or WEIGHT applies to the rows that have it.", section="Labels of texts (docs/classify.md)", structural=True)  # fmt: skip
    best_metric: str | None = option(None, "Score on eval_file that chooses the best epoch. One label per text: accuracy, positive_f1 (with two labels, of the positive one), macro_f1 or mcc. multi_label: micro_f1, macro_f1 or accuracy (all labels of a text right). Text from text: seq2seq_accuracy, the share of right tokens, or exact_match, the share of right texts. Default: the first.", choices=BEST_METRICS, structural=True)  # fmt: skip
    positive_label: str | None = option(None, "With two labels: the positive one, to which positive_f1 and tune_threshold refer. Default: the second in sorted order.", structural=True)  # fmt: skip
    tune_threshold: bool = option(False, "With two labels: predict the positive one from the probability that gives the best best_metric on eval_file, instead of from 0.5.", structural=True)  # fmt: skip
    label_separator: str | None = option(None, "For --task=multi_label: separator between the labels of a text. Default: |.", structural=True)  # fmt: skip
    crf: bool = option(False, "Predict the tags of a text jointly, by a linear-chain CRF over its words.", section="Words with tags (docs/tag.md)", structural=True)  # fmt: skip
    bad_tags: str | None = option(None, "What to do with impossible tags, such as I-X after O in BIO. repair: read them as conlleval does, and say how many. refuse: stop at the first and name its line. Default: repair.", choices=("repair", "refuse"))  # fmt: skip
    feature_layers: str | None = option(None, "Layers of a frozen network that the head reads, such as -1,-2,-3,-4; 0 is the embedding. Default: the output of the network.", structural=True)  # fmt: skip
    combine_layers: str | None = option(None, "How several layers are combined. concat: concatenated. mix: a learnt weighted sum. Default: mix.", choices=("concat", "mix"), structural=True)  # fmt: skip
    bilstm_dim: int | None = option(None, "Width of each direction of a two-layer BiLSTM below the Dense layer. Default: no BiLSTM.", minimum=1, structural=True)  # fmt: skip
    tasks: str | None = option(None, "Numbers of the tasks to train jointly, such as 1,2,3. Default: all tasks in the files.", section="Stories: files of bAbI, or its folder, by train_file, eval_file and test_file", structural=True)  # fmt: skip
    questions_per_task: int | None = option(None, "Train only on this many questions of each task, from the first on. 1000 of 10000 is the small setting.", minimum=1, structural=True)  # fmt: skip
    held_out: float = option(0.0, "Share of the training stories that is held out to choose the best epoch, instead of an eval_file; usually 0.1.", maximum=0.9, structural=True)  # fmt: skip
    model_config_file: str | None = option(
        None, "JSON file with the sizes of a new network, instead of those of its named size."
    )
    ponder_weight: float = option(
        0.01, "Weight in the loss of the number of steps, for networks that decide on it themselves.", structural=True
    )
    prefix: str = option("", "Text put before each input, in training and wherever the run is used, such as 'summarize: '.", section="Text from text: tables of two columns of text, source and target", structural=True)  # fmt: skip
    max_target_length: int | None = option(None, "Maximum length of a target in tokens; longer ones are truncated. Default: max_seq_length.", minimum=2, structural=True)  # fmt: skip
    doc_stride: int | None = option(None, "For answer_span and tag: tokens between the starts of two consecutive windows over a long text. Default: 128; for tag, and where windows are shorter, half a window.", minimum=1, section="Answers in texts: files of SQuAD or CMRC 2018, by train_file, eval_file and test_file", structural=True)  # fmt: skip
    max_query_length: int | None = option(None, "Maximum length of a question in tokens; longer ones are truncated. Default: 64, at most half of max_seq_length.", minimum=1, structural=True)  # fmt: skip
    n_best_size: int | None = option(None, "Number of most likely starts, ends and answers that are considered. Default: 20.", minimum=1)  # fmt: skip
    max_answer_length: int | None = option(None, "Maximum length of an answer in tokens. Default: 30.", minimum=1)  # fmt: skip
    start_n_top: int | None = option(None, "For answer_beam: number of most likely starts for which ends are predicted. Default: 5.", minimum=1)  # fmt: skip
    end_n_top: int | None = option(None, "For answer_beam: number of most likely ends for each start. Default: 5.", minimum=1)  # fmt: skip
    list_size: int | None = option(None, "Candidates per list in training. From longer lists, the relevant ones and a random sample of the others are taken. Default: 8.", minimum=2, section="Rankings: queries with candidates, by train_file, eval_file and test_file", structural=True)  # fmt: skip
    redraw_lists: bool = option(False, "Draw the candidates of longer lists anew in every epoch instead of once. All candidates are then kept in memory.", structural=True)  # fmt: skip
    rank_loss: str | None = option(None, "listwise: a softmax over the candidates of a list. pairwise: every pair in which one candidate is more relevant. Default: listwise.", choices=("listwise", "pairwise"), structural=True)  # fmt: skip
    rank_scale: float | None = option(None, "Factor for the scores before the softmax or sigmoid of the loss (MT-DNN's gamma). With a larger one, differences between scores count more. Default: 1.", structural=True)  # fmt: skip
    relevant_label: str | None = option(None, "If labels are names: the label of relevant candidates, such as entailment. All other candidates are not relevant. Default: labels are numbers from 0.", structural=True)  # fmt: skip
    siamese_loss: str | None = option(None, "multiple_negatives: each first text must find its own second text among those of the batch; use batches of 64 and more. classification: labels, by a layer on both vectors. cosine: scores. contrastive, online_contrastive: labels 1 and 0, all pairs or only the hard ones of a batch. triplet: anchor, positive, negative. Default: multiple_negatives.", choices=("multiple_negatives", "classification", "cosine", "contrastive", "online_contrastive", "triplet"), section="Siamese networks: pairs or triplets of texts (docs/siamese.md)", structural=True)  # fmt: skip
    negative_column: str | None = option(None, "For triplet and multiple_negatives: column of a third text that does not match the first.")  # fmt: skip
    siamese_scale: float | None = option(None, "Factor for the cosines in multiple_negatives. Default: 20.", structural=True)  # fmt: skip
    siamese_margin: float | None = option(None, "Margin of the contrastive losses, in siamese_distance (default 0.5), and of triplet, in Euclidean distance (default 1).", structural=True)  # fmt: skip
    siamese_distance: str | None = option(None, "Distance in the contrastive losses: cosine, which is 1 - cosine similarity, or euclidean. Predictions are cosines in any case. Default: cosine.", choices=("cosine", "euclidean"), structural=True)  # fmt: skip
    siamese_symmetric: bool = option(False, "With multiple_negatives: each second text must also find its first text.", structural=True)  # fmt: skip
    siamese_features: str | None = option(None, "What the layer of classification reads of the vectors u and v of two texts: some of u, v, difference (absolute), product, comma-separated. Default: u,v,difference.", structural=True)  # fmt: skip
    max_score: float | None = option(None, "With siamese_loss=cosine: the score that corresponds to a cosine of 1, such as 5 for STS-B. Default: 1.", structural=True)  # fmt: skip
    projection_dim: int | None = option(None, "Width of a Dense layer with tanh after the pooling, and so of the vectors. Default: no such layer.", minimum=1, structural=True)  # fmt: skip
    normalize_vectors: bool = option(False, "Normalize vectors to length 1, in the loss too. (An index normalizes in any case.)", structural=True)  # fmt: skip
    distill_file: str | None = option(None, "Unlabelled texts for the second phase: a .txt with one text a line, or a table. Default: the texts of train_file or data_dir.", section="Early exit: network and teacher learn from labels, then students from the teacher", structural=True)  # fmt: skip
    distill_epochs: float | None = option(None, "Epochs of the second phase; 0 leaves it out. Default: 5.")  # fmt: skip
    distill_learning_rate: float | None = option(None, "Peak learning rate of the second phase. Default: 2e-4; small networks need more.")  # fmt: skip
    distill_divergence: str | None = option(None, "Divergence between student and teacher. teacher_first: sum p_t log(p_t / p_s), as in the released code. student_first: sum p_s log(p_s / p_t), as in the paper. Default: teacher_first.", choices=DISTILLATIONS, structural=True)  # fmt: skip
    train_fraction: float | None = option(None, "Share of the training examples to use, such as 0.01. They are drawn at random by seed, regardless of their labels.", maximum=1.0, section="Few labels", structural=True)  # fmt: skip
    num_train_examples: int | None = option(None, "Number of training examples to use, drawn in the same way.", minimum=1, structural=True)  # fmt: skip
    init_head: bool = option(False, "Also start from the head of init_checkpoint, which must be a run of the same task with the same labels.", section="Training", structural=True)  # fmt: skip
    task_dropout: float | None = option(None, "Dropout before the task's layer. Default: that of the network; 0.1 for ALBERT.", maximum=0.99, structural=True)  # fmt: skip
    num_train_epochs: float = option(3.0, "Number of passes over the training rows.")
    eval_every: int | None = option(None, "Steps between two evaluations on eval_file, for few rows, whose epochs are short. Default: one epoch.", minimum=1)  # fmt: skip
    early_stopping_patience: int | None = option(None, "Stop after this many evaluations in a row (by default one per epoch) without a better score on eval_file. Default: never.", minimum=1)  # fmt: skip
    train_batch_size: int = option(32, "Batch size: rows per step, over all devices.", minimum=1)
    pooling: str | None = option(None, "Hidden state that the head reads, for tasks that read one per text. published: as in the system's paper, such as BERT's pooler. first, last: the first or last token that is not padding. mean, max, attention (a mean with learned weights): over all tokens, including special ones. mean_sqrt_len: their sum divided by the root of their number. weighted_mean: later tokens count more. Concatenate several with +: mean+max. Default: the system's; for small masked language models mean+max (docs/probing.md).", choices=POOLINGS, joint=JOINT, structural=True)  # fmt: skip
    freeze_backbone: bool = option(False, "For such tasks and tag: train only the head, on a network that is frozen and runs without dropout. Give a larger learning_rate, such as 1e-3.", structural=True)  # fmt: skip
    auxiliary_lm_weight: float | None = option(None, "Weight of the language modelling loss beside the task's (GPT's lambda); 0 for none. Default: 0.5 for GPT and GPT-2. Other networks cannot use it.", structural=True)  # fmt: skip
    learning_rate: float | None = option(None, "Peak learning rate of the schedule. Default: that of the paper, such as 5e-5 for BERT. For networks narrower than 768: 3e-4 up to a width of 128, with Muon 2e-3, and less in proportion for wider ones. For stories: 1e-3.")  # fmt: skip
    warmup_proportion: float | None = option(None, "Warm-up, in which the learning rate rises, as a share of the steps. Default: 0.1, for GPT 0.002, for stories 0.05.", maximum=1.0)  # fmt: skip
    gradual_unfreezing: float = option(0.0, "Epochs between unfreezing one layer and the next, from the top down; 1 is ULMFiT's way. 0: all layers learn from the start.", structural=True)  # fmt: skip

    min_lr_ratio: float = 0.0
    lr_power: float = 1.0
    layerwise_lr_decay: float = 1.0
    save_checkpoints_steps: int = 500
    log_steps: int = 50
